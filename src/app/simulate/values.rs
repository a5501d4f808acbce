//! The texts of flags, read as what they should be.

use std::str::FromStr;

use crate::rules::{DurationError, parse_duration};
use crate::simulation::{Shape, Until};
use crate::units::{Algorithm, Nanos};

/// Why a text cannot be used, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadValue {
    /// Not a rate.
    #[error("write checks a second, such as 5000, or times the limit, such as 2x or 0.9x")]
    Rate,
    /// Not a percentage.
    #[error("write a percentage such as 1% or 0.5%{0}")]
    Percent(&'static str),
    /// Not the part of the demand that one node gets.
    #[error("`{0}` is no part of the demand; write one such as 0.91, above 0 and below 1")]
    Part(String),
    /// Not an exponent.
    #[error("write a number from 0 to 10, such as 1")]
    Exponent,
    /// Not a shape.
    #[error(
        "write even, skewed:0.91, shifting:0.91,1s (the busy node changes every second), \
         stepping:5s (a tenth until then) or bursting:20 (so many at once)"
    )]
    Shape,
    /// Not how many come at once.
    #[error("`{0}` is no number of checks; write one from 1 to 1000000")]
    Burst(String),
    /// Not a duration.
    #[error("`{0}` {1}")]
    Duration(String, DurationError),
    /// Not an interval that a daemon may have.
    #[error("{0} is out of range; write a duration from 1ms to 1h")]
    Interval(Nanos),
    /// Not the time a message takes.
    #[error("write a duration such as 500us, 0.5ms, 1ms or 1s")]
    Delay,
    /// Neither a step nor a duration.
    #[error("write a step, such as 12345, or how long after the first check, such as 1s500ms")]
    Until,
    /// None of the words.
    #[error("write one of {0}")]
    NotOneOf(String),
}

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    /// Checks a second of the whole fleet.
    PerSecond(f64),
    /// Times what all limits together admit.
    Times(f64),
}

impl FromStr for Rate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Rate, BadValue> {
        let (number, times) = match text.strip_suffix('x') {
            Some(number) => (number, true),
            None => (text, false),
        };
        let number = number.parse().map_err(|_| BadValue::Rate)?;
        if !(f64::MIN_POSITIVE..=1e9).contains(&number) {
            return Err(BadValue::Rate);
        }
        Ok(if times {
            Rate::Times(number)
        } else {
            Rate::PerSecond(number)
        })
    }
}

/// A shape, of which some things may be left to their defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spread {
    /// As it was said.
    Said(Shape),
    /// The busy node, which gets this part, changes with every window.
    ShiftingByWindow(f64),
    /// The demand rises after the second window.
    SteppingAfterWindow,
}

/// The part of a busy node.
const BUSY: f64 = 0.91;

impl FromStr for Spread {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Spread, BadValue> {
        let (name, said) = match text.split_once(':') {
            Some((name, said)) => (name, Some(said)),
            None => (text, None),
        };
        Ok(match (name, said) {
            ("even", None) => Spread::Said(Shape::Even),
            ("skewed", said) => Spread::Said(Shape::Skewed(said.map_or(Ok(BUSY), read_part)?)),
            ("shifting", said) => match said.map(|said| said.split_once(',').unwrap_or((said, "")))
            {
                None => Spread::ShiftingByWindow(BUSY),
                Some((share, "")) => Spread::ShiftingByWindow(read_part(share)?),
                Some((share, every)) => {
                    let (share, every) = (read_part(share)?, duration(every)?);
                    Spread::Said(Shape::Shifting { share, every })
                }
            },
            ("stepping", None) => Spread::SteppingAfterWindow,
            ("stepping", Some(after)) => Spread::Said(Shape::Stepping {
                after: duration(after)?,
            }),
            ("bursting", said) => Spread::Said(Shape::Bursting(match said {
                None => 20,
                Some(said) => said
                    .parse()
                    .ok()
                    .filter(|checks| (1..=1_000_000).contains(checks))
                    .ok_or_else(|| BadValue::Burst(said.to_owned()))?,
            })),
            _ => return Err(BadValue::Shape),
        })
    }
}

/// The text of a shape that reads as it.
pub(super) fn shape_text(shape: Shape) -> String {
    match shape {
        Shape::Even => "even".to_owned(),
        Shape::Skewed(share) => format!("skewed:{share}"),
        Shape::Shifting { share, every } => format!("shifting:{share},{every}"),
        Shape::Stepping { after } => format!("stepping:{after}"),
        Shape::Bursting(checks) => format!("bursting:{checks}"),
    }
}

fn duration(text: &str) -> Result<Nanos, BadValue> {
    parse_duration(text).map_err(|error| BadValue::Duration(text.to_owned(), error))
}

/// A part of the demand: a fraction or a percentage.
pub(super) fn read_part(text: &str) -> Result<f64, BadValue> {
    let bad = || BadValue::Part(text.to_owned());
    let part = match text.strip_suffix('%') {
        Some(number) => number.parse::<f64>().map(|number| number / 100.0),
        None => text.parse(),
    };
    part.ok()
        .filter(|part| *part > 0.0 && *part < 1.0)
        .ok_or_else(bad)
}

/// A percentage of any size, as a part.
pub(super) fn read_percent(text: &str) -> Result<f64, BadValue> {
    let number = text
        .strip_suffix('%')
        .and_then(|text| text.parse::<f64>().ok());
    let part = number.map(|number| number / 100.0);
    part.filter(|part| (0.0..=1e6).contains(part))
        .ok_or(BadValue::Percent(""))
}

/// The text of a part that reads as it, but for what floating point adds.
pub(super) fn percent_text(part: f64) -> String {
    let text = format!("{:.9}", part * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}%")
}

