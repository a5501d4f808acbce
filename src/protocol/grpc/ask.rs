use smallvec::SmallVec;

use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use super::messages::envoy::service::ratelimit::v3::RateLimitRequest;
use super::messages::envoy::r#type::v3::RateLimitUnit;
use crate::rules::{Descriptor, StatedLimit, Unit};
use crate::units::Cost;

/// The longest message of a request, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1_024;

/// What one call asks: something about each descriptor, in order, each on its own.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    request: &'a RateLimitRequest,
}

/// One descriptor of a call.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    domain: &'a str,
    descriptor: &'a RateLimitDescriptor,
    /// What the request as a whole says of hits.
    otherwise: u32,
}

/// What a descriptor wants of its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// May it take so many? All of them or none; none is a peek.
    Asked(Cost),
    /// So many were used, or will be whatever the answer is: all are counted. It is how a
    /// gateway tells at the end of a stream what that has cost.
    Used(Cost),
    /// So many come back.
    Returned(Cost),
}

/// Why a request asks for nothing that can be decided. Nothing was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// There is no domain.
    #[error("the domain is empty")]
    NoDomain,
    /// There is no descriptor.
    #[error("there is no descriptor")]
    NoDescriptors,
}

impl<'a> Asked<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// [`BadRequest`], if it asks for nothing.
    pub fn read(request: &'a RateLimitRequest) -> Result<Asked<'a>, BadRequest> {
        if request.domain.is_empty() {
            return Err(BadRequest::NoDomain);
        }
        if request.descriptors.is_empty() {
            return Err(BadRequest::NoDescriptors);
        }
        Ok(Asked { request })
    }

    /// The domain of all descriptors.
    pub fn domain(&self) -> &'a str {
        &self.request.domain
    }

    /// The descriptors, in order.
    pub fn checks(&self) -> impl ExactSizeIterator<Item = Check<'a>> + use<'a> {
        let request = self.request;
        request.descriptors.iter().map(|descriptor| Check {
            domain: &request.domain,
            descriptor,
            otherwise: request.hits_addend,
        })
    }
}

impl Check<'_> {
    /// What is wanted. Hits of the descriptor's own come before those of the whole
    /// request, of which 0 is the same as none and means 1.
    pub fn hits(&self) -> Hits {
        let otherwise = Cost::new(u64::from(self.otherwise.max(1)));
        let own = self.descriptor.hits_addend.map(Cost::new);
        match own {
            Some(own) if own.is_peek() => Hits::Asked(own),
            _ if self.descriptor.is_negative_hits => Hits::Returned(own.unwrap_or(otherwise)),
            Some(own) => Hits::Used(own),
            None => Hits::Asked(otherwise),
        }
    }

    /// The descriptor's entries, in order.
    pub fn entries(&self) -> Entries<'_> {
        let entries = self.descriptor.entries.iter();
        entries
            .map(|entry| (entry.key.as_str(), entry.value.as_str()))
            .collect()
    }

    /// The descriptor as the engine has it, with its [`entries`](Check::entries).
    pub fn descriptor<'e>(&'e self, entries: &'e [(&'e str, &'e str)]) -> Descriptor<'e> {
        Descriptor {
            domain: self.domain,
            entries,
            stated: self.descriptor.limit.as_ref().and_then(stated),
        }
    }
}

/// Key and value of each entry of a descriptor.
pub type Entries<'a> = SmallVec<[(&'a str, &'a str); 4]>;

