use std::collections::HashSet;

/// The domains that rules are for.
#[derive(Debug, Default)]
pub(in crate::rules) struct Domains {
    names: HashSet<Box<str>>,
}

impl Domains {
    pub(super) fn has(&self, domain: &str) -> bool {
        self.names.contains(domain)
    }
}
