//! The measured part in steps.

use hdrhistogram::Histogram;

use super::{new_histogram, per_second};
use crate::model::Interval;

/// Intervals whose histogram is kept open for records that arrive late.
const OPEN_INTERVALS: usize = 4;

/// Counts and latencies by interval.
#[derive(Debug)]
pub(super) struct Series {
    step_ns: u64,
    intervals: Vec<OpenInterval>,
    /// Emptied histograms, to be used again.
    spare: Vec<Histogram<u64>>,
}

#[derive(Debug, Default)]
struct OpenInterval {
    count: u64,
    latency_sum_ns: u64,
    p99_ns: Option<u64>,
    latency: Option<Histogram<u64>>,
}

impl Series {
    /// Intervals of `step_ns`, at least 1.
    pub(super) fn new(step_ns: u64) -> Self {
        Self { step_ns: step_ns.max(1), intervals: Vec::new(), spare: Vec::new() }
    }

    /// A transaction that ended `after_ns` the beginning.
    pub(super) fn add(&mut self, after_ns: u64, latency_ns: u64) {
        let index = (after_ns / self.step_ns) as usize;
        self.interval(index).add(latency_ns);
    }

    /// All intervals of `total_ns`, the last one perhaps shorter.
    pub(super) fn close(mut self, total_ns: u64) -> Vec<Interval> {
        if total_ns > 0 {
            // Those without a transaction count too.
            self.interval(((total_ns - 1) / self.step_ns) as usize);
        }
        let step_ns = self.step_ns;
        let starts = (0..).map(|index: u64| index * step_ns);
        starts
            .zip(&mut self.intervals)
            .map(|(start_ns, interval)| {
                interval.close();
                let duration_ns = step_ns.min(total_ns.saturating_sub(start_ns)).max(1);
                Interval {
                    start_ns,
                    duration_ns,
                    tps: per_second(interval.count, duration_ns),
                    latency_ns: interval.latency_sum_ns.checked_div(interval.count),
                    latency_p99_ns: interval.p99_ns,
                    ..Interval::default()
                }
            })
            .collect()
    }

    /// The interval `index`, made with all before it; old ones are closed.
    fn interval(&mut self, index: usize) -> &mut OpenInterval {
        while self.intervals.len() <= index {
            let latency = self.spare.pop().unwrap_or_else(new_histogram);
            self.intervals.push(OpenInterval { latency: Some(latency), ..Default::default() });
            if let Some(old) = self.intervals.len().checked_sub(OPEN_INTERVALS + 1) {
                self.spare.extend(self.intervals[old].close());
            }
        }
        &mut self.intervals[index]
    }
}

impl OpenInterval {
    fn add(&mut self, latency_ns: u64) {
        self.count += 1;
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(latency_ns);
        if let Some(latency) = &mut self.latency {
            latency.saturating_record(latency_ns);
        }
    }

    /// Reads the percentile and gives the emptied histogram back.
    fn close(&mut self) -> Option<Histogram<u64>> {
        let mut latency = self.latency.take()?;
        self.p99_ns = (!latency.is_empty()).then(|| latency.value_at_quantile(0.99));
        latency.reset();
        Some(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn closed_intervals_keep_their_percentile_and_late_records_are_not_lost() {
        let mut series = Series::new(S);
        series.add(S / 2, 1000);
        for second in 1..50 {
            series.add(second * S, 7000);
        }
        series.add(S / 2 + 1, 3000);
        assert!(series.spare.len() <= 1);
        let open = series.intervals.iter().filter(|i| i.latency.is_some()).count();
        assert_eq!(open, OPEN_INTERVALS);
        let intervals = series.close(100 * S);
        assert_eq!(intervals.len(), 100);
        assert_eq!(intervals[0].latency_ns, Some(2000));
        assert!(intervals[0].latency_p99_ns.unwrap() < 1100);
    }
}
