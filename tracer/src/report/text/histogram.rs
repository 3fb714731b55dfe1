//! Latencies as bars.

use super::page::Page;
use crate::analyse::units::{count, duration, percent};
use crate::model::Bucket;

/// Columns beside the bar.
const BESIDE: usize = 40;
const EIGHTHS: [char; 8] =
    [' ', '\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}'];
const FULL: char = '\u{2588}';

/// A line a step.
pub(super) fn render(buckets: &[Bucket], page: &mut Page) {
    let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let Some(most) = buckets.iter().map(|bucket| bucket.count).max().filter(|most| *most > 0)
    else {
        return;
    };
    page.heading("Latency", "transactions by latency; steps are equal on a logarithmic scale");
    let room = page.options().width.saturating_sub(BESIDE).min(60);
    let utf8 = page.options().utf8;
    for bucket in buckets {
        let share = bucket.count as f64 / total as f64;
        page.line(&format!(
            "  {:>8} {:>8}  {:>8} {:>6}  {}",
            duration(bucket.from_ns as f64),
            duration(bucket.to_ns as f64),
            count(bucket.count),
            if bucket.count == 0 { "-".to_owned() } else { percent(share) },
            bar(bucket.count as f64 / most as f64 * room as f64, utf8, bucket.count > 0),
        ));
    }
}

/// A bar of `length` columns; what is not nothing is seen.
fn bar(length: f64, utf8: bool, something: bool) -> String {
    if !utf8 {
        let columns = length.round() as usize;
        return "#".repeat(columns.max(usize::from(something)));
    }
    let eighths = ((length * 8.0).round() as usize).max(usize::from(something));
    let mut bar = FULL.to_string().repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share_and_never_invisible() {
        assert_eq!(bar(3.4, false, true), "###");
        assert_eq!(bar(0.01, false, true), "#");
        assert_eq!(bar(0.0, false, false), "");
        assert_eq!(bar(2.5, true, true), "\u{2588}\u{2588}\u{258c}");
        assert_eq!(bar(0.01, true, true), "\u{258f}");
    }
}
