use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::Claims;

/// So many parts are locked apart.
const PARTS: usize = 16;
/// So many tokens are remembered at most in each generation of a part.
const MOST: usize = 512;

/// The hash of a token.
pub(super) type TokenHash = [u8; 32];

/// Claims of tokens that were verified, bounded: what was not asked for during a whole
/// generation is forgotten.
#[derive(Default)]
pub(super) struct Cache([Mutex<Part>; PARTS]);

#[derive(Default)]
struct Part {
    young: HashMap<TokenHash, Arc<Claims>>,
    old: HashMap<TokenHash, Arc<Claims>>,
}

impl Cache {
    /// The claims of a token that is still valid at `now`, in seconds since the epoch.
    pub(super) fn get(&self, token: &TokenHash, now: u64) -> Option<Arc<Claims>> {
        let mut part = self.part(token);
        let young = part.young.get(token).cloned();
        let found = match young {
            Some(claims) => Some(claims),
            None => {
                let claims = part.old.remove(token)?;
                part.insert(*token, Arc::clone(&claims));
                Some(claims)
            }
        };
        let valid = found.filter(|claims| claims.expires > now);
        if valid.is_none() {
            part.young.remove(token);
        }
        valid
    }

    pub(super) fn insert(&self, token: TokenHash, claims: Arc<Claims>) {
        self.part(&token).insert(token, claims);
    }

    fn part(&self, token: &TokenHash) -> std::sync::MutexGuard<'_, Part> {
        let part = &self.0[usize::from(token[0]) % PARTS];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let of = |part: &Mutex<Part>| {
            let part = part.lock().unwrap();
            part.young.len() + part.old.len()
        };
        self.0.iter().map(of).sum()
    }
}

impl Part {
    fn insert(&mut self, token: TokenHash, claims: Arc<Claims>) {
        if self.young.len() >= MOST {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(token, claims);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(expires: u64) -> Arc<Claims> {
        Arc::new(Claims {
            expires,
            ..Claims::default()
        })
    }

    fn hash(n: u32) -> TokenHash {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&n.to_le_bytes());
        hash
    }

    #[test]
    fn a_token_is_remembered_until_it_expires() {
        let cache = Cache::default();
        cache.insert(hash(1), claims(100));
        assert_eq!(cache.get(&hash(1), 99).map(|c| c.expires), Some(100));
        assert!(cache.get(&hash(2), 99).is_none());
        assert!(cache.get(&hash(1), 100).is_none());
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn it_stays_small_and_keeps_what_is_asked_for() {
        let cache = Cache::default();
        cache.insert(hash(0), claims(100));
        for n in 1..100_000 {
            cache.insert(hash(n), claims(100));
            assert!(cache.get(&hash(0), 1).is_some(), "{n}");
        }
        assert!(cache.len() <= 2 * MOST * PARTS, "{}", cache.len());
    }
}
