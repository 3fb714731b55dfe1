//! What a traced measurement found, in the model's words.

mod watched;

use crate::analyse::correlation::with_latency;
use crate::analyse::holds::HolderTable;
use crate::analyse::locks::lock_table;
use crate::analyse::removal::removal;
use crate::analyse::stats::paired_ratio;
use crate::analyse::verdict::verdict;
use crate::analyse::{units, warnings};
use crate::filter::Filter;
use crate::kernel::Btf;
use crate::kernel::symbols::DataSymbols;
use crate::model::{self, Run, Warning};
use crate::session::Findings;
use crate::symbolize::{KernelObjects, LockNamer};

/// Adds everything that the trace tells to what the load has told; `start_ns` is the begin of the run's first
/// interval.
pub(super) fn add_findings(run: &mut Run, findings: &Findings, start_ns: u64) {
    run.depth = if findings.splits_all() { "ledger" } else { "locks" }.to_owned();
    run.throughput.traced_transactions_count = findings.traced().transactions_count;
    run.ledger = findings.ledger();
    run.plug = findings.plug();
    run.backends = findings.backends();
    run.probes = findings.plan.probes.iter().map(model::Probe::from).collect();
    run.wait_balance = Some(findings.balance.clone());
    run.losses = findings.losses.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
    run.locks = locks(findings, &run.backends);
    run.warnings.extend(findings.memory.no_slabs.as_deref().map(no_slab_names));
    run.own_cost = findings.own_cost(run.environment.cpu.count as usize);
    add_control(&mut run.own_cost, findings);
    // Only a load of our own counts transactions too.
    let told = findings.requests_told().filter(|_| run.workload.clients > 0);
    run.warnings.extend(told.and_then(|told| warnings::requests_differ(run, told)));
    let has_own_load = run.workload.clients > 0;
    if !has_own_load {
        run.latency_ns = findings.latency();
    }
    let mut begin_ns = start_ns;
    for (index, interval) in run.intervals.iter_mut().enumerate() {
        interval.per_transaction_ns = findings.interval(index, begin_ns);
        interval.marks = findings.at_work(index);
        if !has_own_load {
            let latencies = findings.latencies_in(index);
            interval.latency_ns = latencies.mean_ns();
            interval.latency_p99_ns = latencies.quantile_ns(0.99);
        }
        begin_ns = findings.marks.get(index).map_or(u64::MAX, |mark| mark.end_ns);
    }
    run.correlations = with_latency(&run.intervals);
    watched::add(run, findings);
    run.verdict = verdict(run);
    run.removal = Some(removal(run));
}

/// Leaves in the lock table what the filters ask for, and says so.
pub(super) fn narrow(run: &mut Run, filter: &Filter) {
    run.filters = filter.words.clone();
    let all = std::mem::take(&mut run.locks);
    run.locks = all.iter().filter(|lock| filter.rows.passes(lock)).cloned().collect();
    if run.locks.is_empty() && !all.is_empty() {
        let near = filter.rows.near_misses(&all).unwrap_or_default();
        run.warnings.push(Warning {
            code: "filtered-out".to_owned(),
            text: format!(
                "none of {} passed --lock and --caller{near}",
                units::plural(all.len() as u64, "contended lock"),
            ),
            remedy: Some("leave the filter away to see their names".to_owned()),
        });
    }
}

fn no_slab_names(why: &str) -> Warning {
    Warning {
        code: "no-slab-names".to_owned(),
        text: format!(
            "locks inside slab objects (inodes, sockets, open files) go by their caller: {why}"
        ),
        remedy: Some("use a kernel with CONFIG_DEBUG_INFO_BTF and CONFIG_KALLSYMS_ALL".to_owned()),
    }
}

/// The contended locks by name. Without readable kallsyms the addresses stand for themselves.
fn locks(findings: &Findings, tasks: &[model::Backend]) -> Vec<model::Lock> {
    if findings.locks.is_empty() {
        return Vec::new();
    }
    let variables = DataSymbols::of_running_kernel().unwrap_or_default();
    let run_queues = (0..).zip(&findings.rq_locks).filter(|(_, address)| **address != 0);
    let objects = KernelObjects::new(
        Btf::of_running_kernel().ok(),
        findings.identities.locks.clone(),
        &findings.run_queues,
        findings.memory.nodes.clone(),
    );
    let run_queues = run_queues.map(|(cpu, address)| (*address, cpu));
    let namer = LockNamer::new(variables, run_queues, objects);
    let roles = tasks.iter().map(|task| (task.tid, task.role.as_str()));
    let holders = HolderTable::new(&findings.identities, roles);
    let symbols = &mut findings.watched.kernel_symbols.borrow_mut();
    lock_table(&findings.locks, &findings.samples, &namer, &holders, symbols)
}

/// What the slices with the programs off say of the cost of tracing.
fn add_control(cost: &mut model::OwnCost, findings: &Findings) {
    let pairs = findings.slices.pairs();
    let tps: Vec<_> = pairs.iter().map(|pair| (pair.tps_on, pair.tps_off)).collect();
    let latency: Vec<_> =
        pairs.iter().map(|pair| (pair.latency_on_ns, pair.latency_off_ns)).collect();
    // Slices too few for a ratio are told as such; without any, it was not wanted.
    cost.slice_pairs_count = (!pairs.is_empty()).then_some(pairs.len() as u64);
    if let Some(ratio) = paired_ratio(&tps) {
        cost.tps_ratio = Some(ratio.ratio);
        cost.tps_ratio_low = Some(ratio.low);
        cost.tps_ratio_high = Some(ratio.high);
    }
    cost.latency_ratio = paired_ratio(&latency).map(|ratio| ratio.ratio);
}
