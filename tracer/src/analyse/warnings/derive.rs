//! The warnings that a run's own numbers tell.

use lockscope_ebpf::Loss;

use super::Caution;
use crate::analyse::stats::MIN_PAIRS;
use crate::model::{Run, SideLedger, Warning};

/// Below this many transactions p99 rests on fewer than ten of them.
const FEW_TRANSACTIONS: u64 = 1000;
/// A load generator this busy has no room to send faster.
const BUSY_SHARE: f64 = 0.9;
/// Steal above this share moves latencies visibly.
const STEAL_SHARE: f64 = 0.02;
/// An end this much later than planned, and a tenth of the time, is told.
const LATE_NS: u64 = 1_000_000_000;
/// Tracing that costs more than this is said aloud.
const COSTLY_RATIO: f64 = 0.95;
/// Clock sources that cost a device access per reading.
const SLOW_CLOCKS: [&str; 4] = ["acpi_pm", "hpet", "jiffies", "refined-jiffies"];
/// Options that make every lock slower.
const LOCK_DEBUGGING: [&str; 2] = ["CONFIG_DEBUG_LOCK_ALLOC", "CONFIG_LOCK_STAT"];

/// The warnings that follow from the numbers, without those whose code the run already has.
pub fn derive(run: &Run) -> Vec<Warning> {
    [about_the_load(run), about_the_trace(run), about_the_machine(run)]
        .into_iter()
        .flatten()
        .map(Warning::from)
        .filter(|warning| run.warnings.iter().all(|known| known.code != warning.code))
        .collect()
}

/// Ends without a begin that are no sign of loss: this share of the waits, or this many.
const FEW_UNMATCHED: f64 = 0.01;
/// See `FEW_UNMATCHED`.
const MIN_UNMATCHED: f64 = 20.0;
/// Share of the transactions that the two counts of them may differ by.
const REQUESTS_TOLERANCE: f64 = 0.01;
/// Transactions of a client that may fall on both sides of a slice's ends.
const SLACK_PER_SLICE: f64 = 2.0;

fn about_the_load(run: &Run) -> Vec<Caution> {
    let mut found = Vec::new();
    let (throughput, workload) = (&run.throughput, &run.workload);
    if run.interrupted {
        found.push(Caution::Interrupted { reason: "cause not recorded".to_owned() });
    }
    if workload.clients == 0 {
        // Attached to what others run: nobody counts transactions.
        return found;
    }
    match throughput.transactions_count {
        0 => found.push(Caution::NoTransactions),
        count @ 1..FEW_TRANSACTIONS => found.push(Caution::FewTransactions { count }),
        _ => {}
    }
    let (failed_count, aborted_clients_count) =
        (throughput.failed_count, throughput.aborted_clients_count);
    // Clients that gave up alone are told with their reasons by whoever met them.
    let told = run.warnings.iter().any(|warning| warning.code == "clients-aborted");
    if failed_count > 0 || (aborted_clients_count > 0 && !told) {
        found.push(Caution::Failures { failed_count, aborted_clients_count });
    }
    if workload.name == "tpcb-like" && (1..workload.clients).contains(&workload.scale) {
        found.push(Caution::ScaleBelowClients { scale: workload.scale, clients: workload.clients });
    }
    if let Some(busy_share) = load_busy_share(run).filter(|share| *share >= BUSY_SHARE) {
        found.push(Caution::ClientBound { busy_share });
    }
    let traced_ns = run.backends.iter().map(|task| task.wall_ns).max().unwrap_or(0);
    let measured_ns = workload.duration_ns;
    let late_ns = traced_ns.saturating_sub(measured_ns);
    if measured_ns > 0 && late_ns > (measured_ns / 10).max(LATE_NS) {
        found.push(Caution::LateEnd { traced_ns, measured_ns });
    }
    if workload.pin_server.is_some() || workload.pin_client.is_some() {
        found.push(Caution::Pinned {
            server: workload.pin_server.clone(),
            client: workload.pin_client.clone(),
        });
    }
    found
}

/// Share of the time that the load generator's workers were on a CPU, of the CPUs they could use.
fn load_busy_share(run: &Run) -> Option<f64> {
    let pinned = run.workload.pin_client.as_deref().and_then(cpu_list_len);
    let cpus = [Some(run.workload.jobs), Some(run.environment.cpu.count), pinned]
        .into_iter()
        .flatten()
        .filter(|&cpus| cpus > 0)
        .min()?;
    let cpu_ns = run.own_cost.load_cpu_ns_per_transaction? as f64;
    Some(cpu_ns * run.throughput.tps / 1e9 / f64::from(cpus))
}

