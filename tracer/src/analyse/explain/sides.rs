//! The runs that are explained, and what they are compared with, as the signatures see them.

use std::collections::BTreeMap;

use super::expression::Expression;
use super::metrics::of_run;
use crate::analyse::compare::{Quantity, facts_of_run};
use crate::model::{Comparison, MetricRow, Run};

/// The run or the new side, and the base.
pub(super) struct Sides<'a> {
    pub(super) new: Measured<'a>,
    pub(super) base: Option<Measured<'a>>,
    /// The two, compared.
    pub(super) comparison: Option<&'a Comparison>,
}

/// What a time of a side is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// The server's: the mean latency.
    Latency,
    /// The client's: the time of its threads, which also do other things than waiting for one transaction.
    ClientTime,
}

impl Whole {
    /// In a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            Whole::Latency => "the latency",
            Whole::ClientTime => "the client threads' time",
        }
    }
}

/// One side's runs with their metrics.
pub(super) struct Measured<'a> {
    pub(super) runs: &'a [Run],
    metrics: Vec<BTreeMap<String, Quantity>>,
}

impl Measured<'_> {
    pub(super) fn of(runs: &[Run]) -> Measured<'_> {
        Measured { runs, metrics: runs.iter().map(of_run).collect() }
    }

    /// The mean over the runs.
    ///
    /// # Errors
    /// Says why one of them has no value.
    pub(super) fn measure(&self, metric: &Expression) -> Result<Quantity, String> {
        let runs = self.runs.iter().zip(&self.metrics);
        let measured = runs.map(|(run, metrics)| metric.measure(run, metrics));
        let measured = measured.collect::<Result<Vec<Quantity>, String>>()?;
        let first = *measured.first().ok_or("there is no run")?;
        let sum: f64 = measured.iter().map(|quantity| quantity.value).sum();
        Ok(Quantity { value: sum / measured.len() as f64, ..first })
    }

    /// Every metric's mean over the runs that have it.
    pub(super) fn means(&self) -> BTreeMap<&str, Quantity> {
        let mut sums: BTreeMap<&str, (Quantity, f64)> = BTreeMap::new();
        for (name, quantity) in self.metrics.iter().flatten() {
            let (sum, count) =
                sums.entry(name.as_str()).or_insert((Quantity { value: 0.0, ..*quantity }, 0.0));
            sum.value += quantity.value;
            *count += 1.0;
        }
        let mean = |(sum, count): (Quantity, f64)| Quantity { value: sum.value / count, ..sum };
        sums.into_iter().map(|(name, sum)| (name, mean(sum))).collect()
    }

    /// Mean latency of the traced transactions, of the runs that have one.
    pub(super) fn latency_ns(&self) -> Option<f64> {
        let known: Vec<f64> = self.runs.iter().filter_map(Run::traced_latency_ns).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// What times of a side are parts of, per transaction: mean over the runs that know it.
    ///
    /// # Errors
    /// Says that it is not known.
    pub(super) fn whole_ns(&self, whole: Whole) -> Result<f64, String> {
        match whole {
            Whole::Latency => {
                self.latency_ns().ok_or_else(|| "there is no latency to be a part of".to_owned())
            }
            Whole::ClientTime => {
                let known: Vec<f64> = self.runs.iter().filter_map(client_time_ns).collect();
                let mean = known.iter().sum::<f64>() / known.len() as f64;
                (!known.is_empty()).then_some(mean).ok_or_else(|| {
                    "how long the client's threads were traced is not known".to_owned()
                })
            }
        }
    }

    /// What the runs were measured on and with; every value that one of them has.
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        let mut facts: Vec<(String, String)> = self.runs.iter().flat_map(facts_of_run).collect();
        facts.sort();
        facts.dedup();
        facts
    }
}

/// Time of the client's threads per traced transaction, whatever they did in it.
pub(super) fn client_time_ns(run: &Run) -> Option<f64> {
    let wall_ns = run.ledger.client.as_ref()?.wall_ns?;
    let traced = run.throughput.traced_transactions_count;
    (traced > 0).then(|| wall_ns as f64 / traced as f64)
}

impl Sides<'_> {
    /// Whether there is one run a side, whose intervals are the samples.
    pub(super) fn are_single_runs(&self) -> bool {
        self.new.runs.len() == 1 && self.base.as_ref().is_some_and(|base| base.runs.len() == 1)
    }

    /// The comparison's row of a metric.
    pub(super) fn row(&self, metric: &str) -> Option<&MetricRow> {
        let groups = self.comparison.iter().flat_map(|comparison| &comparison.groups);
        groups.flat_map(|group| &group.rows).find(|row| row.metric == metric)
    }
}
