use std::collections::BTreeMap;

use prost::Message;

use crate::units::Nanos;

/// The most entries of a bucket.
const MAX_ENTRIES: usize = 16;
/// The longest bucket: its domain, and keys and values together, in bytes.
const MAX_BUCKET: usize = 1_024;

/// A message of a gateway: what it has admitted and refused on its own.
///
/// On the wire it is a `RateLimitQuotaUsageReports`. Values of buckets are read as bytes,
/// because they may be a client's: one that is no text must not spoil what is reported of all
/// others.
#[derive(Clone, PartialEq, Message)]
pub struct Reports {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    usages: Vec<WireUsage>,
}

#[derive(Clone, PartialEq, Message)]
struct WireUsage {
    #[prost(message, optional, tag = "1")]
    bucket: Option<WireBucket>,
    #[prost(message, optional, tag = "2")]
    elapsed: Option<prost_types::Duration>,
    #[prost(uint64, tag = "3")]
    allowed: u64,
    #[prost(uint64, tag = "4")]
    denied: u64,
}

#[derive(Clone, PartialEq, Message)]
struct WireBucket {
    #[prost(btree_map = "string, bytes", tag = "1")]
    entries: BTreeMap<String, Vec<u8>>,
}

/// Whom requests are counted for: a domain, and entries of key and value in the order of
/// their keys, each of which there is once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    domain: Box<str>,
    entries: Box<[(Box<str>, Box<str>)]>,
}

/// What became of the requests of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Whose they were.
    pub bucket: Bucket,
    /// How many were admitted.
    pub allowed: u64,
    /// How many were refused.
    pub denied: u64,
    /// In how long, as the gateway says: in whole seconds, so often in none.
    pub elapsed: Nanos,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// In the order of the message.
    pub usages: Vec<Usage>,
    /// How many usages are of buckets that are too long or no text: nothing is known of them.
    pub unusable: usize,
}

/// Why a message says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReports {
    /// There never was a domain.
    #[error("the domain is empty")]
    NoDomain,
    /// A bucket has no entries.
    #[error("the id of a bucket is empty")]
    NoBucket,
}

impl Reports {
    /// Reads a message. `domain` is that of the stream's message before, or empty; afterwards
    /// it is this one's.
    ///
    /// # Errors
    /// [`BadReports`]; `domain` may have changed.
    pub fn read(self, domain: &mut String) -> Result<Read, BadReports> {
        if !self.domain.is_empty() {
            *domain = self.domain;
        }
        if domain.is_empty() {
            return Err(BadReports::NoDomain);
        }
        let mut read = Read {
            usages: Vec::with_capacity(self.usages.len()),
            unusable: 0,
        };
        for usage in self.usages {
            let entries = usage.bucket.unwrap_or_default().entries;
            if entries.is_empty() {
                return Err(BadReports::NoBucket);
            }
            let Some(bucket) = Bucket::new(domain, entries) else {
                read.unusable += 1;
                continue;
            };
            read.usages.push(Usage {
                bucket,
                allowed: usage.allowed,
                denied: usage.denied,
                elapsed: usage.elapsed.map_or(Nanos::ZERO, nanos),
            });
        }
        Ok(read)
    }
}

impl Bucket {
    /// The bucket of these entries; `None` if they are too many, too long or no text.
    fn new(domain: &str, entries: BTreeMap<String, Vec<u8>>) -> Option<Bucket> {
        let sizes = entries.iter().map(|(key, value)| key.len() + value.len());
        if entries.len() > MAX_ENTRIES || domain.len() + sizes.sum::<usize>() > MAX_BUCKET {
            return None;
        }
        let text = |(key, value): (String, Vec<u8>)| {
            let value = String::from_utf8(value).ok()?;
            Some((key.into(), value.into()))
        };
        Some(Bucket {
            domain: domain.into(),
            entries: entries.into_iter().map(text).collect::<Option<_>>()?,
        })
    }

    /// The bucket of these entries, whose keys differ, for tests.
    #[cfg(test)]
    pub(crate) fn of(domain: &str, entries: &[(&str, &str)]) -> Bucket {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), value.as_bytes().to_vec());
        Bucket::new(domain, entries.iter().map(pair).collect()).unwrap()
    }

    /// Its domain.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Key and value of each entry, in the order of the keys.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// A duration of the wire; one that is negative is none.
