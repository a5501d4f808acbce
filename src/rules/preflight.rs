use super::Described;

/// What a rule does about CORS preflights, with which browsers ask before they send the
/// request of a script: a refusal there would be shown as a fault of the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Preflight {
    /// They are not matched, so neither counted nor refused.
    #[default]
    Skip,
    /// They are as any other request.
    Count,
}

impl Preflight {
    /// The words for it in rule files.
    pub(super) const WORDS: [(&'static str, Preflight); 2] =
        [("skip", Preflight::Skip), ("count", Preflight::Count)];
}

/// Whether `request` is a CORS preflight: OPTIONS with the two headers that browsers send.
pub(super) fn is_one(request: &Described<'_>) -> bool {
    let has = |name: &str| request.headers.iter().any(|pair| pair.0 == name);
    request.method.eq_ignore_ascii_case("OPTIONS")
        && has("origin")
        && has("access-control-request-method")
}
