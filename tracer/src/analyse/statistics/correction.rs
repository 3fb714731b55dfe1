//! Many rows, many chances to be wrong.

/// Adjusted p-values, in the order given: taking all rows with at most q for differences, no more than a
/// share q of them are false ones on average (Y. Benjamini and Y. Hochberg, "Controlling the false discovery
/// rate", J. R. Statist. Soc. B 57, 1995; it also holds for rows that move together).
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|left, right| p_values[*left].total_cmp(&p_values[*right]));
    let mut adjusted = vec![1.0; count];
    let mut smallest: f64 = 1.0;
    for (rank, &index) in order.iter().enumerate().rev() {
        smallest = smallest.min(p_values[index] * count as f64 / (rank + 1) as f64);
        adjusted[index] = smallest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fifteen p-values of the paper's own example, of which four are rejected at 0.05.
    #[test]
    fn the_example_of_the_paper() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        let adjusted = benjamini_hochberg(&p);
        assert_eq!(adjusted.iter().filter(|p| **p <= 0.05).count(), 4);
        assert!((adjusted[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn adjusting_keeps_the_order_and_never_lowers(p in prop::collection::vec(0.0..=1.0_f64, 0..40)) {
            let adjusted = benjamini_hochberg(&p);
            for (left, right) in p.iter().zip(&adjusted) {
                prop_assert!(*right >= left * (1.0 - 1e-12) && *right <= 1.0);
            }
            for (index, left) in p.iter().enumerate() {
                for (other, right) in p.iter().enumerate() {
                    prop_assert!(left >= right || adjusted[index] <= adjusted[other]);
                }
            }
        }
    }
}
