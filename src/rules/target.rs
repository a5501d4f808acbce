use super::Described;
use super::expression::Expression;
use super::matcher::{Matcher, Matches};
use super::path::Path;
use super::pattern::Pattern;
use super::when::When;

/// Which requests a rule, or an override of one, is for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) pattern: Pattern,
    /// In upper case, each once; none for all methods.
    pub(super) methods: Vec<Box<str>>,
    /// What the path must match beside the pattern.
    pub(super) expression: Option<Expression>,
    pub(super) when: Option<When>,
    pub(super) spelling: Spelling,
}

/// Which differences between paths count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spelling {
    pub(super) case: Case,
    pub(super) trailing_slash: Slash,
}

/// Whether upper and lower case differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Case {
    #[default]
    Sensitive,
    Insensitive,
}

/// Whether a slash at a path's end makes a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Slash {
    #[default]
    Equal,
    /// The pattern has none, so a path must have none.
    Without,
    /// The pattern has one, so a path must have one.
    With,
}

/// What is left to check of a target when its pattern and method are known to match.
#[derive(Debug)]
pub(super) struct Remainder {
    expression: Option<Expression>,
    when: Option<When>,
    spelling: Spelling,
}

/// What of a target a request does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    Path,
    Method,
    When,
}

/// Targets by number, to be found for a request.
#[derive(Debug, Default)]
pub(super) struct Targets {
    exact: Matcher,
    /// Those for which case does not count; `None` if there are none.
    folded: Option<Box<Matcher>>,
}

impl Target {
    /// Every request.
    pub(super) fn every() -> Target {
        Target {
            pattern: Pattern::every(),
            methods: Vec::new(),
            expression: None,
            when: None,
            spelling: Spelling::default(),
        }
    }

    /// Whether every request for `other` is one for this target, as far as can be told
    /// from the two alone.
    pub(super) fn covers(&self, other: &Target) -> bool {
        let methods = self.methods.is_empty()
            || (!other.methods.is_empty()
                && other
                    .methods
                    .iter()
                    .all(|method| self.methods.contains(method)));
        self.expression.is_none()
            && self.when.is_none()
            && self.spelling.trailing_slash == Slash::Equal
            && (self.spelling.case == other.spelling.case)
            && methods
            && self.pattern.covers(&other.pattern)
    }

    /// What [`Targets`] do not check; `None` if they check everything.
    pub(super) fn remainder(&self) -> Option<Remainder> {
        let slash = self.spelling.trailing_slash != Slash::Equal;
        (self.expression.is_some() || self.when.is_some() || slash).then(|| Remainder {
            expression: self.expression.clone(),
            when: self.when.clone(),
            spelling: self.spelling,
        })
    }

    /// The first part that `request` does not match; `None` if this target alone matches it.
    /// For people: it takes its time.
    pub(super) fn miss(&self, request: &Described<'_>, path: &Path<'_>) -> Option<Miss> {
        let of_any_method = Target {
            methods: Vec::new(),
            when: None,
            ..self.clone()
        };
        let whatever_else = Target {
            when: None,
            ..self.clone()
        };
        if !of_any_method.matches(request, path) {
            Some(Miss::Path)
        } else if !whatever_else.matches(request, path) {
            Some(Miss::Method)
        } else if !self.matches(request, path) {
            Some(Miss::When)
        } else {
            None
        }
    }

    fn matches(&self, request: &Described<'_>, path: &Path<'_>) -> bool {
        let mut alone = Targets::default();
        alone.add(0, self);
        let rest = self.remainder();
        !alone.find(request, path).is_empty() && rest.is_none_or(|rest| rest.holds(request, path))
    }
}

impl Remainder {
    /// Whether the rest of the target matches too.
    pub(super) fn holds(&self, request: &Described<'_>, path: &Path<'_>) -> bool {
        let slash = match self.spelling.trailing_slash {
            Slash::Equal => true,
            Slash::With => path.has_trailing_slash(),
            Slash::Without => !path.has_trailing_slash(),
        };
        let matches = |expression: &Expression| expression.matches(path.normal());
        slash
            && self.when.as_ref().is_none_or(|when| when.holds(request))
            && self.expression.as_ref().is_none_or(matches)
    }
}

impl Targets {
    /// Adds the target numbered `number`.
    pub(super) fn add(&mut self, number: usize, target: &Target) {
        let guard = target.when.as_ref().and_then(When::guard);
        let methods = &target.methods;
        match target.spelling.case {
            Case::Sensitive => self.exact.add(number, &target.pattern, methods, guard),
            Case::Insensitive => {
                let pattern = target.pattern.clone().folded();
                let folded = self.folded.get_or_insert_default();
                folded.add(number, &pattern, methods, guard);
            }
        }
    }

    /// The numbers of the targets whose pattern and method match, in order; the
    /// [`Remainder`] of each is not checked.
    pub(super) fn find(&self, request: &Described<'_>, path: &Path<'_>) -> Matches {
        let mut found = Matches::new();
        self.exact.find(request, path.normal(), &mut found);
        if let Some(folded) = &self.folded {
            folded.find(request, path.folded(), &mut found);
        }
        found
    }
}
