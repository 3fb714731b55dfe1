//! Reads one value out of a run's JSON, for cases that are shell scripts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
    /// Every capability, in a run or in doctor's JSON
    Capabilities,
    /// In doctor's JSON: the capabilities that a method can serve
    Choices { method: String },
    /// How often a loss occurred
    Loss { kind: String },
    /// Accounts of tasks of a side
    Tasks { side: String },
    /// Different tids among them
    Tids { side: String },
    /// How a contended lock of some class was recognised; fails if none has this name
    FoundBy { class: String, name: String },
    /// The task that held a lock longest while others waited; fails if none has this name
    Owner { name: String },
    /// Fails unless a tid of a stressor's line is among those that held a lock longest
    HeldBy { name: String, load: PathBuf },
    /// Fails unless a stressor's first tid held a lock longest, and longer than all others together
    HeldMostlyBy { name: String, load: PathBuf },
    /// Nanoseconds that the tasks of a stressor's process were in a state
    State { load: PathBuf, state: String },
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
        Query::Capabilities => capabilities(run)?,
        Query::Choices { method } => choices(run, method)?,
        Query::Loss { kind } => number(at(run, &format!("/losses/{kind}"))?)?.to_string(),
        Query::Tasks { side } => tids(run, side)?.len().to_string(),
        Query::Tids { side } => tids(run, side)?.iter().collect::<BTreeSet<_>>().len().to_string(),
        Query::FoundBy { class, name } => found_by(run, class, name)?,
        Query::Owner { name } => owner(run, name)?.to_string(),
        Query::HeldBy { name, load } => held_by(run, name, &load_tids(load)?)?,
        Query::HeldMostlyBy { name, load } => held_mostly_by(run, name, &load_tids(load)?)?,
        Query::State { load, state } => state_ns(run, load_pid(load)?, state)?.to_string(),
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

fn capabilities(run: &Value) -> Result<String> {
    let names = array(run, "/probes")?.iter().filter_map(|probe| probe["capability"].as_str());
    Ok(names.collect::<Vec<_>>().join("\n"))
}

/// The capabilities that doctor can attach by a method, one a line.
fn choices(diagnosis: &Value, method: &str) -> Result<String> {
    let choices = at(diagnosis, "/choices")?.as_object().context("doctor offers no choices")?;
    let serves = |methods: &Value| {
        methods.as_array().is_some_and(|methods| methods.iter().any(|known| known == method))
    };
    let served =
        choices.iter().filter(|(_, methods)| serves(methods)).map(|(name, _)| name.as_str());
    Ok(served.collect::<Vec<_>>().join("\n"))
}

fn found_by(run: &Value, class: &str, name: &str) -> Result<String> {
    let named = |lock: &&Value| lock["class"] == class && lock["name"] == name;
    let Some(lock) = array(run, "/locks")?.iter().find(named) else {
        bail!("no {class} is called {name}; there are: {}", names(run)?);
    };
    let found = lock["found_by"].as_str().context("the lock does not say how it was found")?;
    Ok(lock["found_in"].as_str().map_or(found.to_owned(), |place| format!("{found} {place}")))
}

/// Every lock with its class, for a message.
fn names(run: &Value) -> Result<String> {
    let name = |lock: &Value| format!("{} {} ({})", lock["class"], lock["name"], lock["found_by"]);
    Ok(array(run, "/locks")?.iter().map(name).collect::<Vec<_>>().join(", "))
}

fn held<'a>(run: &'a Value, name: &str) -> Result<&'a Value> {
    let held = |lock: &&Value| lock["name"] == name && lock["holds"].is_object();
    let lock = array(run, "/locks")?.iter().find(held);
    lock.with_context(|| {
        format!("nobody was seen to hold {name}; there are: {}", names(run).unwrap_or_default())
    })
}

fn owner<'a>(run: &'a Value, name: &str) -> Result<&'a Value> {
    Ok(&held(run, name)?["owner"])
}

fn held_by(run: &Value, name: &str, tids: &[u64]) -> Result<String> {
    let holders = array(held(run, name)?, "/holds/holders")?;
    let is_ours = |holder: &&Value| holder["tid"].as_u64().is_some_and(|tid| tids.contains(&tid));
    match holders.iter().find(is_ours) {
        Some(holder) => Ok(holder.to_string()),
        None => bail!("{name} was held by {holders:?}, expected one of {tids:?}"),
    }
}

fn held_mostly_by(run: &Value, name: &str, tids: &[u64]) -> Result<String> {
    let first = tids.first().context("the load has no tids")?;
    let owner = owner(run, name)?;
    let (own, all) = (number(&owner["total_ns"])?, number(&held(run, name)?["holds"]["total_ns"])?);
    if owner["tid"].as_u64() != Some(*first) || own * 2 < all {
        bail!("{name} was held by {owner} of {all} ns, expected {first} for most of it");
    }
    Ok(owner.to_string())
}

/// A state that a task was never in is not in its account.
fn state_ns(run: &Value, pid: u64, state: &str) -> Result<u64> {
    let of_process = |task: &&Value| task["pid"].as_u64() == Some(pid);
    let tasks: Vec<&Value> = array(run, "/backends")?.iter().filter(of_process).collect();
    if tasks.is_empty() {
        bail!("process {pid} has no account");
    }
    let of = |task: &&Value| {
        let states = task["states_ns"].as_object().context("its time is not split")?;
        states.get(state).map_or(Ok(0), number)
    };
    tasks.iter().map(of).sum()
}

fn load_pid(load: &Path) -> Result<u64> {
    number(&load_line(load)?["pid"])
}

/// The tids in a stressor's line.
fn load_tids(load: &Path) -> Result<Vec<u64>> {
    array(&load_line(load)?, "/tids")?.iter().map(number).collect()
}

fn load_line(load: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(load).with_context(|| format!("cannot read {}", load.display()))?;
    serde_json::from_str(&text).context("the load's line is not JSON")
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
    fn a_holder_is_told_by_name_and_tid() {
        let holder = json!({"tid": 7, "total_ns": 60});
        let run = json!({"locks": [
            {"class": "mutex", "name": "a", "found_by": "slab", "found_in": "filp"},
            {"class": "mutex", "name": "b", "found_by": "caller", "owner": holder,
             "holds": {"total_ns": 100, "holders": [holder]}}
        ]});
        assert_eq!(found_by(&run, "mutex", "a").expect("found"), "slab filp");
        assert!(found_by(&run, "rwsem", "a").is_err());
        assert!(held_by(&run, "a", &[7]).is_err(), "no holder was seen");
        assert!(held_by(&run, "b", &[6, 7]).is_ok() && held_by(&run, "b", &[6]).is_err());
        assert!(held_mostly_by(&run, "b", &[7, 6]).is_ok());
        assert!(held_mostly_by(&run, "b", &[6, 7]).is_err(), "another than the first");
    }

    #[test]
    fn a_state_that_never_was_took_no_time_but_a_task_without_an_account_is_an_error() {
        let task = |pid: u64, cpu: u64| json!({"pid": pid, "states_ns": {"cpu": cpu}});
        let run = json!({"backends": [task(7, 5), task(7, 6), task(8, 9), {"pid": 9}]});
        assert_eq!(state_ns(&run, 7, "cpu").unwrap(), 11);
        assert_eq!(state_ns(&run, 7, "runq.throttled").unwrap(), 0);
        assert!(state_ns(&run, 9, "cpu").is_err());
        assert!(state_ns(&run, 10, "cpu").is_err());
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
