use super::super::fault::Problem;
use super::super::reader::{Fields, Report, Spot, duration, word};
use super::super::tree::Node;
use super::answers::AnswersSpec;
use super::window::{TIME_ZONE, time_zone};
use crate::rules::preflight::Preflight;
use crate::units::{Algorithm, Consistency, Mode, Nanos, Pace, STRICT_TIMEOUTS, StoreLoss};

/// What can be set for a file, a rule and a limit alike, as far as one of them
/// states it.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) algorithm: Option<Algorithm>,
    pub(super) consistency: Option<Consistency>,
    pub(super) on_store_loss: Option<StoreLoss>,
    interval: Option<Nanos>,
    min_interval: Option<Nanos>,
    max_interval: Option<Nanos>,
    pub(super) strict_timeout: Option<Nanos>,
    pub(super) preflight: Option<Preflight>,
    pub(super) answers: AnswersSpec,
    /// Of files and rules alone.
    pub(super) mode: Option<Mode>,
    /// Of windows of the calendar alone.
    pub(super) time_zone: Option<String>,
}

pub(super) const INTERVAL: &str = "sync_interval";
pub(super) const MIN_INTERVAL: &str = "sync_min_interval";
pub(super) const MAX_INTERVAL: &str = "sync_max_interval";
pub(super) const STRICT_TIMEOUT: &str = "strict_timeout";

impl Settings {
    /// Reads the settings among `fields`.
    pub(super) fn read(fields: &Fields<'_>, spot: &Spot<'_>, report: &mut Report) -> Settings {
        let losses = [
            ("local", StoreLoss::Local),
            ("share", StoreLoss::Share),
            ("open", StoreLoss::Open),
            ("closed", StoreLoss::Closed),
        ];
        let algorithms = Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
        Settings {
            algorithm: fields.with("algorithm", spot, report, |node, spot, report| {
                word(node, spot, &algorithms, report)
            }),
            consistency: fields.with("consistency", spot, report, consistency),
            on_store_loss: fields.with("on_store_loss", spot, report, |node, spot, report| {
                word(node, spot, &losses, report)
            }),
            interval: fields.with(INTERVAL, spot, report, duration),
            min_interval: fields.with(MIN_INTERVAL, spot, report, duration),
            max_interval: fields.with(MAX_INTERVAL, spot, report, duration),
            strict_timeout: fields.with(STRICT_TIMEOUT, spot, report, patience),
            preflight: fields.with("preflight", spot, report, |node, spot, report| {
                word(node, spot, &Preflight::WORDS, report)
            }),
            answers: fields
                .with("answers", spot, report, AnswersSpec::read)
                .unwrap_or_default(),
            mode: fields.with("mode", spot, report, |node, spot, report| {
                let modes = [Mode::Enforce, Mode::Shadow, Mode::Soft];
                word(node, spot, &modes.map(|mode| (mode.name(), mode)), report)
            }),
            time_zone: fields.with(TIME_ZONE, spot, report, time_zone),
        }
    }

    /// These settings, and where they say nothing, those of `wider`.
    pub(super) fn over(&self, wider: &Settings) -> Settings {
        Settings {
            algorithm: self.algorithm.or(wider.algorithm),
            consistency: self.consistency.or(wider.consistency),
            on_store_loss: self.on_store_loss.or(wider.on_store_loss),
            interval: self.interval.or(wider.interval),
            min_interval: self.min_interval.or(wider.min_interval),
            max_interval: self.max_interval.or(wider.max_interval),
            strict_timeout: self.strict_timeout.or(wider.strict_timeout),
            preflight: self.preflight.or(wider.preflight),
            answers: self.answers.over(&wider.answers),
            mode: self.mode.or(wider.mode),
            time_zone: self.time_zone.clone().or_else(|| wider.time_zone.clone()),
        }
    }

    /// The pace, where `fields` state any of it: the rest comes from `wider`, then
    /// from `defaults`. A default gives way to a stated interval beyond it; what is
    /// stated must go together.
    pub(super) fn pace(
        &self,
        fields: &Fields<'_>,
        wider: Option<&Settings>,
        defaults: Pace,
        spot: &Spot<'_>,
        report: &mut Report,
    ) -> Option<Pace> {
        let mut stated = [INTERVAL, MIN_INTERVAL, MAX_INTERVAL].into_iter();
        let (field, node) = stated.find_map(|field| Some((field, fields.get(field)?)))?;
        let all = wider.map_or_else(|| self.clone(), |wider| self.over(wider));
        let interval = all.interval.unwrap_or(defaults.interval);
        let pace = Pace {
            interval,
            min_interval: all
                .min_interval
                .unwrap_or(defaults.min_interval.min(interval)),
            max_interval: all
                .max_interval
                .unwrap_or(defaults.max_interval.max(interval)),
        };
        let (min, max) = (pace.min_interval, pace.max_interval);
        if interval < Nanos::from_millis(1) || min > interval || interval > max {
            let problem = Problem::Pace { min, interval, max };
            report.fault(&spot.field(field, node.at), problem);
        }
        Some(pace)
    }
}

fn consistency(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Consistency> {
    let words = [
        ("approximate", Consistency::Approximate),
        ("local", Consistency::Local),
        ("bounded", Consistency::Bounded),
        ("strict", Consistency::Strict),
    ];
    word(node, spot, &words, report)
}

fn patience(node: &Node, spot: &Spot<'_>, report: &mut Report) -> Option<Nanos> {
    let given = duration(node, spot, report)?;
    if given < STRICT_TIMEOUTS.0 || given > STRICT_TIMEOUTS.1 {
        report.fault(spot, Problem::StrictTimeout(given));
        return None;
    }
    Some(given)
}