fn nanos(duration: prost_types::Duration) -> Nanos {
    let seconds = Nanos::from_secs(u64::try_from(duration.seconds).unwrap_or(0));
    seconds.plus(Nanos::new(u64::try_from(duration.nanos).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
    use crate::protocol::grpc::messages::envoy::service::rate_limit_quota::v3::{
        BucketId, RateLimitQuotaUsageReports,
    };

    fn usage(entries: &[(&str, &str)], allowed: u64, denied: u64) -> BucketQuotaUsage {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        BucketQuotaUsage {
            bucket_id: Some(BucketId {
                bucket: entries.iter().map(pair).collect(),
            }),
            time_elapsed: Some(prost_types::Duration {
                seconds: 5,
                nanos: 1,
            }),
            num_requests_allowed: allowed,
            num_requests_denied: denied,
        }
    }

    /// What is read of the message as a gateway sends it.
    fn read(
        stated: &str,
        usages: Vec<BucketQuotaUsage>,
        domain: &mut String,
    ) -> Result<Read, BadReports> {
        let sent = RateLimitQuotaUsageReports {
            domain: stated.to_owned(),
            bucket_quota_usages: usages,
        };
        let reports = Reports::decode(sent.encode_to_vec().as_slice()).unwrap();
        reports.read(domain)
    }

    #[test]
    fn a_message_says_what_was_admitted_and_refused_of_each_bucket_in_order() {
        let mut domain = String::new();
        let usages = vec![
            usage(&[("user", "u"), ("name", "n")], 3, 4),
            usage(&[("name", "")], u64::MAX, 0),
        ];
        let said = read("shop", usages, &mut domain).unwrap();
        assert_eq!((said.unusable, said.usages.len()), (0, 2));
        let [first, second] = &said.usages[..] else {
            unreachable!()
        };
        let entries: Vec<_> = first.bucket.entries().collect();
        assert_eq!(first.bucket.domain(), "shop");
        assert_eq!(entries, [("name", "n"), ("user", "u")]);
        assert_eq!((first.allowed, first.denied), (3, 4));
        assert_eq!(first.elapsed, Nanos::new(5_000_000_001));
        assert_eq!((second.allowed, second.denied), (u64::MAX, 0));
    }

    #[test]
    fn the_domain_is_that_of_the_message_before_where_none_is_stated() {
        let mut domain = String::new();
        let one = || vec![usage(&[("user", "u")], 1, 0)];
        let nowhere = read("", one(), &mut domain);
        assert_eq!(nowhere, Err(BadReports::NoDomain));
        for (stated, known) in [("shop", "shop"), ("", "shop"), ("other", "other")] {
            let said = read(stated, one(), &mut domain).unwrap();
            assert_eq!(said.usages[0].bucket.domain(), known);
        }
    }

    #[test]
    fn a_bucket_without_entries_is_an_error() {
        let mut domain = String::new();
        let empty = read("shop", vec![usage(&[], 1, 0)], &mut domain);
        assert_eq!(empty, Err(BadReports::NoBucket));
        let missing = BucketQuotaUsage {
            bucket_id: None,
            ..usage(&[], 1, 0)
        };
        let missing = read("shop", vec![missing], &mut domain);
        assert_eq!(missing, Err(BadReports::NoBucket));
    }

    #[test]
    fn what_is_too_long_or_no_text_is_left_out_and_the_rest_is_read() {
        let mut domain = "shop".to_owned();
        let long = "x".repeat(1_021);
        let keys: Vec<String> = (0..17).map(|n| n.to_string()).collect();
        let many: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, "")).collect();
        let usages = vec![
            usage(&[("user", &long)], 1, 0),
            usage(&many, 1, 0),
            usage(&many[1..], 2, 0),
            usage(&[("user", &long[5..])], 3, 0),
        ];
        let said = read("", usages, &mut domain).unwrap();
        assert_eq!(said.unusable, 2);
        let allowed: Vec<_> = said.usages.iter().map(|usage| usage.allowed).collect();
        assert_eq!(allowed, [2, 3]);

        let entries = [("user".to_owned(), vec![0xff])];
        let no_text = Reports {
            domain: String::new(),
            usages: vec![WireUsage {
                bucket: Some(WireBucket {
                    entries: entries.into(),
                }),
                ..WireUsage::default()
            }],
        };
        let sent = Reports::decode(no_text.encode_to_vec().as_slice()).unwrap();
        let said = sent.read(&mut domain).unwrap();
        assert_eq!((said.unusable, said.usages.len()), (1, 0));
    }

    #[test]
    fn a_negative_time_is_none() {
        let duration = |seconds, nanos| prost_types::Duration { seconds, nanos };
        assert_eq!(nanos(duration(-1, -5)), Nanos::ZERO);
        assert_eq!(nanos(duration(i64::MAX, 5)), Nanos::MAX);
    }
}
