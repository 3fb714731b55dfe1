//! CPU time per transaction, and how many transactions the CPUs have time for.

use std::collections::BTreeSet;

use super::NamedLock;
use crate::load::cpus::CpuList;
use crate::model::{Ceiling, Run, SideLedger};

/// CPU time per transaction, by who takes it; spinning on the lock apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    /// Backends and the server's other processes, without the spinning on the lock.
    pub(super) server_ns: f64,
    /// The load generator's threads, the same.
    pub(super) client_ns: f64,
    /// Their waiting for a CPU and in locks.
    client_waits_ns: f64,
    spinning_ns: f64,
}

impl Demand {
    pub(super) fn of(run: &Run, lock: &NamedLock) -> Demand {
        let traced = run.throughput.traced_transactions_count.max(1) as f64;
        let each = |ns: f64| ns / traced;
        let ledger = &run.ledger;
        let spinning = |side: &str, ledger: &Option<SideLedger>| {
            each(ledger.as_ref().map_or(0.0, |ledger| lock.spinning_ns(side, ledger)))
        };
        let on_cpu = |side: &Option<SideLedger>| {
            each(side.as_ref().and_then(SideLedger::on_cpu_ns).unwrap_or(0) as f64)
        };
        let (of_server, of_client) =
            (spinning("server", &ledger.server), spinning("client", &ledger.client));
        Demand {
            server_ns: on_cpu(&ledger.server) + on_cpu(&ledger.background) - of_server,
            client_ns: on_cpu(&ledger.client) - of_client,
            client_waits_ns: each(waits(&ledger.client)) + of_client,
            spinning_ns: of_server + of_client,
        }
    }

    pub(super) fn total_ns(&self) -> f64 {
        self.server_ns + self.client_ns
    }

    /// Of all CPU time.
    pub(super) fn spinning_share(&self) -> f64 {
        let all = self.total_ns() + self.spinning_ns;
        if all > 0.0 { self.spinning_ns / all } else { 0.0 }
    }

    /// What a transaction waits for its thread of the load generator at most: until that has done the
    /// same for each of its other clients, and its own waits.
    pub(super) fn thread_wait_ns(&self, run: &Run) -> f64 {
        let workload = &run.workload;
        let others = (f64::from(workload.clients) / f64::from(workload.jobs.max(1)) - 1.0).max(0.0);
        others * (self.client_ns + self.client_waits_ns) + self.client_waits_ns
    }
}

fn waits(side: &Option<SideLedger>) -> f64 {
    let is_wait = |state: &str| state.starts_with("runq.") || state.starts_with("lock_sleep.");
    let states = side.iter().flat_map(|side| &side.states_ns);
    states.filter(|(state, _)| is_wait(state)).map(|(_, ns)| *ns as f64).sum()
}

/// The throughput at which each resource would be busy all the time. What other tasks of the machine take
/// is not known, and taken for nothing: a bound from above stays one.
pub(super) fn capacities(run: &Run, demand: &Demand) -> Vec<Ceiling> {
    let workload = &run.workload;
    let cpus_of = |list: &Option<String>| list.as_ref().and_then(|list| list.parse().ok());
    let (server, client): (Option<CpuList>, Option<CpuList>) =
        (cpus_of(&workload.pin_server), cpus_of(&workload.pin_client));
    let all = match (&server, &client) {
        (Some(server), Some(client)) => {
            server.iter().chain(client.iter()).collect::<BTreeSet<usize>>().len() as f64
        }
        _ => f64::from(run.environment.cpu.count),
    };
    let pinned = |list: Option<CpuList>| list.map_or(0.0, |list| list.count() as f64);
    [
        ("cpus", all, demand.total_ns()),
        ("server_cpus", pinned(server), demand.server_ns),
        ("client_cpus", pinned(client), demand.client_ns),
        ("client_threads", f64::from(workload.jobs), demand.client_ns),
    ]
    .into_iter()
    .filter(|(_, servers, ns)| *servers > 0.0 && *ns > 0.0)
    .map(|(resource, servers, ns)| Ceiling {
        resource: resource.to_owned(),
        tps: 1e9 * servers / ns,
    })
    .collect()
}
