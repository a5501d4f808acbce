//! Exact arithmetic on products of two 64-bit numbers.

use crate::units::Nanos;

/// `a · b`, which always fits.
pub(super) fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// `n / d`, rounded up; the largest number where the quotient does not fit or
/// `d` is zero and `n` is not.
pub(super) fn div_ceil(n: u128, d: u64) -> u64 {
    if d == 0 {
        return if n == 0 { 0 } else { u64::MAX };
    }
    match u64::try_from(n) {
        // The common case, several times faster.
        Ok(n) => n.div_ceil(d),
        Err(_) => u64::try_from(n.div_ceil(u128::from(d))).unwrap_or(u64::MAX),
    }
}

/// `n / d`, rounded down; the largest number where the quotient does not fit or
/// `d` is zero.
pub(super) fn div_floor(n: u128, d: u64) -> u64 {
    n.checked_div(u128::from(d))
        .and_then(|quotient| u64::try_from(quotient).ok())
        .unwrap_or(u64::MAX)
}

/// `ceil(n · mul / div)`, exact although `n · mul` may not fit; saturating.
/// `div` must not be zero (zero counts as one).
pub(super) fn mul_div_ceil(n: u128, mul: u64, div: u64) -> u128 {
    let divisor = u128::from(div.max(1));
    let (quotient, rest) = (n / divisor, n % divisor);
    // `rest` is below `div`, so the product of the rest fits, and its quotient
    // is at most `mul`.
    let of_rest = (rest * u128::from(mul)).div_ceil(divisor);
    quotient
        .saturating_mul(u128::from(mul))
        .saturating_add(of_rest)
}

/// How long it takes to drain `debt` at `rate` a nanosecond, rounded up.
pub(super) fn drain(debt: u128, rate: u64) -> Nanos {
    Nanos::new(div_ceil(debt, rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_round_as_named_and_saturate() {
        assert_eq!(div_ceil(7, 2), 4);
        assert_eq!(div_ceil(product(u64::MAX, 7), 7), u64::MAX);
        assert_eq!(div_ceil(product(u64::MAX, 7) + 1, 7), u64::MAX);
        assert_eq!(
            div_ceil(product(u64::MAX, 7), 8),
            16_140_901_064_495_857_664
        );
        assert_eq!((div_ceil(0, 0), div_ceil(1, 0)), (0, u64::MAX));
        assert_eq!((div_floor(7, 2), div_floor(1, 0)), (3, u64::MAX));
        assert_eq!(div_floor(u128::MAX, 2), u64::MAX);
    }

    #[test]
    fn scaling_is_exact_where_the_product_does_not_fit() {
        let n = u128::from(u64::MAX) * 1_000_000_007 + 5;
        assert_eq!(mul_div_ceil(n, u64::MAX, u64::MAX), n);
        assert_eq!(mul_div_ceil(10, 3, 4), 8);
        assert_eq!(mul_div_ceil(u128::MAX, u64::MAX, 1), u128::MAX);
    }
}
