//! Reads one value out of a run's JSON, for cases that are shell scripts.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use serde_json::Value;

#[derive(Parser)]
struct Cli {
    /// The output of `lockscope run --json`
    file: PathBuf,
    #[command(subcommand)]
    query: Query,
}

#[derive(Subcommand)]
enum Query {
    /// Transactions of the run
    Transactions,
    /// Waits in some lock classes
    Count {
        #[arg(required = true)]
        classes: Vec<String>,
    },
    /// The method by which a capability is measured
    Method { capability: String },
    /// How often a loss occurred
    Loss { kind: String },
    /// Accounts of tasks of a side
    Tasks { side: String },
    /// Different tids among them
    Tids { side: String },
    /// Elements of the array at a JSON pointer
    Length { pointer: String },
    /// Fails unless the number at a JSON pointer is above zero
    Positive { pointer: String },
    /// Fails unless the number at a JSON pointer is near another
    Near { pointer: String, expected: f64, tolerance: f64 },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let text = fs::read_to_string(&cli.file)
        .with_context(|| format!("cannot read {}", cli.file.display()))?;
    let run: Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is not JSON", cli.file.display()))?;
    println!("{}", answer(&run, &cli.query)?);
    Ok(())
}

fn answer(run: &Value, query: &Query) -> Result<String> {
    Ok(match query {
        Query::Transactions => number(at(run, "/throughput/transactions_count")?)?.to_string(),
        Query::Count { classes } => count(run, classes)?.to_string(),
        Query::Method { capability } => method(run, capability)?,
        Query::Loss { kind } => number(at(run, &format!("/losses/{kind}"))?)?.to_string(),
        Query::Tasks { side } => tids(run, side)?.len().to_string(),
        Query::Tids { side } => tids(run, side)?.iter().collect::<BTreeSet<_>>().len().to_string(),
        Query::Length { pointer } => array(run, pointer)?.len().to_string(),
        Query::Positive { pointer } => {
            let value =
                at(run, pointer)?.as_f64().with_context(|| format!("{pointer} is no number"))?;
            if value <= 0.0 {
                bail!("{pointer} is {value}, expected more than 0");
            }
            value.to_string()
        }
        Query::Near { pointer, expected, tolerance } => {
            let value =
                at(run, pointer)?.as_f64().with_context(|| format!("{pointer} is no number"))?;
            if (value - expected).abs() > *tolerance {
                bail!("{pointer} is {value}, expected {expected} within {tolerance}");
            }
            value.to_string()
        }
    })
}

fn count(run: &Value, classes: &[String]) -> Result<u64> {
    let wanted = |lock: &&Value| classes.iter().any(|class| lock["class"] == *class);
    array(run, "/locks")?.iter().filter(wanted).map(|lock| number(&lock["count"])).sum()
}

/// The tid of every task of a side; one that was used twice is there twice.
fn tids(run: &Value, side: &str) -> Result<Vec<u64>> {
    let of_side = |task: &&Value| task["side"] == side;
    array(run, "/backends")?.iter().filter(of_side).map(|task| number(&task["tid"])).collect()
}

fn method(run: &Value, capability: &str) -> Result<String> {
    let probe = array(run, "/probes")?.iter().find(|probe| probe["capability"] == capability);
    let method = probe.and_then(|probe| probe["method"].as_str());
    method.map(str::to_owned).with_context(|| format!("the run has no capability `{capability}`"))
}

fn at<'a>(run: &'a Value, pointer: &str) -> Result<&'a Value> {
    run.pointer(pointer).with_context(|| format!("the run has no {pointer}"))
}

fn array<'a>(run: &'a Value, pointer: &str) -> Result<&'a Vec<Value>> {
    at(run, pointer)?.as_array().with_context(|| format!("{pointer} is no array"))
}

fn number(value: &Value) -> Result<u64> {
    value.as_u64().with_context(|| format!("`{value}` is no count"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waits_are_summed_by_class() {
        let run = json!({"locks": [
            {"class": "osq", "count": 2}, {"class": "rq", "count": 5}, {"class": "osq", "count": 3}
        ]});
        let sum = |classes: &[&str]| {
            let classes: Vec<String> = classes.iter().map(|&class| class.to_owned()).collect();
            count(&run, &classes).expect("counts")
        };
        assert_eq!((sum(&["osq"]), sum(&["osq", "rq"]), sum(&["rwlock"])), (5, 10, 0));
        assert!(count(&json!({}), &[]).is_err(), "a run without locks is not a run without waits");
    }

    #[test]
    fn a_tid_that_came_back_is_two_tasks() {
        let run = json!({"backends": [
            {"side": "server", "tid": 7}, {"side": "client", "tid": 8}, {"side": "server", "tid": 7}
        ]});
        let ask = |query: Query| answer(&run, &query).expect("an answer");
        assert_eq!(ask(Query::Tasks { side: "server".to_owned() }), "2");
        assert_eq!(ask(Query::Tids { side: "server".to_owned() }), "1");
    }

    #[test]
    fn zero_is_not_positive() {
        let run = json!({"plug": {"zero": 0, "some": 0.5}});
        let ask = |pointer: &str| answer(&run, &Query::Positive { pointer: pointer.to_owned() });
        assert!(ask("/plug/zero").is_err() && ask("/plug/absent").is_err());
        assert_eq!(ask("/plug/some").expect("positive"), "0.5");
        let near = |expected: f64| {
            let pointer = "/plug/some".to_owned();
            answer(&run, &Query::Near { pointer, expected, tolerance: 0.01 })
        };
        assert!(near(0.505).is_ok() && near(0.52).is_err());
    }
}
