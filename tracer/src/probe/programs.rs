//! Which programs of the eBPF object serve a capability by a method, and where each hangs.

use super::capability::{Capability, Method};

/// One program and its hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSpec {
    /// Name in the eBPF object.
    pub program: &'static str,
    /// What it hangs on.
    pub hook: Hook,
}

/// What a program hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A tracepoint: category and name.
    Tracepoint(&'static str, &'static str),
    /// Entry or return of the plan's target function with this index; nothing when the plan has
    /// fewer (a kernel need not have every variant of a function).
    Function(usize),
}

fn tracepoint(program: &'static str, category: &'static str, name: &'static str) -> ProgramSpec {
    ProgramSpec { program, hook: Hook::Tracepoint(category, name) }
}

fn function(program: &'static str, target: usize) -> ProgramSpec {
    ProgramSpec { program, hook: Hook::Function(target) }
}

/// A tracepoint's three programs, in the order of the methods.
macro_rules! tracepoint_programs {
    ($method:expr; $(($category:literal, $name:literal)),+) => {
        match $method {
            Method::TpBtf => vec![$(tracepoint(concat!($name, "_btf"), $category, $name)),+],
            Method::RawTracepoint => vec![$(tracepoint(concat!($name, "_raw"), $category, $name)),+],
            Method::Tracepoint => vec![$(tracepoint(concat!($name, "_tp"), $category, $name)),+],
            _ => Vec::new(),
        }
    };
}

/// A function's entry and return programs; the name is the program's, the target the plan's.
macro_rules! function_programs {
    ($method:expr, $name:literal, $target:expr) => {
        match $method {
            Method::Fentry => {
                vec![
                    function(concat!($name, "_fentry"), $target),
                    function(concat!($name, "_fexit"), $target),
                ]
            }
            Method::Kprobe => {
                vec![
                    function(concat!($name, "_kprobe"), $target),
                    function(concat!($name, "_kretprobe"), $target),
                ]
            }
            _ => Vec::new(),
        }
    };
}

