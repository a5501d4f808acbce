//! What goes to the store and what comes back.

use std::fmt;

use crate::counters::{Delta, HashId};
use crate::units::{Key, Timestamp};

/// The number of one start of one node: new at every boot, so that nothing a former
/// life of the node left in the store is taken for this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Boot(u64);

impl Boot {
    /// The boot numbered `number`, which must be random.
    pub const fn new(number: u64) -> Boot {
        Boot(number)
    }
}

impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The field of a hash in which a lane's token lies. Never 16 bytes long, so it is
/// never a cell's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneName {
    /// This start of this node.
    pub boot: Boot,
    /// Grows when the lane has to go on under another name.
    pub number: u32,
}

impl fmt::Display for LaneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane:{}:{}", self.boot, self.number)
    }
}

/// What a lane's field holds after a batch was applied: compared for equality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Grows with every loss of the hash.
    pub generation: u32,
    /// Grows with every batch.
    pub number: u64,
}

impl Token {
    /// The token with this text; `None` if it is not one of ours.
    pub fn parse(text: &str) -> Option<Token> {
        let (generation, number) = text.split_once('.')?;
        Some(Token {
            generation: generation.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation, self.number)
    }
}

/// One script call's worth of deltas for one hash. It may be sent any number of
/// times and is applied at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The hash.
    pub id: HashId,
    /// The lane's field.
    pub lane: LaneName,
    /// The token that must be stored for the batch to be applied; `None`: the lane
    /// must not exist yet.
    pub previous: Option<Token>,
    /// The token that is stored with it.
    pub new: Token,
    /// The cells and what is sent for each; may be empty, to ask for the token only.
    pub cells: Vec<(Key, Delta)>,
}

/// What the store answers to a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchReply {
    /// The token that the lane holds now.
    pub token: Stored,
    /// What the fleet has used, cell by cell.
    pub totals: Vec<u64>,
    /// What the store says to the asks, in their order.
    pub told: Vec<Granted>,
    /// The store's time.
    pub time: Timestamp,
}

/// What the store says to an ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// The demand that all nodes report, in thousandths of cost per second.
    pub demand: u64,
    /// What was granted; the total has it.
    pub grant: u64,
}

/// What a lane's field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing: the hash is new, or was lost.
    Nothing,
    /// A token of ours.
    Token(Token),
    /// Something else.
    Foreign,
}

/// What a node says of itself to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// It is alive.
    Alive,
    /// It leaves.
    Leaving,
}

/// What the store answers to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloReply {
    /// Whether this node agrees with the fleet.
    pub agreement: Agreement,
    /// How many nodes are alive.
    pub nodes: u32,
    /// The store's time.
    pub time: Timestamp,
}

/// Whether a node may count with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// It may.
    Agreed,
    /// The fleet spreads its cells over another number of partitions.
    OtherPartitions(String),
    /// The fleet makes its keys with another secret.
    OtherSecret,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_are_written() {
        let token = Token {
            generation: 3,
            number: 17,
        };
        assert_eq!(Token::parse(&token.to_string()), Some(token));
        assert_eq!(Token::parse("3"), None);
        assert_eq!(Token::parse("x.1"), None);
    }

    #[test]
    fn a_lanes_field_is_never_a_cells() {
        for number in [0, 7, u32::MAX] {
            assert_ne!(
                LaneName {
                    boot: Boot::new(u64::MAX),
                    number
                }
                .to_string()
                .len(),
                16
            );
        }
    }
}
