//! Batches and replies in the form of the scripts under `lua/`.

use redis::{Cmd, ErrorKind, RedisError, Script, Value};

use super::announcement;
use super::batch::{Agreement, Batch, BatchReply, Boot, Granted, Hello, HelloReply, Stored, Token};
use super::config::SyncConfig;
use super::error::Failure;
use super::seal::{self, SEAL, Seal, Told};
use crate::counters::{Delta, HashId, Slot, Space};
use crate::units::{Consistency, Nanos, Partition, Partitions, Timestamp};

/// How long a node counts as alive without saying so again.
pub const ALIVE: Nanos = Nanos::from_secs(5);

/// The scripts, and the names of the keys that they work on.
pub struct Wire {
    fleet: String,
    /// Where cells that reach their limit are announced.
    channel: String,
    /// This node's name and boot number.
    node: String,
    partitions: Partitions,
    check_value: String,
    window: Script,
    bucket: Script,
    hello: Script,
    seal: Script,
}

const WINDOW: &str = include_str!("../../lua/sync_window.lua");
const BUCKET: &str = include_str!("../../lua/sync_bucket.lua");
const HELLO: &str = include_str!("../../lua/sync_hello.lua");

impl Wire {
    /// The wire of the fleet that `config` tells of, for this start of this node.
    pub fn new(config: &SyncConfig, boot: Boot) -> Wire {
        let check_value = config
            .secret
            .check_value()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Wire {
            fleet: config.fleet.clone(),
            channel: announcement::channel(&config.fleet),
            node: format!("{}:{boot}", config.node),
            partitions: config.partitions,
            check_value,
            window: Script::new(WINDOW),
            bucket: Script::new(BUCKET),
            hello: Script::new(HELLO),
            seal: Script::new(SEAL),
        }
    }

    /// The commands that teach the store the scripts.
    pub fn load() -> [Cmd; 4] {
        [WINDOW, BUCKET, HELLO, SEAL].map(|script| {
            let mut command = redis::cmd("SCRIPT");
            command.arg("LOAD").arg(script);
            command
        })
    }

    /// The command that carries `batch` on a connection whose server has this `seal`.
    pub fn batch(&self, batch: &Batch, seal: Option<&Seal>) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        let HashId { partition, slot } = batch.id;
        let mut packed = Packed::with_capacity(128 + 18 * batch.cells.len());
        let buckets = !slot.space.counts();
        let sealed = sealed(batch);
        let seal_fields = if sealed.is_empty() { 0 } else { 3 };
        packed.array(10 + usize::from(buckets) + seal_fields);
        packed.text(
            &batch
                .previous
                .map(|token| token.to_string())
                .unwrap_or_default(),
        );
        packed.text(&batch.new.to_string());
        packed.number(slot.time_to_live().as_millis_ceil());
        packed.number(u64::from(batch.previous.is_none()));
        packed.number(if buckets {
            0
        } else {
            slot.end().as_nanos() / 1_000
        });
        packed.text(&announcement::slot_name(slot));
        packed.text(&self.channel);
        packed.array(batch.cells.len());
        for (_, delta) in &batch.cells {
            packed.signed(delta.cost);
        }
        packed.array(batch.cells.len());
        for (_, delta) in &batch.cells {
            packed.number(delta.room);
        }
        let asks = || {
            batch
                .cells
                .iter()
                .zip(1u64..)
                .filter_map(|((_, delta), number)| Some((number, delta.ask?)))
        };
        packed.array(6 * asks().count());
        for (number, ask) in asks() {
            packed.number(number);
            packed.number(ask.want);
            packed.number(u64::from(ask.portion));
            packed.number(ask.unit);
            packed.signed(ask.demand);
            packed.number(ask.announced_from);
        }
        match slot.space {
            Space::Windows { .. } | Space::Calendar(_) => {
                command.arg(self.window.get_hash());
                if sealed.is_empty() {
                    command.arg(1).arg(self.key(partition, slot));
                } else {
                    let seal = seal.filter(|seal| seal.covers(slot));
                    packed.text(seal.map_or("", Seal::text));
                    packed.number(seal::lent_from(slot).as_nanos().div_ceil(1_000));
                    packed.array(sealed.len());
                    for number in sealed {
                        packed.number(number);
                    }
                    command.arg(2).arg(self.key(partition, slot));
                    command.arg(seal::key(&self.fleet));
                }
            }
            Space::Buckets { .. } => {
                packed.number(slot.length().get().div_ceil(1_000));
                command.arg(self.bucket.get_hash()).arg(3);
                for slot in [slot, slot.previous(), slot.next()] {
                    command.arg(self.key(partition, slot));
                }
            }
        }
        command.arg(batch.lane.to_string());
        for (key, _) in &batch.cells {
            command.arg(&key.to_bytes());
        }
        command.arg(packed.0);
        command
    }

    /// The command that asks for the seal.
    pub fn seal(&self, told: &Told) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.seal.get_hash());
        command
            .arg(1)
            .arg(seal::key(&self.fleet))
            .arg(told.number());
        command
    }

    /// The command that says `hello`.
    pub fn hello(&self, hello: Hello) -> Cmd {
        let word = match hello {
            Hello::Alive => "alive",
            Hello::Leaving => "leaving",
        };
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.hello.get_hash()).arg(2);
        command.arg(format!("{}:{{fleet}}:agreed", self.fleet));
        command.arg(format!("{}:{{fleet}}:nodes", self.fleet));
        command.arg(self.partitions.get()).arg(&self.check_value);
        command
            .arg(&self.node)
            .arg(ALIVE.as_millis_ceil())
            .arg(word);
        command
    }

    /// Reads the store's answer to `batch`.
    ///
    /// # Errors
    /// [`Failure::BadReply`] if it is not what the script answers.
    pub fn batch_reply(&self, batch: &Batch, value: Value) -> Result<BatchReply, Failure> {
        let Value::Array(items) = value else {
            return Err(Failure::BadReply);
        };
        let [token, seconds, micros, totals @ ..] = &items[..] else {
            return Err(Failure::BadReply);
        };
        let token = match token {
            Value::Nil => Stored::Nothing,
            value => text(value)
                .and_then(|text| Token::parse(&text))
                .map_or(Stored::Foreign, Stored::Token),
        };
        let numbers: Option<Vec<u64>> = totals.iter().map(number).collect();
        let mut totals = numbers.ok_or(Failure::BadReply)?;
        let asks = batch.cells.iter().filter(|(_, delta)| delta.ask.is_some());
        if totals.len() != batch.cells.len() + 2 * asks.count() {
            return Err(Failure::BadReply);
        }
        let told = totals.split_off(batch.cells.len());
        let told = told.chunks_exact(2).map(|told| Granted {
            demand: told[0],
            grant: told[1],
        });
        Ok(BatchReply {
            token,
            told: told.collect(),
            totals,
            time: time(seconds, micros)?,
        })
    }

    /// Reads the store's answer to a hello.
    ///
    /// # Errors
    /// [`Failure::BadReply`] if it is not what the script answers.
    pub fn hello_reply(&self, value: Value) -> Result<HelloReply, Failure> {
        let Value::Array(items) = value else {
            return Err(Failure::BadReply);
        };
        let [partitions, secret, seconds, micros, nodes] = &items[..] else {
            return Err(Failure::BadReply);
        };
        let partitions = text(partitions).ok_or(Failure::BadReply)?;
        let agreement = if partitions != self.partitions.get().to_string() {
            Agreement::OtherPartitions(partitions.chars().take(16).collect())
        } else if text(secret).as_ref() != Some(&self.check_value) {
            Agreement::OtherSecret
        } else {
            Agreement::Agreed
        };
        let nodes = number(nodes).and_then(|nodes| u32::try_from(nodes).ok());
        let nodes = nodes.ok_or(Failure::BadReply)?;
        Ok(HelloReply {
            agreement,
            nodes,
            time: time(seconds, micros)?,
        })
    }

    /// The name of a hash. The braces make all hashes of a partition lie together
    /// in a cluster.
    pub fn key(&self, partition: Partition, slot: Slot) -> String {
        hash_name(&self.fleet, partition, slot)
    }
}

