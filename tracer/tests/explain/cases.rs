//! For each signature a pair of runs that it is about, and what must not be taken for it.

use lockscope::model::Confidence;

use crate::shape::Shape;

type Change = fn(&mut Shape);

/// A signature's runs.
pub(crate) struct Case {
    pub(crate) id: &'static str,
    /// What the healthy run is changed to for the base.
    pub(crate) base: Change,
    /// The same for the new side, on top.
    pub(crate) new: Change,
    /// How sure the signature may be of the two.
    pub(crate) confidence: Confidence,
    /// What is changed on top of the new side, and what is left of the confidence.
    pub(crate) near_misses: &'static [(&'static str, Change, Option<Confidence>)],
}

const LOW: Option<Confidence> = Some(Confidence::Low);

pub(crate) const CASES: &[Case] = &[
    Case {
        id: "mm-cid-lock",
        base: |s| s.kernel = "6.2.16",
        new: |s| {
            s.kernel = "6.3.0-rc4";
            s.states.insert("client_and_transport", 700_000.0);
            let lock = "mm_struct.cid_lock";
            s.locks.push(("client", "qspinlock", lock, "__schedule", 300_000.0));
        },
        confidence: Confidence::High,
        near_misses: &[
            ("the run queue's lock", |s| last_lock(s).1 = "rq", None),
            ("a lock of the server", |s| last_lock(s).0 = "server", None),
            ("another caller", |s| last_lock(s).3 = "futex_wake", None),
            ("a kernel with the fix", |s| s.kernel = "6.4.0", LOW),
        ],
    },
    Case {
        id: "block-plug-per-bio",
        base: |s| s.stripe = true,
        new: |s| {
            s.kernel = "6.12.4";
            (s.flushes, s.requests_per_flush) = (6.0, 1.05);
            s.states.insert("io", 300_000.0);
            s.verdict = ("io", "not a kernel lock: the tasks wait for I/O");
        },
        confidence: Confidence::High,
        near_misses: &[
            ("batches as they were", |s| s.requests_per_flush = 4.0, None),
            ("no more flushes", |s| s.flushes = 0.2, None),
            ("a single disk", |s| s.stripe = false, None),
            ("an older kernel", |s| s.kernel = "6.11.10", LOW),
        ],
    },
    Case {
        id: "s-lock-preempted",
        base: |s| (s.kernel, s.clients) = ("6.12.4", 128),
        new: |s| {
            s.kernel = "7.0.2";
            s.states.insert("cpu", 1_400_000.0);
            s.hot.push((&["s_lock", "StrategyGetBuffer", "PostgresMain"], 0.45));
        },
        confidence: Confidence::High,
        near_misses: &[
            ("LWLocks", |s| last_hot(s).0 = &["LWLockAttemptLock", "StrategyGetBuffer"], None),
            ("little of it", |s| last_hot(s).1 = 0.04, None),
            (
                "PREEMPT_NONE",
                |s| {
                    s.config.insert("CONFIG_PREEMPT_NONE", "y");
                },
                None,
            ),
            ("an older kernel", |s| s.kernel = "6.18.1", LOW),
        ],
    },
    Case {
        id: "task-group-load",
        base: |_| {},
        new: |s| {
            s.states.insert("cpu", 560_000.0);
            s.hot.push((&["update_cfs_group", "enqueue_task_fair"], 0.12));
            s.hot.push((&["update_load_avg", "dequeue_entity"], 0.12));
        },
        confidence: Confidence::Medium,
        near_misses: &[
            (
                "only the load's average",
                |s| s.hot.retain(|hot| hot.0[0] != "update_cfs_group"),
                None,
            ),
            ("little of both", |s| s.hot.iter_mut().for_each(|hot| hot.1 /= 4.0), None),
        ],
    },
    Case {
        id: "sched-balance-running",
        base: |_| {},
        new: |s| {
            s.states.insert("cpu", 460_000.0);
            s.hot.push((&["sched_balance_domains", "handle_softirqs"], 0.078));
        },
        confidence: Confidence::Medium,
        near_misses: &[
            ("another function", |s| last_hot(s).0 = &["update_rq_clock", "handle_softirqs"], None),
            ("little of it", |s| last_hot(s).1 = 0.01, None),
        ],
    },
    Case {
        id: "eevdf-preemption",
        base: |s| s.kernel = "6.5.13",
        new: |s| {
            s.kernel = "6.8.9";
            s.involuntary_share = 0.4;
            s.states.insert("runq.queued", 140_000.0);
            s.verdict = ("preemption", "not a kernel lock: the tasks wait for a CPU");
        },
        confidence: Confidence::Medium,
        near_misses: &[
            ("switches as they were", |s| s.involuntary_share = 0.05, None),
            (
                "a kernel lock",
                |s| {
                    s.states.insert("spin.qspinlock", 120_000.0);
                },
                None,
            ),
            ("an older kernel", |s| s.kernel = "6.1.90", LOW),
        ],
    },
    Case {
        id: "newidle-balance",
        base: |_| {},
        new: |s| {
            s.states.insert("cpu", 480_000.0);
            s.hot.push((&["cpumask_next", "sched_balance_newidle", "__schedule"], 0.08));
        },
        confidence: Confidence::Medium,
        near_misses: &[
            ("another balancing", |s| last_hot(s).0 = &["cpumask_next", "nohz_idle_balance"], None),
            ("little of it", |s| last_hot(s).1 = 0.01, None),
        ],
    },
    Case {
        id: "futex-private-hash",
        base: |s| s.kernel = "6.15.2",
        new: |s| {
            s.kernel = "6.16.0-rc3";
            s.states.insert("cpu", 480_000.0);
            s.hot.push((&["rcuref_get", "futex_hash", "futex_wake"], 0.09));
        },
        confidence: Confidence::High,
        near_misses: &[
            ("futexes alone", |s| last_hot(s).0 = &["futex_q_lock", "futex_wait"], None),
            ("an older kernel", |s| s.kernel = "6.12.4", LOW),
        ],
    },
    Case {
        id: "ext4-dioread-nolock",
        base: |s| s.kernel = "5.4.270",
        new: |s| {
            s.kernel = "5.10.200";
            s.states.insert("spin.rwlock", 150_000.0);
            let lock = "journal_s.j_state_lock";
            s.locks.push(("server", "rwlock", lock, "start_this_handle", 150_000.0));
            s.verdict = ("kernel_lock", "kernel lock: rwlock journal_s.j_state_lock");
        },
        confidence: Confidence::High,
        near_misses: &[
            ("another lock", |s| last_lock(s).2 = "journal_s.j_list_lock", None),
            ("the remedy", |s| s.mount_options = "rw,relatime,nodioread_nolock", None),
            ("another file system", |s| s.file_system = "xfs", None),
            ("an older kernel", |s| s.kernel = "5.5.19", LOW),
        ],
    },
    Case {
        id: "xfs-ilock-log-force",
        base: |s| s.file_system = "xfs",
        new: |s| {
            s.states.insert("lock_sleep.rwsem", 200_000.0);
            let lock = "xfs_inode.i_lock";
            s.locks.push(("server", "rwsem", lock, "xfs_ilock", 200_000.0));
            s.asleep.push((&["schedule", "xlog_wait_on_iclog", "xfs_log_force_seq"], 0.1));
            s.verdict = ("kernel_lock", "kernel lock: rwsem xfs_inode.i_lock");
        },
        confidence: Confidence::Medium,
        near_misses: &[
            (
                "the inode's other lock",
                |s| {
                    let lock = last_lock(s);
                    (lock.2, lock.3) = ("inode.i_rwsem (xfs)", "xfs_file_buffered_write");
                },
                None,
            ),
            ("another file system", |s| s.file_system = "ext4", None),
        ],
    },
    Case {
        id: "hdd-plug-order",
        base: |s| s.rotational = true,
        new: |s| {
            s.states.insert("io", 500_000.0);
        },
        confidence: Confidence::Low,
        near_misses: &[
            ("no disk with heads", |s| s.rotational = false, None),
            ("one request a flush", |s| s.requests_per_flush = 1.0, None),
            ("time elsewhere", |s| s.states.extend([("io", 60_000.0), ("cpu", 900_000.0)]), None),
        ],
    },
    Case {
        id: "psi-cpu-clock",
        base: |s| s.switches = 5.0,
        new: |s| {
            s.states.insert("cpu", 450_000.0);
            s.hot.push((&["psi_group_change", "psi_task_switch", "__schedule"], 0.07));
        },
        confidence: Confidence::Medium,
        near_misses: &[
            (
                "no PSI",
                |s| {
                    s.config.insert("CONFIG_PSI", "n");
                },
                None,
            ),
            ("little of it", |s| last_hot(s).1 = 0.01, None),
        ],
    },
    Case {
        id: "page-writeback-wait",
        base: |s| s.kernel = "5.10.200",
        new: |s| {
            s.kernel = "5.11.3";
            s.states.insert("io", 130_000.0);
            s.asleep.push((&["io_schedule", "wait_on_page_writeback", "ext4_page_mkwrite"], 0.08));
        },
        confidence: Confidence::High,
        near_misses: &[
            ("other I/O", |s| last_asleep(s).0 = &["io_schedule", "folio_wait_bit"], None),
            ("little of it", |s| last_asleep(s).1 = 0.005, None),
        ],
    },
    Case {
        id: "catcache-misses",
        base: |s| s.postgres = "11.22",
        new: |s| {
            s.postgres = "10.23 (Debian 10.23-1)";
            (s.ipc, s.l1d_miss_share) = (0.78, 0.054);
            s.states.insert("cpu", 550_000.0);
            s.hot.push((&["__memcpy_avx_unaligned", "SearchCatCache"], 0.09));
            s.verdict = ("cache_misses", "not a kernel lock: CPU time that hints at cache misses");
        },
        confidence: Confidence::High,
        near_misses: &[
            ("as many instructions a cycle", |s| s.ipc = 1.07, None),
            ("as few misses", |s| s.l1d_miss_share = 0.02, None),
            (
                "a kernel lock",
                |s| {
                    s.states.insert("spin.qspinlock", 120_000.0);
                },
                None,
            ),
            ("a server with the fix", |s| s.postgres = "11.1", LOW),
        ],
    },
];

type LockShape = (&'static str, &'static str, &'static str, &'static str, f64);
type Stack = (&'static [&'static str], f64);

fn last_lock(shape: &mut Shape) -> &mut LockShape {
    shape.locks.last_mut().expect("the case adds one")
}

fn last_hot(shape: &mut Shape) -> &mut Stack {
    shape.hot.last_mut().expect("the case adds one")
}

fn last_asleep(shape: &mut Shape) -> &mut Stack {
    shape.asleep.last_mut().expect("the case adds one")
}