/// Entry and exit of each function, in the order of the plan's targets; only through trampolines.
fn slow_paths(method: Method, pairs: &[[&'static str; 2]]) -> Vec<ProgramSpec> {
    if method != Method::Fentry {
        return Vec::new();
    }
    let of_pair = |(target, pair): (usize, &[&'static str; 2])| {
        // The exit first: an entry without it would stay open.
        [function(pair[1], target), function(pair[0], target)]
    };
    pairs.iter().enumerate().flat_map(of_pair).collect()
}

/// The programs to load and attach; empty when the method cannot serve the capability.
pub fn programs(capability: Capability, method: Method) -> Vec<ProgramSpec> {
    match capability {
        Capability::LockWaits => {
            tracepoint_programs!(method; ("lock", "contention_end"), ("lock", "contention_begin"))
        }
        Capability::Osq => function_programs!(method, "osq_lock", 0),
        Capability::MutexOwner => function_programs!(method, "mutex_spin_on_owner", 0),
        Capability::RwsemOwner => function_programs!(method, "rwsem_spin_on_owner", 0),
        Capability::Qspinlock => {
            let mut variants = function_programs!(method, "queued_spin_lock_slowpath", 0);
            variants.extend(function_programs!(method, "queued_spin_lock_slowpath2", 1));
            variants
        }
        Capability::MutexWaits => slow_paths(
            method,
            &[
                ["mutex_slowpath_fentry", "mutex_slowpath_fexit"],
                ["mutex_slowpath2_fentry", "mutex_slowpath2_fexit"],
                ["mutex_slowpath3_fentry", "mutex_slowpath3_fexit"],
            ],
        ),
        Capability::RwsemWaits => slow_paths(
            method,
            &[
                ["rwsem_slowpath_fentry", "rwsem_slowpath_fexit"],
                ["rwsem_slowpath2_fentry", "rwsem_slowpath2_fexit"],
            ],
        ),
        Capability::PercpuRwsemWaits => {
            slow_paths(method, &[["percpu_rwsem_fentry", "percpu_rwsem_fexit"]])
        }
        Capability::SemaphoreWaits => {
            slow_paths(method, &[["semaphore_fentry", "semaphore_fexit"]])
        }
        Capability::RwlockWaits => {
            let mut both = function_programs!(method, "read_lock_slowpath", 0);
            both.extend(function_programs!(method, "write_lock_slowpath", 1));
            both
        }
        Capability::RqAcquire => match method {
            Method::Fentry => vec![function("raw_spin_rq_lock_nested_fentry", 0)],
            Method::Kprobe => vec![function("raw_spin_rq_lock_nested_kprobe", 0)],
            _ => Vec::new(),
        },
        Capability::PlugEvents => {
            tracepoint_programs!(method; ("block", "block_plug"), ("block", "block_unplug"))
        }
        Capability::PlugCalls => match method {
            Method::Fentry => {
                vec![function("blk_start_plug_fentry", 0), function("blk_finish_plug_fentry", 1)]
            }
            Method::Kprobe => {
                vec![function("blk_start_plug_kprobe", 0), function("blk_finish_plug_kprobe", 1)]
            }
            _ => Vec::new(),
        },
        Capability::PlugFlush => function_programs!(method, "blk_flush_plug", 0),
        Capability::Tasks => {
            tracepoint_programs!(method; ("sched", "sched_process_fork"), ("sched", "sched_process_exec"), ("sched", "sched_process_exit"))
        }
        Capability::Scheduling => {
            tracepoint_programs!(method; ("sched", "sched_switch"), ("sched", "sched_waking"))
        }
        Capability::Requests => match method {
            Method::TpBtf => vec![tracepoint("sock_send_length_btf", "sock", "sock_send_length")],
            Method::RawTracepoint => {
                vec![tracepoint("sock_send_length_raw", "sock", "sock_send_length")]
            }
            Method::Fentry => vec![function("sys_sendto_fexit", 0)],
            Method::Kprobe => {
                vec![function("sys_sendto_kretprobe", 0), function("sys_sendto_kprobe", 0)]
            }
            Method::Tracepoint => vec![
                tracepoint("sys_exit_sendto_tp", "syscalls", "sys_exit_sendto"),
                tracepoint("sys_enter_sendto_tp", "syscalls", "sys_enter_sendto"),
            ],
            Method::None => Vec::new(),
        },
        Capability::HoldEnd => match method {
            Method::Fentry => {
                vec![function("unlock_slowpath_fentry", 0), function("unlock_slowpath2_fentry", 1)]
            }
            Method::Kprobe => {
                vec![function("unlock_slowpath_kprobe", 0), function("unlock_slowpath2_kprobe", 1)]
            }
            _ => tracepoint_programs!(method; ("lock", "contended_release")),
        },
        Capability::HolderStack => match method {
            Method::TpBtf => vec![tracepoint("holder_switch_btf", "sched", "sched_switch")],
            Method::RawTracepoint => vec![tracepoint("holder_switch_raw", "sched", "sched_switch")],
            Method::Tracepoint => vec![tracepoint("holder_switch_tp", "sched", "sched_switch")],
            _ => Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::features::Function;
    use crate::probe::facts::Hooks;
    use crate::probe::{Choice, PlanOptions, plan};

    /// What a plan calls attached must be attached.
    #[test]
    fn whatever_can_be_planned_has_programs() {
        let json = include_str!("fixtures/debian-6.12.json");
        let mut features: crate::kernel::Features = serde_json::from_str(json).unwrap();
        for capability in Capability::ALL {
            for hooks in capability.facts().hooks {
                if let Hooks::AllFunctions(names) | Hooks::AnyFunction(names) = hooks {
                    let there = Function { symbol: true, btf: true, traceable: Some(true) };
                    let names = names.iter().map(|name| ((*name).to_owned(), there.clone()));
                    features.functions.extend(names);
                }
            }
            for method in Method::ATTACHING {
                let options = PlanOptions {
                    choices: [(capability, Choice::Method(method))].into(),
                    ..PlanOptions::default()
                };
                if plan(&features, &options).is_ok() {
                    assert!(!programs(capability, method).is_empty(), "{capability}={method}");
                }
            }
        }
    }
}
