//! pgbench alone, and pgbench with lockscope attached.
//!
//! pgbench itself tells its rate both times: what lockscope says of it does not matter here.

use anyhow::{Context as _, Result};
use clap::Args;

use super::lockscope::Lockscope;
use super::pairs::{Spread, alternate};
use super::server::Server;
use super::{Rounds, machine, pgbench, prepare};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Clients
    #[arg(long, default_value = "8")]
    clients: u32,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let rounds = options.rounds;
    let (server, lockscope) = prepare(rounds)?;
    let words = words(options);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let alone = || tps(&pgbench::report(&server, &words)?);
    let attached = || tps(&traced(&server, &lockscope, &words)?);
    let pairs = alternate(rounds.pairs, alone, attached)?;
    print(&pairs);
    Ok(())
}

fn words(options: &Options) -> Vec<String> {
    let (clients, seconds) = (options.clients, options.rounds.seconds);
    let fixed = ["-n", "-S", "-M", "prepared", "-j", "1"].map(str::to_owned);
    fixed.into_iter().chain([format!("-c{clients}"), format!("-T{seconds}")]).collect()
}

/// lockscope starts it, so that all of its time is traced.
fn traced(server: &Server, lockscope: &Lockscope, words: &[&str]) -> Result<String> {
    let directory = server.data().display().to_string();
    let options = ["attach", "--quiet", "--postgres", &directory, "--"];
    lockscope.around(&options, &pgbench::line(server, words))
}

fn tps(report: &str) -> Result<f64> {
    let rate = report.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
    let rate = rate.with_context(|| format!("pgbench did not tell its rate:\n{report}"))?;
    rate.parse().with_context(|| format!("pgbench's rate is no number: {rate}"))
}

fn print(pairs: &[(f64, f64)]) {
    println!();
    println!("pgbench alone  with lockscope  ratio  ns/tx more   ({})", machine::other_load());
    let added_ns = |alone: f64, traced: f64| 1e9 / traced - 1e9 / alone;
    for (alone, traced) in pairs {
        let (ratio, more) = (traced / alone, added_ns(*alone, *traced));
        println!("{alone:>13.0}  {traced:>14.0}  {ratio:.3}  {more:>10.0}");
    }
    let ratio = Spread::of(pairs.iter().map(|(alone, traced)| traced / alone));
    let more = Spread::of(pairs.iter().map(|(alone, traced)| added_ns(*alone, *traced)));
    if let (Some(ratio), Some(more)) = (ratio, more) {
        println!("tps ratio attached / alone: median {ratio}; {more:.0} ns a transaction more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_pgbench_s_report() {
        let report = "latency average = 0.1 ms\ntps = 12821.35 (without initial connection time)\n";
        assert_eq!(tps(report).unwrap(), 12_821.35);
        assert!(tps("nothing").is_err());
    }
}
