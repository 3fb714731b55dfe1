//! How the time is shared out: of the mean latency where there are transactions, else of the traced
//! tasks' own time.

use std::collections::BTreeMap;

use crate::model::Run;

/// Shares of the time by state, `cpu`, `runq.queued`, `spin.osq`.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// What they are shares of, in words.
    pub(super) of: &'static str,
    states: BTreeMap<String, f64>,
    /// Client and transport.
    pub(super) rest: f64,
    /// Whether the rest of the time is split at all.
    pub(super) splits_all: bool,
    /// Whose they are: `server`, `client`, `other`.
    pub(super) side: &'static str,
}

impl Shares {
    pub(super) fn of(run: &Run) -> Option<Shares> {
        Shares::of_latency(run).or_else(|| Shares::of_tasks(run))
    }

    fn of_latency(run: &Run) -> Option<Shares> {
        let server = run.ledger.server.as_ref()?;
        let account = &server.per_transaction_ns;
        let mean_ns = run.traced_latency_ns()?;
        if account.total_ns() <= 0.0 && account.rest_ns().is_none() {
            return None;
        }
        let states = account.states().into_iter().map(|(state, ns)| (state, ns / mean_ns));
        Some(Shares {
            of: "the mean latency",
            states: states.collect(),
            rest: account.client_and_transport.unwrap_or(0.0).max(0.0) / mean_ns,
            splits_all: account.cpu.is_some(),
            side: "server",
        })
    }

    /// Nobody's transactions: an attached program.
    fn of_tasks(run: &Run) -> Option<Shares> {
        let ledger = &run.ledger;
        let sides =
            [("other", &ledger.other), ("client", &ledger.client), ("server", &ledger.server)];
        let with_states = sides.into_iter().filter_map(|(name, side)| Some((name, side.as_ref()?)));
        let mut with_states = with_states.filter(|(_, side)| !side.states_ns.is_empty());
        let (name, side) = with_states.next()?;
        let wall_ns = side.wall_ns.filter(|wall_ns| *wall_ns > 0)? as f64;
        let states = side.states_ns.iter();
        Some(Shares {
            of: "the traced tasks' time",
            states: states.map(|(state, ns)| (state.clone(), *ns as f64 / wall_ns)).collect(),
            rest: 0.0,
            splits_all: true,
            side: name,
        })
    }

    /// One state's.
    pub(super) fn state(&self, name: &str) -> f64 {
        self.states.get(name).copied().unwrap_or(0.0)
    }

    /// All that begin so.
    pub(super) fn all(&self, prefix: &str) -> f64 {
        let of_kind = self.states.iter().filter(|(name, _)| name.starts_with(prefix));
        of_kind.map(|(_, share)| share).sum()
    }

    /// Kernel locks: spins, sleeps, spins of interrupts.
    pub(super) fn locks(&self) -> f64 {
        self.all("spin.") + self.all("lock_sleep.") + self.state("irq")
    }

    /// On a CPU, spinning or not.
    pub(super) fn on_cpu(&self) -> f64 {
        self.state("cpu") + self.all("spin.") + self.state("irq")
    }
}
