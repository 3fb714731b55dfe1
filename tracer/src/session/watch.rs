//! What perf events tell beside the programs. None of it is needed for the rest: what cannot be had is
//! told, and the measurement goes on.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use super::AttachOptions;
use crate::collect::Snapshot;
use crate::counters::{self, Counted, Counters, OwnCounters};
use crate::kernel::tracefs::{field_offset, tracepoint_id, with_tracefs};
use crate::ledger::{Accounts, Group};
use crate::load::cpus::CpuList;
use crate::model::CpuSpeed;
use crate::profile::{Place, Profiler, Samples, WakingEvent, WatchedTask};
use crate::symbolize::{KernelNames, KernelSymbolizer};

/// Perf events under way.
#[derive(Default)]
pub(super) struct Watch {
    profiler: Option<Profiler>,
    counters: Option<Counters>,
    /// The kernel's own counters of the tasks at the begin; in the end, what came since.
    own: HashMap<u32, OwnCounters>,
    speeds: [CpuSpeed; 2],
    troubles: Vec<String>,
}

/// What they told.
#[derive(Debug, Default)]
pub struct Watched {
    /// Who was on a CPU.
    pub profile: Option<Samples>,
    /// Hardware events by side; `None` where they were not wanted.
    pub counted: Option<Counted>,
    /// The kernel's own counters of the tasks that lived all the time.
    pub own: HashMap<u32, OwnCounters>,
    /// The CPUs' speed at the begin and at the end.
    pub speeds: [CpuSpeed; 2],
    /// Functions of the kernel, and of the programs, that are met in it.
    pub kernel_names: KernelNames,
    /// Where they were looked up: the kernel's symbols are read once.
    pub kernel_symbols: RefCell<KernelSymbolizer>,
    /// What could not be had, and why.
    pub troubles: Vec<String>,
}

impl Watch {
    /// Opens what is wanted, not yet counting.
    pub(super) fn open(options: &AttachOptions) -> Watch {
        let counters = options.counters.then(Counters::find);
        let mut watch = Watch { counters, ..Watch::default() };
        let Some(hz) = options.sampling_hz else { return watch };
        match open_profiler(hz) {
            Ok(profiler) => watch.profiler = Some(profiler),
            Err(why) => watch.trouble("profile", &why),
        }
        watch
    }

    fn trouble(&mut self, what: &str, why: &str) {
        self.troubles.push(format!("no {what}: {why}"));
    }

    pub(super) fn begin(&mut self, now_ns: u64, tasks: &Snapshot) {
        if let Some(counters) = &mut self.counters {
            counters.begin(now_ns);
            self.own = counters::read_all(tasks.task_ids());
            self.speeds[0] = counters::speed();
        }
        if let Some(profiler) = &mut self.profiler
            && let Err(error) = profiler.begin(now_ns)
        {
            self.profiler = None;
            self.trouble("profile", &format!("the perf events cannot be enabled: {error}"));
        }
    }

    pub(super) fn tick(&mut self, now_ns: u64, accounts: &Accounts) {
        if let Some(counters) = &mut self.counters {
            counters.tick(now_ns, || living(accounts));
        }
        if let Some(profiler) = &mut self.profiler {
            profiler.tick(now_ns, || {
                let tasks = living(accounts).into_iter();
                tasks.map(|(side, tid)| WatchedTask { side, tid }).collect()
            });
        }
    }

    pub(super) fn stop(&mut self, now_ns: u64, tasks: &Snapshot) {
        if let Some(counters) = &mut self.counters {
            counters.stop();
            self.own = counters::between(&self.own, &counters::read_all(tasks.task_ids()));
            self.speeds[1] = counters::speed();
        }
        if let Some(profiler) = &mut self.profiler
            && let Err(error) = profiler.stop(now_ns)
        {
            self.trouble("end of the profile", &error.to_string());
        }
    }

    /// Looks up the kernel's names now: those of the programs go with them.
    pub(super) fn finish(self) -> Watched {
        let profile = self.profiler.map(Profiler::finish);
        let mut kernel_names = KernelNames::new();
        let mut symbols = KernelSymbolizer::new();
        for place in profile.iter().flat_map(|samples| &samples.places) {
            if let Place::Kernel(address) = place
                && let Some(symbol) = symbols.resolve(*address)
            {
                kernel_names.insert(*address, symbol.clone());
            }
        }
        Watched {
            profile,
            counted: self.counters.map(Counters::finish),
            own: self.own,
            speeds: self.speeds,
            kernel_names,
            kernel_symbols: RefCell::new(symbols),
            troubles: self.troubles,
        }
    }
}

/// The tasks that may be counted: those whose time is a transaction's or was asked for by name.
fn living(accounts: &Accounts) -> Vec<(&'static str, u32)> {
    let living = accounts.iter().filter(|(_, task)| task.account.exited == 0);
    let counted = living.filter(|(_, task)| task.group != Group::Background);
    counted.map(|(key, task)| (task.group.name(), key.tid)).collect()
}

fn open_profiler(hz: u64) -> Result<Profiler, String> {
    let path = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let cpus: CpuList = text.trim().parse().map_err(|error| format!("{path}: {error}"))?;
    let waking = with_tracefs(|| {
        let name = "sched:sched_waking";
        Some(WakingEvent { id: tracepoint_id(name)?, pid_offset: field_offset(name, "pid")? })
    });
    let cpus: Vec<usize> = cpus.iter().collect();
    Profiler::open(hz, &cpus, waking).map_err(|error| error.to_string())
}
