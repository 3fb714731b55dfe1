//! What each hook adds to a transaction on the running kernel.

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::Value;

use super::lockscope::Lockscope;
use super::pairs::{Spread, alternate};
use super::{Rounds, prepare};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Clients
    #[arg(long, default_value = "8")]
    clients: u32,
    /// Only these capabilities
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// A set of hooks as lockscope's options, or none of them.
type Hooks = Vec<String>;

pub(super) fn run(options: &Options) -> Result<()> {
    let (_server, lockscope) = prepare(options.rounds)?;
    let capabilities = capabilities(&lockscope)?;
    let base = base(&lockscope, &capabilities)?;
    println!(
        "lockscope traces only where it sees a lock, so every other hook is measured together"
    );
    println!("with `{base}`, less `{base}` alone; that one less an untraced run.");
    println!();
    println!("{:<14} {:<16} ns a transaction more, median (range)", "capability", "method");
    let base_alone = only(&capabilities, &[&base]);
    row(&lockscope, options, "(nothing: noise)", "-", &base_alone, &base_alone)?;
    for name in &capabilities {
        if !options.only.is_empty() && !options.only.contains(name) {
            continue;
        }
        let with = only(&capabilities, &[&base, name]);
        let method = match probe(&lockscope, &with).and_then(|run| method_of(&run, name)) {
            Ok(method) => method,
            Err(error) => {
                println!("{name:<14} {:<16} {}", "-", reason(&error));
                continue;
            }
        };
        let without =
            if *name == base { vec!["--no-trace".to_owned()] } else { base_alone.clone() };
        row(&lockscope, options, name, &method, &without, &with)?;
    }
    let untraced = vec!["--no-trace".to_owned()];
    row(&lockscope, options, "(the default)", "", &untraced, &vec!["--no-control".to_owned()])
}

fn row(
    lockscope: &Lockscope,
    options: &Options,
    name: &str,
    method: &str,
    without: &Hooks,
    with: &Hooks,
) -> Result<()> {
    let time = options.rounds.seconds.to_string();
    let ns_per_transaction = |hooks: &Hooks| -> Result<f64> {
        let mut words = vec!["--warmup", "1", "-T", &time];
        words.extend(hooks.iter().map(String::as_str));
        Ok(1e9 / lockscope.select_prepared(options.clients, &words)?.tps()?)
    };
    let pairs = alternate(
        options.rounds.pairs,
        || ns_per_transaction(without),
        || ns_per_transaction(with),
    )?;
    if let Some(added) = Spread::of(pairs.iter().map(|(without, with)| with - without)) {
        println!("{name:<14} {method:<16} {added:.0}");
    }
    Ok(())
}

/// Every capability that lockscope knows.
fn capabilities(lockscope: &Lockscope) -> Result<Vec<String>> {
    let run = lockscope.select_prepared(1, &["-t", "1"])?;
    let probes = run.json["probes"].as_array().context("lockscope's JSON has no probes")?;
    Ok(probes.iter().filter_map(|probe| Some(probe["capability"].as_str()?.to_owned())).collect())
}

/// The first that lockscope traces with alone.
fn base(lockscope: &Lockscope, capabilities: &[String]) -> Result<String> {
    capabilities
        .iter()
        .find(|name| probe(lockscope, &only(capabilities, &[name])).is_ok())
        .cloned()
        .context("no capability can be traced alone on this kernel")
}

/// These capabilities on, all others off, the programs on all the time.
fn only(capabilities: &[String], on: &[&String]) -> Hooks {
    let choice =
        |name: &String| format!("{name}={}", if on.contains(&name) { "on" } else { "off" });
    let probes = capabilities.iter().flat_map(|name| ["--probe".to_owned(), choice(name)]);
    probes.chain(["--no-control".to_owned()]).collect()
}

/// The shortest run with these hooks.
fn probe(lockscope: &Lockscope, hooks: &Hooks) -> Result<Value> {
    let words: Vec<&str> =
        ["-t", "1"].into_iter().chain(hooks.iter().map(String::as_str)).collect();
    Ok(lockscope.select_prepared(1, &words)?.json)
}

fn method_of(run: &Value, capability: &str) -> Result<String> {
    let probes = run["probes"].as_array().context("lockscope's JSON has no probes")?;
    let probe = probes.iter().find(|probe| probe["capability"] == capability);
    let method = probe.and_then(|probe| probe["method"].as_str());
    Ok(method.context("lockscope does not say how it attached")?.to_owned())
}

/// Of the error, what lockscope itself said; the command line before it is long.
fn reason(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().last().unwrap_or_default().trim_start_matches("lockscope: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hook_is_on_and_the_others_are_off() {
        let all = ["lock-waits".to_owned(), "osq".to_owned(), "requests".to_owned()];
        let words = only(&all, &[&all[0], &all[2]]).join(" ");
        let expected = "--probe lock-waits=on --probe osq=off --probe requests=on --no-control";
        assert_eq!(words, expected);
    }
}
