//! Decimal fractions without floating point.

/// A number that is not negative: `digits` / 10^`places`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u64,
    places: u32,
}

impl Decimal {
    /// The number at the start of a text, and the rest without space around it. `None` if the text does not
    /// start with a number, or has more digits than 64 bits hold.
    pub(super) fn split(text: &str) -> Option<(Self, &str)> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut digits = 0u64;
        for digit in whole.chars().chain(fraction.chars()) {
            digits = digits.checked_mul(10)?.checked_add(u64::from(digit.to_digit(10)?))?;
        }
        Some((Self { digits, places: u32::try_from(fraction.len()).ok()? }, rest.trim_start()))
    }

    /// This times a whole number, rounded to the nearest; `None` if that does not fit.
    pub(super) fn times(self, factor: u64) -> Option<u64> {
        let divisor = 10u128.checked_pow(self.places)?;
        let product = u128::from(self.digits) * u128::from(factor);
        u64::try_from((product + divisor / 2) / divisor).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_multiplies_exactly() {
        let (number, unit) = Decimal::split(" 0.1 x y ").expect("a number");
        assert_eq!(unit, "x y");
        assert_eq!(number.times(1_000_000_000), Some(100_000_000));
        assert_eq!(number.times(4), Some(0));
        assert_eq!(number.times(5), Some(1));
        assert_eq!(Decimal::split(".5").and_then(|(n, _)| n.times(10)), Some(5));
        assert_eq!(Decimal::split("3.").and_then(|(n, _)| n.times(10)), Some(30));
        for text in ["", ".", "x", "1.2.3", "99999999999999999999"] {
            assert_eq!(Decimal::split(text), None, "{text}");
        }
        assert_eq!(Decimal::split("18446744073709551615").and_then(|(n, _)| n.times(2)), None);
    }
}