/// The numbers of the cells that are lent nothing where the store may have forgotten.
fn sealed(batch: &Batch) -> Vec<u64> {
    if !seal::is_sealed(batch.id.slot) {
        return Vec::new();
    }
    let bounded = |delta: &Delta| {
        let promise = delta.ask.map(|ask| ask.promise);
        promise == Some(Consistency::Bounded)
    };
    let numbered = (1u64..).zip(&batch.cells);
    numbered
        .filter(|(_, (_, delta))| bounded(delta))
        .map(|(number, _)| number)
        .collect()
}

/// The name of a hash. The braces make all hashes of a partition lie together in a
/// cluster.
pub(super) fn hash_name(fleet: &str, partition: Partition, slot: Slot) -> String {
    let Slot { space, window } = slot;
    format!("{fleet}:{{p{}}}:{space}:{}", partition.get(), window.get())
}

/// A msgpack document. Writing into a vector cannot fail.
pub(super) struct Packed(pub(super) Vec<u8>);

impl Packed {
    pub(super) fn with_capacity(bytes: usize) -> Packed {
        Packed(Vec::with_capacity(bytes))
    }

    pub(super) fn array(&mut self, length: usize) {
        let _ =
            rmp::encode::write_array_len(&mut self.0, u32::try_from(length).unwrap_or(u32::MAX));
    }

    pub(super) fn text(&mut self, text: &str) {
        let _ = rmp::encode::write_str(&mut self.0, text);
    }

    pub(super) fn number(&mut self, number: u64) {
        let _ = rmp::encode::write_uint(&mut self.0, number);
    }

    pub(super) fn signed(&mut self, number: i64) {
        let _ = rmp::encode::write_sint(&mut self.0, number);
    }
}

/// What an error of the client library means.
pub(super) fn failure(error: &RedisError) -> Failure {
    let by_code = error
        .code()
        .map(|code| Failure::from_error_line(code, error.detail().unwrap_or_default()));
    match (error.kind(), by_code) {
        (_, Some(failure)) if failure != Failure::Other => failure,
        (ErrorKind::AuthenticationFailed, _) => Failure::Denied,
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => Failure::BadReply,
        _ if error.is_timeout() => Failure::Timeout,
        _ if error.is_io_error() || error.is_connection_dropped() => Failure::Disconnected,
        _ => Failure::Other,
    }
}

pub(super) fn time(seconds: &Value, micros: &Value) -> Result<Timestamp, Failure> {
    let (seconds, micros) = number(seconds)
        .zip(number(micros))
        .ok_or(Failure::BadReply)?;
    Ok(Timestamp::EPOCH
        .after(Nanos::from_secs(seconds))
        .after(Nanos::new(micros.saturating_mul(1_000))))
}

pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        value => text(value)?.parse().ok(),
    }
}
