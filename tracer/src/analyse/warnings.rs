//! Everything the reader must know before believing a number, with its remedy.
//!
//! A [`Caution`] is the typed form; a [`Warning`] is what the run keeps and the reports print.
//! [`derive()`] finds those that the numbers themselves tell; the others come from whoever met them.

mod derive;
mod losses;

use lockscope_ebpf::Loss;

use super::units::{count, duration, percent, plural};
use crate::model::Warning;

pub use derive::{derive, requests_differ};

/// Something that makes a number mean less, or something else, than it seems to.
#[derive(Clone, Debug, PartialEq)]
pub enum Caution {
    /// The run ended early.
    Interrupted {
        /// What ended it: `Ctrl-C`, `the server closed the connection: …`.
        reason: String,
    },
    /// No transaction ended in the measured time.
    NoTransactions,
    /// Too few transactions for the high percentiles.
    FewTransactions {
        /// Transactions measured.
        count: u64,
    },
    /// Transactions failed or clients gave up.
    Failures {
        /// Failed transactions.
        failed_count: u64,
        /// Clients that gave up.
        aborted_clients_count: u64,
    },
    /// The kernel was not traced.
    NotTraced {
        /// Why not.
        reason: String,
    },
    /// The server runs on another machine.
    RemoteServer {
        /// Its host.
        host: String,
    },
    /// Spinlock contention cannot be seen by any probe.
    TestAndSetSpinlocks,
    /// Mutex spinning is one class instead of three.
    MutexSpinNotSplit {
        /// Nanoseconds per transaction in it, on the server.
        per_transaction_ns: f64,
    },
    /// Events were lost.
    Lost {
        /// What.
        kind: Loss,
        /// How many.
        count: u64,
        /// Ended waits that were counted, to judge the loss by; absent when it is not about waits.
        of_waits: Option<u64>,
    },
    /// The kernel side saw another number of transactions than the load generator ended.
    RequestsDiffer {
        /// Counted at the backends' sockets.
        backends_count: u64,
        /// Counted by the load generator, in the same time.
        load_count: u64,
    },
    /// The tracing went on after the measured time.
    LateEnd {
        /// How long tasks were traced.
        traced_ns: u64,
        /// How long the load was measured.
        measured_ns: u64,
    },
    /// Processes were pinned.
    Pinned {
        /// The server's CPUs.
        server: Option<String>,
        /// The load generator's CPUs.
        client: Option<String>,
    },
    /// The load generator has no CPU time left.
    ClientBound {
        /// Share of the time that its workers were on a CPU, 0..1.
        busy_share: f64,
    },
    /// Tracing slowed the benchmark.
    Costly {
        /// tps with tracing over tps without.
        tps_ratio: f64,
    },
    /// There was a trace, but its cost is not known.
    CostUnknown,
    /// Other guests took CPU time.
    Steal {
        /// Share of all CPUs' time, 0..1.
        share: f64,
    },
    /// The CPUs may run at changing frequencies.
    Governor {
        /// The governor.
        name: String,
    },
    /// Reading the clock is slow.
    SlowClock {
        /// The clock source.
        name: String,
    },
    /// The kernel checks its own locks.
    DebugKernel {
        /// The option that is on.
        option: String,
    },
    /// A control group limits the CPU time.
    CpuLimit {
        /// The limit, in CPUs times 1000.
        limit_millis: u64,
    },
    /// Fewer branches than clients.
    ScaleBelowClients {
        /// The scale.
        scale: u32,
        /// The clients.
        clients: u32,
    },
}

