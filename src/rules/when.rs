use super::expression::Expression;
use super::{Described, Pairs};

/// What a request must say for a rule to match: every line of it holds.
#[derive(Clone, Debug, Default)]
pub(super) struct When(Vec<Line>);

/// One header or attribute, and what its value must be.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) field: Field,
    /// Any of them is enough.
    pub(super) tests: Vec<Test>,
    /// Whether none of them may hold instead.
    pub(super) not: bool,
}

/// A header or attribute; names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Header(Box<str>),
    Attribute(Box<str>),
}

/// What a value must be.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Exact(Box<str>),
    Prefix(Box<str>),
    Regex(Expression),
    Present,
    Absent,
}

/// A field and its possible values, without one of which a [`When`] does not hold.
pub(super) type Guard<'w> = (&'w Field, Vec<&'w str>);

impl When {
    pub(super) fn new(lines: Vec<Line>) -> When {
        When(lines)
    }

    /// Whether it holds for `request`.
    pub(super) fn holds(&self, request: &Described<'_>) -> bool {
        self.0.iter().all(|line| {
            let any = line
                .tests
                .iter()
                .any(|test| test.holds(&line.field, request));
            any != line.not
        })
    }

    /// What a request must at least say, where that is one of a few exact values.
    pub(super) fn guard(&self) -> Option<Guard<'_>> {
        fn exact(test: &Test) -> Option<&str> {
            match test {
                Test::Exact(value) => Some(value),
                _ => None,
            }
        }
        let mut positive = self.0.iter().filter(|line| !line.not);
        positive.find_map(|line| {
            let values: Option<Vec<&str>> = line.tests.iter().map(exact).collect();
            Some((&line.field, values?))
        })
    }
}

impl Field {
    /// The values of this field in `request`, without blanks around them. What is blank
    /// is absent.
    pub(super) fn values<'a>(&self, request: &Described<'a>) -> impl Iterator<Item = &'a str> {
        let (pairs, name): (Pairs<'a>, &str) = match self {
            Field::Header(name) => (request.headers, name),
            Field::Attribute(name) => (request.attributes, name),
        };
        let named = pairs.iter().filter(move |pair| pair.0 == name);
        named
            .map(|pair| pair.1.trim())
            .filter(|value| !value.is_empty())
    }
}

impl Test {
    /// Whether any value of `field` in `request` is so.
    fn holds(&self, field: &Field, request: &Described<'_>) -> bool {
        let mut values = field.values(request);
        match self {
            Test::Exact(text) => values.any(|value| *value == **text),
            Test::Prefix(text) => values.any(|value| value.starts_with(&**text)),
            Test::Regex(expression) => values.any(|value| expression.matches(value)),
            Test::Present => values.next().is_some(),
            Test::Absent => values.next().is_none(),
        }
    }
}
