//! Statistics of alternating pairs.

use std::fmt;

/// Median and range of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// `None` of no values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }
}

/// `0.987 (0.981..0.992)`, with the precision of the format, by default 3 digits.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        let Self { median, min, max } = self;
        write!(f, "{median:.digits$} ({min:.digits$}..{max:.digits$})")
    }
}

/// Runs `a` and `b` alternately, every other time `b` first: what drifts hits both alike.
pub(super) fn alternate<T, E>(
    pairs: usize,
    mut a: impl FnMut() -> Result<T, E>,
    mut b: impl FnMut() -> Result<T, E>,
) -> Result<Vec<(T, T)>, E> {
    let mut results = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        if pair % 2 == 0 {
            let first = a()?;
            results.push((first, b()?));
        } else {
            let first = b()?;
            results.push((a()?, first));
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(Spread::of([]), None);
        let odd = Spread::of([3.0, 1.0, 2.5]).expect("there are values");
        assert_eq!((odd.median, odd.min, odd.max), (2.5, 1.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(format!("{odd:.1}"), "2.5 (1.0..3.0)");
    }

    #[test]
    fn the_order_changes_from_pair_to_pair() {
        let order = RefCell::new(String::new());
        let run = |name: char| {
            order.borrow_mut().push(name);
            Ok::<_, Infallible>(name)
        };
        let Ok(results) = alternate(3, || run('a'), || run('b'));
        assert_eq!(results, [('a', 'b'); 3]);
        assert_eq!(order.into_inner(), "abbaab");
    }
}
