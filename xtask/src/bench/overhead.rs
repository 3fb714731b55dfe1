//! The same load with tracing and without.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::lockscope::{Lockscope, Run};
use super::pairs::{Spread, alternate};
use super::{Rounds, machine, prepare, start};

const MIB: f64 = 1_048_576.0;

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
    let (_server, lockscope) = prepare(rounds)?;
    let measure = |trace: &str| measure(&lockscope, options, trace);
    let pairs = alternate(rounds.pairs, || measure("--no-trace"), || measure("--no-control"))?;
    print_ratio(&pairs)?;
    let traced: Vec<Run> = pairs.into_iter().map(|(_, traced)| traced).collect();
    print_programs(&traced);
    print_memory(&traced);
    print_slices(&lockscope, options)?;
    start::print(&lockscope, rounds.pairs)
}

fn measure(lockscope: &Lockscope, options: &Options, trace: &str) -> Result<Run> {
    let time = options.rounds.seconds.to_string();
    lockscope.select_prepared(options.clients, &["--warmup", "1", "-T", &time, trace])
}

fn print_ratio(pairs: &[(Run, Run)]) -> Result<()> {
    println!();
    println!("untraced tps  traced tps  ratio  ns/tx more   ({})", machine::other_load());
    let (mut ratios, mut added_ns) = (Vec::new(), Vec::new());
    for (untraced, traced) in pairs {
        let (off, on) = (untraced.tps()?, traced.tps()?);
        ratios.push(on / off);
        added_ns.push(1e9 / on - 1e9 / off);
        println!("{off:>12.0}  {on:>10.0}  {:.3}  {:>10.0}", on / off, 1e9 / on - 1e9 / off);
    }
    if let (Some(ratio), Some(added_ns)) = (Spread::of(ratios), Spread::of(added_ns)) {
        println!(
            "tps ratio traced / untraced: median {ratio}; {added_ns:.0} ns a transaction more"
        );
    }
    Ok(())
}

/// What a run says of itself: its own slices with the programs off.
fn print_slices(lockscope: &Lockscope, options: &Options) -> Result<()> {
    println!();
    println!(
        "tps ratio by a traced run's own control slices (programs attached, gate open / shut):"
    );
    let time = options.rounds.seconds.max(10).to_string();
    let mut ratios = Vec::new();
    for _ in 0..options.rounds.pairs {
        let run = lockscope.select_prepared(options.clients, &["--warmup", "1", "-T", &time])?;
        let own = |name: &str| run.number(&format!("/own_cost/{name}")).unwrap_or(f64::NAN);
        println!(
            "  {:.3}, 95 % interval {:.3}..{:.3}",
            own("tps_ratio"),
            own("tps_ratio_low"),
            own("tps_ratio_high")
        );
        ratios.push(own("tps_ratio"));
    }
    if let Some(ratio) = Spread::of(ratios) {
        println!("  median {ratio}");
    }
    Ok(())
}

/// From the runs' windows with BPF_ENABLE_STATS.
fn print_programs(traced: &[Run]) {
    let mut costs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut runs: BTreeMap<String, u64> = BTreeMap::new();
    for run in traced {
        let programs = run.json.pointer("/own_cost/bpf_programs").and_then(Value::as_array);
        for program in programs.into_iter().flatten() {
            let count = program["run_count"].as_u64().unwrap_or(0);
            if let (Some(name), true) = (program["name"].as_str(), count > 0) {
                let ns = program["run_ns"].as_f64().unwrap_or(f64::NAN) / count as f64;
                costs.entry(name.to_owned()).or_default().push(ns);
                *runs.entry(name.to_owned()).or_default() += count;
            }
        }
    }
    println!();
    println!(
        "run time of the programs with BPF_ENABLE_STATS, which adds two clock reads an event:"
    );
    for (name, costs) in costs {
        if let Some(cost) = Spread::of(costs) {
            println!("  {name:<24} {cost:.0} ns an event ({} events)", runs[&name]);
        }
    }
}

fn print_memory(traced: &[Run]) {
    let spread = |of: fn(&Run) -> f64| Spread::of(traced.iter().map(of));
    println!();
    if let Some(rss) = spread(|run| run.max_rss_bytes as f64 / MIB) {
        println!("largest resident set of lockscope: {rss:.1} MiB");
    }
    let map_bytes = |run: &Run| run.number("/own_cost/map_bytes").unwrap_or(f64::NAN) / MIB;
    if let Some(maps) = spread(map_bytes) {
        println!("kernel memory of its maps: {maps:.1} MiB");
    }
}