/// A percentage of at most ninety, as a part.
pub(super) fn read_loss(text: &str) -> Result<f64, BadValue> {
    let part = read_percent(text).ok().filter(|part| *part <= 0.9);
    part.ok_or(BadValue::Percent(", up to 90%"))
}

/// An exponent.
pub(super) fn read_exponent(text: &str) -> Result<f64, BadValue> {
    let number = text.parse().ok();
    number
        .filter(|number| (0.0..=10.0).contains(number))
        .ok_or(BadValue::Exponent)
}

/// An interval between exchanges.
pub(super) fn read_interval(text: &str) -> Result<Nanos, BadValue> {
    let interval = duration(text)?;
    if interval < Nanos::from_millis(1) || interval > Nanos::from_secs(3_600) {
        return Err(BadValue::Interval(interval));
    }
    Ok(interval)
}

/// How long a message takes: also microseconds, and parts of milliseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is in range.
pub(super) fn read_delay(text: &str) -> Result<Nanos, BadValue> {
    if let Ok(delay) = parse_duration(text) {
        return Ok(delay);
    }
    let micros = text.strip_suffix("us").map(|number| (number, 1e3));
    let millis = text.strip_suffix("ms").map(|number| (number, 1e6));
    let (number, unit) = micros.or(millis).ok_or(BadValue::Delay)?;
    let number: f64 = number.parse().map_err(|_| BadValue::Delay)?;
    let nanos = number * unit;
    if !(0.0..=3.6e12).contains(&nanos) {
        return Err(BadValue::Delay);
    }
    Ok(Nanos::new(nanos.round() as u64))
}

/// A step, or a moment after the first check.
pub(super) fn read_until(text: &str) -> Result<Until, BadValue> {
    let step = text.parse().map(Until::Step);
    step.or_else(|_| read_delay(text).map(Until::After))
        .map_err(|_| BadValue::Until)
}

/// The name of an algorithm.
pub(super) fn read_algorithm(text: &str) -> Result<Algorithm, BadValue> {
    let mut all = Algorithm::ALL.into_iter();
    all.find(|algorithm| algorithm.name() == text)
        .ok_or_else(|| BadValue::NotOneOf(Algorithm::ALL.map(Algorithm::name).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_absolute_or_times_the_limit() {
        assert_eq!("5000".parse(), Ok(Rate::PerSecond(5_000.0)));
        assert_eq!("0.9x".parse(), Ok(Rate::Times(0.9)));
        for wrong in ["", "x", "-1", "0", "nan", "inf", "2 x", "2e9", "1k"] {
            assert_eq!(wrong.parse::<Rate>(), Err(BadValue::Rate), "{wrong}");
        }
    }

    #[test]
    fn every_shape_reads_as_it_is_written() {
        let every = Nanos::from_millis(1_500);
        for shape in [
            Shape::Even,
            Shape::Skewed(0.5),
            Shape::Shifting { share: 0.25, every },
            Shape::Stepping { after: every },
            Shape::Bursting(7),
        ] {
            assert_eq!(shape_text(shape).parse(), Ok(Spread::Said(shape)));
        }
    }

    #[test]
    fn shapes_have_defaults_and_limits() {
        let read = |text: &str| text.parse::<Spread>();
        assert_eq!(read("skewed"), Ok(Spread::Said(Shape::Skewed(0.91))));
        assert_eq!(read("skewed:91%"), Ok(Spread::Said(Shape::Skewed(0.91))));
        assert_eq!(read("shifting"), Ok(Spread::ShiftingByWindow(0.91)));
        assert_eq!(read("shifting:0.5"), Ok(Spread::ShiftingByWindow(0.5)));
        assert_eq!(read("stepping"), Ok(Spread::SteppingAfterWindow));
        assert_eq!(read("bursting"), Ok(Spread::Said(Shape::Bursting(20))));
        assert_eq!(read("skewed:1"), Err(BadValue::Part("1".into())));
        assert_eq!(read("bursting:0"), Err(BadValue::Burst("0".into())));
        assert_eq!(read("even:1"), Err(BadValue::Shape));
        assert_eq!(read("lumpy"), Err(BadValue::Shape));
        let five = read("stepping:5").unwrap_err().to_string();
        assert!(five.starts_with("`5` is not a duration; write"), "{five}");
    }

    #[test]
    fn a_message_may_take_part_of_a_millisecond() {
        for (text, micros) in [("500us", 500), ("0.5ms", 500), ("20ms", 20_000), ("0s", 0)] {
            assert_eq!(read_delay(text), Ok(Nanos::new(micros * 1_000)), "{text}");
        }
        for wrong in ["5", "-1ms", "0.5", "us", "nanms", "1e30ms", "0.5s"] {
            assert_eq!(read_delay(wrong), Err(BadValue::Delay), "{wrong}");
        }
        assert_eq!(read_until("12"), Ok(Until::Step(12)));
        let after = Until::After(Nanos::from_millis(1_500));
        assert_eq!(read_until("1s500ms"), Ok(after));
        assert_eq!(read_until("soon"), Err(BadValue::Until));
    }

    #[test]
    fn parts_are_percentages() {
        assert_eq!(read_percent("0.5%"), Ok(0.005));
        assert_eq!(read_percent("150%"), Ok(1.5));
        for text in ["7%", "0.5%", "0%", "120%", "0.000001%"] {
            assert_eq!(percent_text(read_percent(text).unwrap()), text);
        }
        for wrong in ["1", "-1%", "%", "nan%"] {
            assert!(read_percent(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read_loss("1%"), Ok(0.01));
        assert!(read_loss("100%").is_err());
        assert!(read_exponent("NaN").is_err() && read_exponent("11").is_err());
    }
}
