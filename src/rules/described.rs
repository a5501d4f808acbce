//! The request that rules are matched with.

use std::net::IpAddr;

/// Name and value pairs that a caller stated, in its order; names in lower case.
pub type Pairs<'a> = &'a [(&'a str, &'a str)];

/// The request that an application or gateway describes, to be matched by rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Described<'a> {
    /// The request's method, as stated.
    pub method: &'a str,
    /// The request's path, as stated: with its query, not yet normalised.
    pub path: &'a str,
    /// The client's address, as stated by the asker.
    pub ip: Option<IpAddr>,
    /// The address of the asker itself, on TCP.
    pub peer: Option<IpAddr>,
    /// The request's headers, as far as the asker passed them on.
    pub headers: Pairs<'a>,
    /// What the asker says about the caller: `user`, `tier` and the like.
    pub attributes: Pairs<'a>,
}
