//! `--fail-if`: a metric, and the change or the value that it must not have.
//!
//! ```text
//! condition  = metric ("<" | "<=" | ">" | ">=") threshold [ "@" confidence ]
//! metric     = name | '"' name '"'
//! threshold  = ("+" | "-") number [ unit ]     a difference: +200us, -3
//!            | ["+" | "-"] number "%"          a relative change: -5%
//!            | number [ unit ]                 a value of the new side: 5ms
//! unit       = "ns" | "us" | "ms" | "s"
//! confidence = number [ "%" ]                  95 where it is left out
//! ```

use std::str::FromStr;

use lockscope_ebpf::LockClass;
use winnow::ascii::{float, space0};
use winnow::combinator::{alt, delimited, eof, opt, preceded, terminated};
use winnow::prelude::*;
use winnow::token::{take_till, take_while};

use super::counters;
use super::judge::Judged;
use super::profile::is_function;
use super::sources::Source;
use crate::analyse::units::{duration, plural, signed_duration, signed_percent, significant};
use crate::filter::did_you_mean;
use crate::model;

/// A condition that is none, or that names no metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// Not the grammar's.
    #[error(
        "`{0}` is no condition; write a metric, < or >, and a change or a value, as in `tps < -5%`, `latency.p99 > +500us @99`, `server.spin.osq > 20us`"
    )]
    Grammar(String),
    /// A confidence that is none.
    #[error("`{0}`: the confidence behind @ is a percentage of at least 50 and below 100")]
    Confidence(String),
    /// A time, and a metric that is none.
    #[error("`{text}`: {metric} is no time; leave the unit away")]
    NoTime {
        /// The condition.
        text: String,
        /// Its metric.
        metric: String,
    },
    /// No metric has this name.
    #[error("--fail-if: no metric is called `{metric}`{near} `--json` lists the names of all")]
    UnknownMetric {
        /// What was given.
        metric: String,
        /// What it may have meant, or a full stop.
        near: String,
    },
}

/// One `--fail-if`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    metric: String,
    above: bool,
    threshold: Threshold,
    /// The threshold has a unit of time.
    is_time: bool,
    confidence: Option<f64>,
}

/// What a condition compares with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::analyse) enum Threshold {
    /// Share of the base.
    Relative(f64),
    /// In the metric's unit.
    Difference(f64),
    /// Of the new side.
    Value(f64),
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Condition, ConditionError> {
        let parsed: winnow::Result<_, winnow::error::EmptyError> =
            terminated(condition, (space0, eof)).parse_next(&mut text.trim());
        let (metric, above, (threshold, is_time), confidence) =
            parsed.map_err(|_| ConditionError::Grammar(text.to_owned()))?;
        if confidence.is_some_and(|percent| !(50.0..100.0).contains(&percent)) {
            return Err(ConditionError::Confidence(text.to_owned()));
        }
        Ok(Condition {
            text: text.trim().to_owned(),
            metric: metric.to_owned(),
            above,
            threshold,
            is_time,
            confidence: confidence.map(|percent| percent / 100.0),
        })
    }
}

type Parsed<T> = winnow::Result<T, winnow::error::EmptyError>;
/// Metric, whether above, what it is compared with and whether that is a time, confidence in percent.
type Parts<'a> = (&'a str, bool, (Threshold, bool), Option<f64>);

fn condition<'a>(input: &mut &'a str) -> Parsed<Parts<'a>> {
    let bare = take_while(1.., |c: char| c.is_ascii_alphanumeric() || "._-".contains(c));
    let quoted = delimited('"', take_till(1.., '"'), '"');
    let above = alt((">=".value(true), "<=".value(false), ">".value(true), "<".value(false)));
    let confidence = preceded(('@', space0), terminated(number, (space0, opt('%'))));
    (
        alt((quoted, bare)),
        preceded(space0, above),
        preceded(space0, threshold),
        opt(preceded(space0, confidence)),
    )
        .parse_next(input)
}

/// What is compared with, and whether it has a unit of time.
fn threshold(input: &mut &str) -> Parsed<(Threshold, bool)> {
    let sign = opt(alt(('+'.value(1.0), '-'.value(-1.0)))).parse_next(input)?;
    let size = preceded(space0, number).parse_next(input)?;
    space0.parse_next(input)?;
    if opt('%').parse_next(input)?.is_some() {
        return Ok((Threshold::Relative(sign.unwrap_or(1.0) * size / 100.0), false));
    }
    let unit = opt(alt((
        "ns".value(1.0),
        "us".value(1e3),
        "\u{b5}s".value(1e3),
        "ms".value(1e6),
        "s".value(1e9),
    )))
    .parse_next(input)?;
    let size = size * unit.unwrap_or(1.0);
    if size.is_infinite() {
        return Err(winnow::error::EmptyError);
    }
    let threshold =
        sign.map_or(Threshold::Value(size), |sign: f64| Threshold::Difference(sign * size));
    Ok((threshold, unit.is_some()))
}

