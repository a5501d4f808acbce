//! Whether the store may evict what was counted.

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use super::pacing::EXCHANGE_TIMEOUT;
use super::wire::text;

/// What a server does when its memory is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// The most that it uses, in bytes; zero for all that there is.
    max: u64,
    policy: String,
}

impl Memory {
    /// The policy by which keys are evicted; `None` if none ever is.
    pub(super) fn evicting(&self) -> Option<&str> {
        let evicts = self.max > 0 && self.policy != "noeviction";
        evicts.then_some(&self.policy)
    }

    fn read(info: &str) -> Option<Memory> {
        let value = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let policy = value("maxmemory_policy")?.trim();
        let sound = |b: u8| b.is_ascii_lowercase() || b == b'-';
        let sound = policy.len() <= 32 && policy.bytes().all(sound);
        Some(Memory {
            max: value("maxmemory")?.trim().parse().ok()?,
            policy: Some(policy).filter(|_| sound)?.to_owned(),
        })
    }
}

/// Asks the server; `None` if it does not say.
pub(super) async fn ask(connection: &mut MultiplexedConnection) -> Option<Memory> {
    let mut command = redis::cmd("INFO");
    command.arg("memory");
    let asking = timeout(EXCHANGE_TIMEOUT, command.query_async::<Value>(connection));
    Memory::read(&text(&asking.await.ok()?.ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_evicts_if_its_memory_is_bounded_and_its_policy_lets_it() {
        let evicting = |max: &str, policy: &str| {
            let info = format!(
                "# Memory\r\nused_memory:9\r\nmaxmemory:{max}\r\nmaxmemory_human:1B\r\n\
                 maxmemory_policy:{policy}\r\n"
            );
            let memory = Memory::read(&info)?;
            Some(memory.evicting().map(str::to_owned))
        };
        let policy = |name: &str| Some(Some(name.to_owned()));
        assert_eq!(evicting("100", "allkeys-lru"), policy("allkeys-lru"));
        assert_eq!(evicting("100", "volatile-ttl"), policy("volatile-ttl"));
        assert_eq!(evicting("0", "allkeys-lru"), Some(None));
        assert_eq!(evicting("100", "noeviction"), Some(None));
        assert_eq!(evicting("x", "noeviction"), None);
        assert_eq!(evicting("100", "a\u{1b}[0m"), None);
        assert_eq!(Memory::read(""), None);
    }
}
