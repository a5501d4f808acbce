use smallvec::SmallVec;

use super::domains::Fit;
use crate::rules::RuleSet;

/// So many steps are tried. Each leads to another node, so that only many rules of many
/// entries without values make more.
const MOST_STEPS: usize = 1_024;

/// Key and value of entries, in an order that was looked for.
type Ordered<'a> = SmallVec<[(&'a str, &'a str); 4]>;

/// What lies before a search: a node, the entries that led there and those that are left.
struct Place<'a> {
    at: usize,
    taken: Ordered<'a>,
    left: Ordered<'a>,
}

impl RuleSet {
    /// The same entries in the order in which a rule of `domain` has them, or an exemption;
    /// `None` if none has just these in any order. No key may be there twice.
    ///
    /// At each step the entry is taken first that the rules mean most exactly: by its value,
    /// before a wildcard, before any value; of several as exact ones the first. Where that
    /// leads nowhere the next is tried.
    pub fn in_order<'a>(
        &self,
        domain: &str,
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Option<Ordered<'a>> {
        let domains = &self.domains;
        let mut places = vec![Place {
            at: domains.root(domain)?,
            taken: Ordered::new(),
            left: entries.into_iter().collect(),
        }];
        for _ in 0..MOST_STEPS {
            let place = places.pop()?;
            if place.left.is_empty() && !place.taken.is_empty() && domains.is_end(place.at) {
                return Some(place.taken);
            }
            let left = place.left.iter().enumerate();
            let mut ways: SmallVec<[(Fit, usize, usize); 4]> = left
                .filter_map(|(index, (key, value))| {
                    let step = domains.step(place.at, key, value)?;
                    Some((step.fit, index, step.to))
                })
                .collect();
            ways.sort_unstable();
            // The last is looked at next.
            for (_, index, to) in ways.into_iter().rev() {
                let (mut taken, mut left) = (place.taken.clone(), place.left.clone());
                taken.push(left.remove(index));
                places.push(Place {
                    at: to,
                    taken,
                    left,
                });
            }
        }
        None
    }
}