/// Without a sign, which the threshold has read, and neither infinite nor none.
fn number(input: &mut &str) -> Parsed<f64> {
    float.verify(|value: &f64| value.is_finite() && *value >= 0.0).parse_next(input)
}

impl Condition {
    /// Whether it holds.
    pub(super) fn judge(
        &self,
        groups: &[(&Source, Vec<Judged>)],
        confidence: f64,
    ) -> Result<model::Condition, ConditionError> {
        let mut rows = groups.iter().flat_map(|(_, rows)| rows);
        let Some(judged) = rows.find(|judged| judged.row.metric == self.metric) else {
            self.check_name(groups)?;
            return Ok(self.unjudged(format!("{} was not measured", self.metric)));
        };
        if self.is_time && judged.row.unit != "ns" {
            let (text, metric) = (self.text.clone(), self.metric.clone());
            return Err(ConditionError::NoTime { text, metric });
        }
        let confidence = self.confidence.unwrap_or(confidence);
        Ok(match self.interval(judged, confidence) {
            Err(reason) => self.unjudged(reason),
            Ok((low, high)) => {
                let unit = judged.row.unit.as_str();
                let (limit, of) = match self.threshold {
                    Threshold::Relative(limit) | Threshold::Difference(limit) => (limit, "change"),
                    Threshold::Value(limit) => (limit, "value"),
                };
                let holds = self.holds(low, high, limit);
                let place = match holds {
                    Some(true) => "beyond",
                    Some(false) => "within",
                    None => "around",
                };
                let reason = format!(
                    "the {of} is {} to {} with {} % confidence, {place} the limit",
                    self.show(low, unit),
                    self.show(high, unit),
                    (1e3 * confidence).round() / 10.0,
                );
                let text = self.text.clone();
                model::Condition { text, holds, reason }
            }
        })
    }

    /// What it compares with.
    pub(in crate::analyse) fn threshold(&self) -> Threshold {
        self.threshold
    }

    /// Whether it names a confidence of its own.
    pub(in crate::analyse) fn has_confidence(&self) -> bool {
        self.confidence.is_some()
    }

    /// Whether it compares with a time.
    pub(in crate::analyse) fn is_time(&self) -> bool {
        self.is_time
    }

    /// Whether what lies between `low` and `high` is beyond the limit; `None` where the limit lies between.
    pub(in crate::analyse) fn holds(&self, low: f64, high: f64, limit: f64) -> Option<bool> {
        match self.above {
            true if low > limit => Some(true),
            true if high <= limit => Some(false),
            false if high < limit => Some(true),
            false if low >= limit => Some(false),
            _ => None,
        }
    }

    fn unjudged(&self, reason: String) -> model::Condition {
        model::Condition { text: self.text.clone(), holds: None, reason }
    }

    fn show(&self, value: f64, unit: &str) -> String {
        match (self.threshold, unit) {
            (Threshold::Relative(_), _) => signed_percent(value),
            (Threshold::Difference(_), "ns") => signed_duration(value),
            (Threshold::Difference(_), _) => {
                let sign = if value < 0.0 { '-' } else { '+' };
                format!("{sign}{}", significant(value.abs()))
            }
            (Threshold::Value(_), "ns") => duration(value.max(0.0)),
            (Threshold::Value(_), _) => significant(value),
        }
    }

    /// Where the truth lies, or why that is not known.
    fn interval(&self, judged: &Judged, confidence: f64) -> Result<(f64, f64), String> {
        let row = &judged.row;
        let (Some(base), Some(new)) = (row.base, row.new) else {
            return Err(format!("{} was measured on one side only", row.metric));
        };
        if base.mean == 0.0 && new.mean == 0.0 {
            return Ok((0.0, 0.0));
        }
        if !judged.enough {
            return Err(match base.samples_count.min(new.samples_count) {
                0 => format!(
                    "a run has one value of {}, and how much that varies only several runs a side tell",
                    row.metric
                ),
                samples => {
                    let samples = plural(samples, "sample");
                    format!("{samples} a side: too few for {}", row.metric)
                }
            });
        }
        match self.threshold {
            Threshold::Value(_) => match &judged.level {
                Some(level) => Ok(level.interval(confidence)),
                None => Err("how much the value varies is not known".to_owned()),
            },
            Threshold::Difference(_) => match &judged.absolute {
                Some(effect) => Ok(effect.interval(confidence)),
                None => Err("how much the change varies is not known".to_owned()),
            },
            Threshold::Relative(_) => match (&judged.relative, &judged.absolute) {
                (Some(effect), _) => {
                    let (low, high) = effect.interval(confidence);
                    Ok((low.exp_m1(), high.exp_m1()))
                }
                (None, Some(effect)) if base.mean > 0.0 => {
                    let (low, high) = effect.interval(confidence);
                    Ok((low / base.mean, high / base.mean))
                }
                _ => Err(format!("{} is 0 in the base: give a difference, as +5us", row.metric)),
            },
        }
    }