/// The limit that the gateway states; `None` without a unit that is known, or with several of
/// it that are not one of another.
fn stated(limit: &RateLimitOverride) -> Option<StatedLimit> {
    let unit = match RateLimitUnit::try_from(limit.unit).ok()? {
        RateLimitUnit::Unknown => return None,
        RateLimitUnit::Second => Unit::Second,
        RateLimitUnit::Minute => Unit::Minute,
        RateLimitUnit::Hour => Unit::Hour,
        RateLimitUnit::Day => Unit::Day,
        RateLimitUnit::Month => Unit::Month,
        RateLimitUnit::Year => Unit::Year,
    };
    let times = limit.unit_multiplier.unwrap_or(1).max(1);
    Some(StatedLimit {
        requests: limit.requests_per_unit,
        unit: Unit::of(unit.period().times(times.into()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::grpc::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;

    fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
        let entry = |(key, value): &(&str, &str)| Entry {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        RateLimitDescriptor {
            entries: entries.iter().map(entry).collect(),
            ..RateLimitDescriptor::default()
        }
    }

    fn request(descriptors: Vec<RateLimitDescriptor>, hits_addend: u32) -> RateLimitRequest {
        RateLimitRequest {
            domain: "d".to_owned(),
            descriptors,
            hits_addend,
        }
    }

    fn hits(of_descriptor: Option<u64>, negative: bool, of_request: u32) -> Hits {
        let descriptor = RateLimitDescriptor {
            hits_addend: of_descriptor,
            is_negative_hits: negative,
            ..descriptor(&[])
        };
        let request = request(vec![descriptor], of_request);
        Asked::read(&request)
            .unwrap()
            .checks()
            .next()
            .unwrap()
            .hits()
    }

    #[test]
    fn without_hits_one_is_asked_for() {
        assert_eq!(hits(None, false, 0), Hits::Asked(Cost::ONE));
        assert_eq!(hits(None, false, 7), Hits::Asked(Cost::new(7)));
        let most = u32::MAX;
        assert_eq!(hits(None, false, most), Hits::Asked(Cost::new(most.into())));
    }

    #[test]
    fn hits_of_the_descriptor_come_first_and_none_of_them_is_a_peek() {
        assert_eq!(hits(Some(0), false, 7), Hits::Asked(Cost::ZERO));
        assert_eq!(hits(Some(0), true, 7), Hits::Asked(Cost::ZERO));
        assert_eq!(hits(Some(1), false, 7), Hits::Used(Cost::ONE));
        let huge = 1 << 63;
        assert_eq!(hits(Some(huge), false, 0), Hits::Used(Cost::new(huge)));
    }

    #[test]
    fn negative_hits_come_back() {
        assert_eq!(hits(Some(3), true, 7), Hits::Returned(Cost::new(3)));
        assert_eq!(hits(None, true, 7), Hits::Returned(Cost::new(7)));
        assert_eq!(hits(None, true, 0), Hits::Returned(Cost::ONE));
    }

    #[test]
    fn every_descriptor_is_asked_about_in_order_with_what_it_states() {
        let limit = |unit: i32, unit_multiplier| {
            Some(RateLimitOverride {
                requests_per_unit: 9,
                unit,
                unit_multiplier,
            })
        };
        let mut descriptors = vec![
            descriptor(&[("a", "1"), ("b", "")]),
            descriptor(&[]),
            descriptor(&[("c", "2")]),
            descriptor(&[("c", "2")]),
            descriptor(&[("c", "2")]),
            descriptor(&[("c", "2")]),
        ];
        descriptors[0].limit = limit(2, None);
        descriptors[2].limit = limit(0, None);
        descriptors[3].limit = limit(99, None);
        descriptors[4].limit = limit(4, Some(7));
        descriptors[5].limit = limit(1, Some(10));
        let request = request(descriptors, 0);
        let asked = Asked::read(&request).unwrap();
        assert_eq!(asked.domain(), "d");
        let told: Vec<String> = asked
            .checks()
            .map(|check| {
                let entries = check.entries();
                let it = check.descriptor(&entries);
                format!("{} {:?} {:?}", it.domain, it.entries, it.stated)
            })
            .collect();
        assert_eq!(
            told,
            [
                r#"d [("a", "1"), ("b", "")] Some(StatedLimit { requests: 9, unit: Minute })"#,
                "d [] None",
                r#"d [("c", "2")] None"#,
                r#"d [("c", "2")] None"#,
                r#"d [("c", "2")] Some(StatedLimit { requests: 9, unit: Week })"#,
                r#"d [("c", "2")] None"#,
            ]
        );
    }

    #[test]
    fn without_a_domain_or_a_descriptor_nothing_is_asked() {
        let nameless = RateLimitRequest {
            domain: String::new(),
            ..request(vec![descriptor(&[])], 0)
        };
        assert_eq!(Asked::read(&nameless).unwrap_err(), BadRequest::NoDomain);
        let empty = request(Vec::new(), 0);
        assert_eq!(Asked::read(&empty).unwrap_err(), BadRequest::NoDescriptors);
    }
}
