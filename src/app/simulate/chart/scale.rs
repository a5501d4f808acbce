//! A logarithmic scale: where on the drawing a value is.

/// A logarithmic scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    least: f64,
    most: f64,
    /// Where the ends are on the drawing.
    from: f64,
    to: f64,
}

impl Scale {
    /// From `least` at `from` to `most` at `to`.
    pub(super) fn between((least, most): (f64, f64), (from, to): (f64, f64)) -> Scale {
        Scale {
            least,
            most,
            from,
            to,
        }
    }

    /// The same, widened to whole powers of ten, and at least one of them.
    pub(super) fn decades((least, most): (f64, f64), ends: (f64, f64)) -> Scale {
        // What floating point adds to a power of ten is none of it.
        let low = (least.log10() + 1e-9).floor();
        let high = (most.log10() - 1e-9).ceil().max(low + 1.0);
        Scale::between((10_f64.powf(low), 10_f64.powf(high)), ends)
    }

    /// Where `value` is; what is beyond the scale is at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.least, self.most);
        let part = (value / self.least).ln() / (self.most / self.least).ln();
        self.from + part * (self.to - self.from)
    }

    /// The powers of ten, and where they are.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        let count = (self.most / self.least).log10().round();
        let power = |step: u32| self.least * 10_f64.powf(f64::from(step));
        let steps = (0..).take_while(move |step| f64::from(*step) <= count);
        steps.map(move |step| (power(step), self.at(power(step))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_factors_are_equal_distances() {
        let scale = Scale::between((0.01, 1.0), (0.0, 100.0));
        assert_eq!(scale.at(0.01), 0.0);
        assert!((scale.at(0.1) - 50.0).abs() < 1e-9);
        assert_eq!((scale.at(9.0), scale.at(0.0)), (100.0, 0.0));
    }

    #[test]
    fn ticks_are_the_powers_of_ten_around_the_values() {
        let ticks = |least, most| -> Vec<f64> {
            let scale = Scale::decades((least, most), (0.0, 1.0));
            scale.ticks().map(|(value, _)| value.round()).collect()
        };
        assert_eq!(ticks(3.0, 200.0), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(ticks(10.0, 10.0), [10.0, 100.0]);
    }
}