    /// Refuses names that no run could have.
    fn check_name(&self, groups: &[(&Source, Vec<Judged>)]) -> Result<(), ConditionError> {
        let known = known_names();
        if known.contains(&self.metric) || is_function(&self.metric) {
            return Ok(());
        }
        let rows =
            groups.iter().flat_map(|(_, rows)| rows.iter().map(|row| row.row.metric.clone()));
        let all: Vec<String> = rows.chain(known).collect();
        let near = did_you_mean(&self.metric, all.iter().map(String::as_str));
        let near = if near.is_empty() { ".".to_owned() } else { near };
        Err(ConditionError::UnknownMetric { metric: self.metric.clone(), near })
    }
}

/// Names that are right also where these runs have no such row.
pub(in crate::analyse) fn known_names() -> Vec<String> {
    let mut names = ["tps", "failed", "load.cpu", "tracing.tps_ratio"].map(str::to_owned).to_vec();
    let percentiles = ["mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];
    names.extend(percentiles.map(|name| format!("latency.{name}")));
    let plug = ["flushes_per_transaction", "requests_per_flush", "flush_ns_per_transaction"];
    names.extend(plug.map(|name| format!("plug.{name}")));
    for side in ["server", "client"] {
        let states = [
            "cpu",
            "io",
            "irq",
            "idle_in_transaction",
            "lock",
            "runq.queued",
            "runq.wakeup",
            "runq.throttled",
        ];
        names.extend(states.map(|state| format!("{side}.{state}")));
        names.extend(LockClass::ALL.map(|class| {
            let state = if class.is_spin() { "spin" } else { "lock_sleep" };
            format!("{side}.{state}.{}", class.name())
        }));
    }
    names.extend(counters::names());
    names.extend(["server.client_and_transport", "server.not_split"].map(str::to_owned));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, bool, Threshold, Option<f64>) {
        let Condition { metric, above, threshold, confidence, .. } = text.parse().unwrap();
        (metric, above, threshold, confidence)
    }

    #[test]
    fn changes_values_and_confidences() {
        use Threshold::*;
        let tps = |threshold, confidence| ("tps".to_owned(), false, threshold, confidence);
        assert_eq!(parsed("tps < -5% @95"), tps(Relative(-0.05), Some(0.95)));
        assert_eq!(parsed("tps<-5%@99.5%"), tps(Relative(-0.05), Some(0.995)));
        assert_eq!(parsed(" tps <= 5 % "), tps(Relative(0.05), None));
        assert_eq!(parsed("tps < 17000"), tps(Value(17000.0), None));
        assert_eq!(parsed("tps < -300"), tps(Difference(-300.0), None));
        let p99 = |threshold| ("latency.p99".to_owned(), true, threshold, None);
        assert_eq!(parsed("latency.p99 > 5ms"), p99(Value(5e6)));
        assert_eq!(parsed("latency.p99 >= +1.5 us"), p99(Difference(1500.0)));
        assert_eq!(parsed("latency.p99 > +10%"), p99(Relative(0.1)));
        let lock = "lock.server.osq pipe.mutex <- pipe_write";
        assert_eq!(parsed(&format!("\"{lock}\" > 1us")).0, lock);
    }

    #[test]
    fn other_texts_are_refused_and_quoted() {
        for text in [
            "",
            "tps",
            "tps 5%",
            "tps < ",
            "< 5%",
            "tps < x",
            "tps < 5% 95",
            "tps == 5",
            "tps < 5%%",
            "tps < inf",
            "tps < 1e999",
            "latency.p99 > 1e308s",
            "tps < nan%",
            "tps < --5%",
            "\"tps < 5%",
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert_eq!(error, ConditionError::Grammar(text.to_owned()));
        }
        for text in ["tps < 5% @100", "tps < 5% @0", "tps < 5% @ 49"] {
            let error = text.parse::<Condition>().unwrap_err();
            assert_eq!(error, ConditionError::Confidence(text.to_owned()));
        }
    }
}