impl Caution {
    /// The stable identifier.
    pub fn code(&self) -> String {
        match self {
            Caution::Interrupted { .. } => "interrupted",
            Caution::NoTransactions => "no-transactions",
            Caution::FewTransactions { .. } => "few-transactions",
            Caution::Failures { .. } => "failures",
            Caution::NotTraced { .. } => "not-traced",
            Caution::RemoteServer { .. } => "client-side-only",
            Caution::TestAndSetSpinlocks => "spinlocks-invisible",
            Caution::MutexSpinNotSplit { .. } => "mutex-spin-not-split",
            Caution::Lost { kind, .. } => return kind.name().replace('_', "-"),
            Caution::RequestsDiffer { .. } => "requests-differ",
            Caution::LateEnd { .. } => "late-end",
            Caution::Pinned { .. } => "pinned",
            Caution::ClientBound { .. } => "client-bound",
            Caution::Costly { .. } => "costly-tracing",
            Caution::CostUnknown => "own-cost-unknown",
            Caution::Steal { .. } => "steal",
            Caution::Governor { .. } => "governor",
            Caution::SlowClock { .. } => "slow-clock",
            Caution::DebugKernel { .. } => "debug-kernel",
            Caution::CpuLimit { .. } => "cpu-limit",
            Caution::ScaleBelowClients { .. } => "scale-below-clients",
        }
        .to_owned()
    }

    fn text(&self) -> String {
        match self {
            Caution::Interrupted { reason } => {
                format!("the run ended before its time ({reason}): it covers what was measured until then")
            }
            Caution::NoTransactions => {
                "no transaction ended in the measured time: nothing can be said per transaction".to_owned()
            }
            Caution::FewTransactions { count } => format!(
                "only {}: p99 and above rest on a handful of values",
                plural(*count, "transaction")
            ),
            Caution::Failures { failed_count, aborted_clients_count } => format!(
                "{} failed and {} gave up: tps and latency are those of the successful transactions",
                plural(*failed_count, "transaction"),
                plural(*aborted_clients_count, "client")
            ),
            Caution::NotTraced { reason } => {
                format!("the kernel was not traced ({reason}): tps and latency only")
            }
            Caution::RemoteServer { host } => {
                format!("the server runs on {host}: only the client side is traced")
            }
            Caution::TestAndSetSpinlocks => "this guest's spinlocks are test-and-set locks: their contention is \
                 invisible to every probe, qspinlock and rq read 0 whatever happens"
                .to_owned(),
            Caution::MutexSpinNotSplit { per_transaction_ns } => format!(
                "mutex_spin ({} a transaction) holds both queueing in osq_lock and spinning on the owner",
                duration(*per_transaction_ns)
            ),
            Caution::Lost { kind, count, of_waits } => losses::text(*kind, *count, *of_waits),
            Caution::RequestsDiffer { backends_count: 0, .. } => {
                "the backends' replies could not be read (TLS?): transactions by backend are the load's count"
                    .to_owned()
            }
            Caution::RequestsDiffer { backends_count, load_count } => format!(
                "the backends ended {} where the load generator counted {}: who else uses them?",
                plural(*backends_count, "transaction"),
                count(*load_count)
            ),
            Caution::LateEnd { traced_ns, measured_ns } => format!(
                "tasks were traced for {} where {} were measured: lockscope's own thread got no CPU to end it in time, and \
                 what the trace counted holds the rest too",
                duration(*traced_ns as f64),
                duration(*measured_ns as f64)
            ),
            Caution::Pinned { server, client } => {
                let parts: Vec<String> = [("server", server), ("load generator", client)]
                    .iter()
                    .filter_map(|(who, cpus)| cpus.as_ref().map(|cpus| format!("{who} to CPU {cpus}")))
                    .collect();
                format!("pinned on request: {}", parts.join(", "))
            }
            Caution::ClientBound { busy_share } => format!(
                "the load generator's workers were on a CPU {} of the time: tps may be the client's limit",
                percent(*busy_share)
            ),
            Caution::Costly { tps_ratio } => format!(
                "tracing lowered tps to {} of what it is without: times include that cost",
                percent(*tps_ratio)
            ),
            Caution::CostUnknown => {
                "what tracing cost this run was not measured: too few pairs of slices with the programs on and off"
                    .to_owned()
            }
            Caution::Steal { share } => format!(
                "the hypervisor gave {} of the CPU time to others: a holder that does not run makes every \
                 waiter wait",
                percent(*share)
            ),
            Caution::Governor { name } => {
                format!("the frequency governor is {name}: CPU speed may change between runs")
            }
            Caution::SlowClock { name } => {
                format!("the clock source is {name}: reading the time is slow, for Postgres and for lockscope")
            }
            Caution::DebugKernel { option } => {
                format!("the kernel is built with {option}: every lock is slower than in a production kernel")
            }
            Caution::CpuLimit { limit_millis } => format!(
                "a control group limits CPU time to {} CPUs: who has used that up waits, throttled",
                *limit_millis as f64 / 1000.0
            ),
            Caution::ScaleBelowClients { scale, clients } => format!(
                "scale {scale} is below {clients} clients: transactions queue for the same branch rows"
            ),
        }
    }

    fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Caution::Interrupted { .. } | Caution::Pinned { .. } => return None,
            Caution::RequestsDiffer { backends_count: 0, .. } => {
                "use a connection without TLS (sslmode=disable) to see them"
            }
            Caution::RequestsDiffer { .. } => {
                "believe the load generator's count; those by backend are as seen at their sockets"
            }
            Caution::LateEnd { .. } => {
                "leave it a CPU: fewer clients, or --pin-server and --pin-client"
            }
            Caution::NoTransactions => {
                "see what blocks them in pg_stat_activity and the server's log; check the workload with -c 1"
            }
            Caution::FewTransactions { .. } => "run longer (-T)",
            Caution::Failures { .. } => {
                "see the server's log; do not compare this run with a clean one"
            }
            Caution::NotTraced { .. } => "`lockscope doctor` says what tracing needs here",
            Caution::RemoteServer { .. } => "run lockscope on the server's machine to see its side",
            Caution::TestAndSetSpinlocks => {
                "use bare metal, or a hypervisor and guest with paravirtual spinlocks (CONFIG_PARAVIRT_SPINLOCKS)"
            }
            Caution::MutexSpinNotSplit { .. } => {
                "a kernel with CONFIG_KPROBES or function tracing for BPF tells them apart; see `lockscope doctor`"
            }
            Caution::Lost { kind, .. } => return losses::remedy(*kind),
            Caution::ClientBound { .. } => {
                "give the load generator more threads (-j) or CPUs of its own (--pin-client)"
            }
            Caution::Costly { .. } => "compare traced runs with traced runs only",
            Caution::CostUnknown => "run longer (-T), without --no-control",
            Caution::Steal { .. } => "use a quiet or dedicated host",
            Caution::Governor { .. } => "cpupower frequency-set -g performance",
            Caution::SlowClock { .. } => {
                "find out from `dmesg | grep -i tsc` why the kernel gave up the TSC"
            }
            Caution::DebugKernel { .. } => "measure on a production kernel",
            Caution::CpuLimit { .. } => {
                "compare with the limit lifted; see cpu.stat of the group for throttling"
            }
            Caution::ScaleBelowClients { .. } => "use --scale of at least the number of clients",
        })
    }
}

impl From<Caution> for Warning {
    fn from(caution: Caution) -> Warning {
        Warning {
            code: caution.code(),
            text: caution.text(),
            remedy: caution.remedy().map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_loss_has_its_own_code_and_says_its_number() {
        let mut codes = BTreeSet::new();
        for kind in Loss::ALL {
            let warning =
                Warning::from(Caution::Lost { kind, count: 12_345, of_waits: Some(98_765) });
            assert!(warning.text.contains("12,345"), "{}", warning.text);
            assert!(codes.insert(warning.code));
        }
    }

    #[test]
    fn a_loss_of_waits_is_set_beside_what_was_counted() {
        let text = |of_waits| {
            Warning::from(Caution::Lost { kind: Loss::InferredEnd, count: 5, of_waits }).text
        };
        assert!(text(Some(1000)).contains("beside 1,000 counted (0.5 %)"), "{}", text(Some(1000)));
        assert!(!text(Some(0)).contains("beside"));
        assert!(!text(None).contains("beside"));
    }
}