/// How many CPUs a list like `0-3,8` names.
fn cpu_list_len(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |sum, part| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

fn about_the_trace(run: &Run) -> Vec<Caution> {
    let mut found = Vec::new();
    let sides = [&run.ledger.server, &run.ledger.client, &run.ledger.other];
    let traced: Vec<&SideLedger> = sides.into_iter().flatten().collect();
    if traced.is_empty() {
        found.push(Caution::NotTraced { reason: "no probe was attached".to_owned() });
    }
    if let Some(per_transaction_ns) = unsplit_mutex_spin(run) {
        found.push(Caution::MutexSpinNotSplit { per_transaction_ns });
    }
    let waits: u64 = traced.iter().flat_map(|side| side.wait_counts.values()).sum();
    for kind in Loss::ALL {
        let count = run.losses.get(kind.name()).copied().unwrap_or(0);
        if count > 0 && !is_expected(kind, count, waits) {
            found.push(Caution::Lost { kind, count, of_waits: Some(waits) });
        }
    }
    let cost = &run.own_cost;
    match cost.tps_ratio {
        Some(tps_ratio) if cost.tps_ratio_high.unwrap_or(tps_ratio) < COSTLY_RATIO => {
            found.push(Caution::Costly { tps_ratio });
        }
        None if !traced.is_empty()
            && cost.slice_pairs_count.is_some_and(|n| n < MIN_PAIRS as u64) =>
        {
            found.push(Caution::CostUnknown);
        }
        _ => {}
    }
    found
}

/// Left out on purpose, or what every trace has: shown among the losses, no reason for alarm.
fn is_expected(kind: Loss, count: u64, waits: u64) -> bool {
    match kind {
        Loss::SelfInflicted | Loss::CutByGate => true,
        // Somebody always waits when tracing begins, and when it goes on after a slice without.
        Loss::UnmatchedEnd => (count as f64) <= (waits as f64 * FEW_UNMATCHED).max(MIN_UNMATCHED),
        _ => false,
    }
}

/// Two independent counts of the same transactions: `told` by the backends' replies, and the load
/// generator's.
pub fn requests_differ(run: &Run, told: u64) -> Option<Warning> {
    let load_count = run.throughput.traced_transactions_count;
    let slack = f64::from(run.workload.clients) * SLACK_PER_SLICE * slices(run);
    let allowed = REQUESTS_TOLERANCE * load_count as f64 + slack;
    (load_count.abs_diff(told) as f64 > allowed)
        .then(|| Caution::RequestsDiffer { backends_count: told, load_count }.into())
}

/// Stretches with the programs on; at both ends of each a client may be counted on one side only.
fn slices(run: &Run) -> f64 {
    run.own_cost.slice_pairs_count.unwrap_or(0) as f64 + 1.0
}

/// Server time in `mutex_spin` while no probe splits it.
fn unsplit_mutex_spin(run: &Run) -> Option<f64> {
    let spin = &run.ledger.server.as_ref()?.per_transaction_ns.spin;
    let split = spin.contains_key("osq") || spin.contains_key("mutex_owner");
    spin.get("mutex_spin").copied().filter(|ns| *ns > 0.0 && !split)
}

fn about_the_machine(run: &Run) -> Vec<Caution> {
    let mut found = Vec::new();
    let (cpu, kernel) = (&run.environment.cpu, &run.environment.kernel);
    let machine_ns = f64::from(cpu.count) * run.workload.duration_ns as f64;
    if let Some(steal_ns) = cpu.steal_ns.filter(|_| machine_ns > 0.0) {
        let share = steal_ns as f64 / machine_ns;
        if share > STEAL_SHARE {
            found.push(Caution::Steal { share });
        }
    }
    if let Some(name) = cpu.governor.clone().filter(|name| name != "performance") {
        found.push(Caution::Governor { name });
    }
    if let Some(name) = kernel.clocksource.clone().filter(|name| SLOW_CLOCKS.contains(&&**name)) {
        found.push(Caution::SlowClock { name });
    }
    for option in LOCK_DEBUGGING {
        if kernel.config_flags.get(option).is_some_and(|value| value == "y") {
            found.push(Caution::DebugKernel { option: option.to_owned() });
            break;
        }
    }
    if let Some(limit_millis) = run.environment.memory.cgroup_cpu_limit_millis
        && limit_millis < u64::from(cpu.count) * 1000
    {
        found.push(Caution::CpuLimit { limit_millis });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that gives no reason for any warning.
    fn clean() -> Run {
        let mut run = Run::new();
        run.workload.jobs = 4;
        run.workload.clients = 8;
        run.workload.duration_ns = 10_000_000_000;
        run.environment.cpu.count = 8;
        run.throughput.tps = 10_000.0;
        run.throughput.transactions_count = 100_000;
        run.ledger.server = Some(SideLedger::default());
        run
    }

    fn codes(run: &Run) -> Vec<String> {
        derive(run).into_iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn the_backends_and_the_load_must_count_alike() {
        let mut run = clean();
        run.throughput.traced_transactions_count = 100_000;
        assert_eq!(requests_differ(&run, 99_990), None);
        assert_eq!(requests_differ(&run, 60_000).unwrap().code, "requests-differ");
        let none = requests_differ(&run, 0).unwrap();
        assert!(none.text.contains("could not be read (TLS?)"), "{}", none.text);
    }

    fn assert_code(expected: &str, change: impl FnOnce(&mut Run)) {
        let mut run = clean();
        change(&mut run);
        assert_eq!(codes(&run), [expected]);
    }

    #[test]
    fn a_clean_run_has_none() {
        assert_eq!(codes(&clean()), [""; 0]);
    }

    #[test]
    fn each_reason_gives_its_warning() {
        assert_code("interrupted", |run| run.interrupted = true);
        assert_code("no-transactions", |run| run.throughput.transactions_count = 0);
        assert_code("few-transactions", |run| run.throughput.transactions_count = 999);
        assert_code("failures", |run| run.throughput.aborted_clients_count = 1);
        assert_code("not-traced", |run| run.ledger.server = None);
        assert_code("pinned", |run| run.workload.pin_server = Some("0-1".to_owned()));
        assert_code("costly-tracing", |run| run.own_cost.tps_ratio = Some(0.93));
        assert_code("own-cost-unknown", |run| run.own_cost.slice_pairs_count = Some(1));
        assert_code("late-end", |run| {
            let wall_ns = 11_100_000_000;
            run.backends.push(crate::model::Backend { wall_ns, ..Default::default() });
        });
        assert_code("steal", |run| run.environment.cpu.steal_ns = Some(1_700_000_000));
        assert_code("governor", |run| run.environment.cpu.governor = Some("powersave".to_owned()));
        assert_code("slow-clock", |run| {
            run.environment.kernel.clocksource = Some("hpet".to_owned());
        });
        assert_code("debug-kernel", |run| {
            for option in LOCK_DEBUGGING {
                run.environment.kernel.config_flags.insert(option.to_owned(), "y".to_owned());
            }
        });
        assert_code("cpu-limit", |run| {
            run.environment.memory.cgroup_cpu_limit_millis = Some(2000);
        });
        assert_code("scale-below-clients", |run| {
            run.workload.name = "tpcb-like".to_owned();
            run.workload.scale = 7;
        });
        assert_code("client-bound", |run| {
            run.own_cost.load_cpu_ns_per_transaction = Some(380_000);
        });
        assert_code("mutex-spin-not-split", |run| {
            let mut side = SideLedger::default();
            side.per_transaction_ns.spin.insert("mutex_spin".to_owned(), 12.0);
            run.ledger.server = Some(side);
        });
    }

    #[test]
    fn clients_that_gave_up_are_told_once() {
        let mut run = clean();
        run.throughput.aborted_clients_count = 2;
        run.warnings.push(Warning { code: "clients-aborted".to_owned(), ..Warning::default() });
        assert_eq!(codes(&run), [""; 0]);
        run.throughput.failed_count = 1;
        assert_eq!(codes(&run), ["failures"]);
    }

    #[test]
    fn an_interval_that_reaches_up_is_no_proof_of_cost() {
        let mut run = clean();
        run.own_cost.tps_ratio = Some(0.93);
        run.own_cost.tps_ratio_high = Some(0.97);
        assert_eq!(codes(&run), [""; 0]);
    }

    #[test]
    fn losses_warn_except_those_on_purpose() {
        for kind in Loss::ALL {
            let mut run = clean();
            run.losses.insert(kind.name().to_owned(), 30);
            let on_purpose = matches!(kind, Loss::SelfInflicted | Loss::CutByGate);
            assert_eq!(codes(&run).len(), usize::from(!on_purpose), "{kind:?}");
        }
    }

    #[test]
    fn a_few_waits_that_began_before_the_trace_are_no_loss() {
        let mut run = clean();
        run.losses.insert(Loss::UnmatchedEnd.name().to_owned(), 20);
        assert_eq!(codes(&run), [""; 0]);
        run.losses.insert(Loss::UnmatchedEnd.name().to_owned(), 30);
        assert_eq!(codes(&run).len(), 1);
        let waits = &mut run.ledger.server.as_mut().unwrap().wait_counts;
        waits.insert("rq".to_owned(), 10_000);
        assert_eq!(codes(&run), [""; 0]);
    }

    #[test]
    fn what_the_run_already_says_is_not_said_twice() {
        let mut run = clean();
        run.interrupted = true;
        run.warnings.push(Caution::Interrupted { reason: "Ctrl-C".to_owned() }.into());
        assert_eq!(codes(&run), [""; 0]);
    }

    #[test]
    fn a_pinned_client_is_measured_by_its_cpus() {
        assert_eq!(cpu_list_len("0-3,8"), Some(5));
        assert_eq!(cpu_list_len("3-1"), None);
        assert_eq!(cpu_list_len("x"), None);
        let mut run = clean();
        run.own_cost.load_cpu_ns_per_transaction = Some(100_000);
        assert_eq!(codes(&run), [""; 0]);
        run.workload.pin_client = Some("1".to_owned());
        assert_eq!(codes(&run), ["client-bound", "pinned"]);
    }
}
