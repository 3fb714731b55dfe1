//! Which lock a function wants: a small table of the kernel's hot paths, for locks whose address
//! tells nothing. A guess, and reported as one.

use lockscope_ebpf::LockClass;

/// What kind of lock it is, as far as the class tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Spin,
    Rwlock,
    Mutex,
    Rwsem,
    PercpuRwsem,
    Semaphore,
}

use Kind::{Mutex, PercpuRwsem, Rwlock, Rwsem, Semaphore, Spin};

/// (lock, kinds it has had over kernel versions, functions that take it directly).
const LOCKS: &[(&str, &[Kind], &[&str])] = &[
    (
        "futex_hash_bucket.lock",
        &[Spin],
        &[
            "__futex_wait",
            "futex_q_lock",
            "futex_requeue",
            "futex_wait",
            "futex_wait_requeue_pi",
            "futex_wait_setup",
            "futex_wake",
            "futex_wake_op",
            "futex_unqueue",
            "futex_lock_pi",
            "unqueue_me",
        ],
    ),
    (
        "eventpoll.lock",
        &[Spin, Rwlock],
        &["ep_done_scan", "ep_poll", "ep_poll_callback", "ep_send_events", "ep_start_scan"],
    ),
    (
        "eventpoll.mtx",
        &[Mutex],
        &[
            "do_epoll_ctl",
            "do_epoll_wait",
            "ep_eventpoll_poll",
            "ep_free",
            "ep_loop_check_proc",
            "ep_poll",
            "ep_scan_ready_list",
            "ep_send_events",
            "eventpoll_release_file",
        ],
    ),
    ("kretprobe lock (the tracer's own)", &[Spin], &["trampoline_handler"]),
    ("task_struct.pi_lock", &[Spin], &["try_to_wake_up", "wake_up_new_task"]),
    (
        "wait_queue_head.lock",
        &[Spin],
        &[
            "__wake_up",
            "__wake_up_common_lock",
            "__wake_up_sync",
            "__wake_up_sync_key",
            "add_wait_queue",
            "finish_wait",
            "prepare_to_wait",
            "prepare_to_wait_event",
            "prepare_to_wait_exclusive",
            "remove_wait_queue",
        ],
    ),
    ("sk_receive_queue.lock", &[Spin], &["unix_stream_read_generic", "unix_stream_sendmsg"]),
    ("sk_buff_head.lock", &[Spin], &["skb_dequeue", "skb_queue_tail", "skb_unlink"]),
    (
        "unix_sock.lock",
        &[Spin],
        &["unix_dgram_sendmsg", "unix_release_sock", "unix_shutdown", "unix_stream_connect"],
    ),
    ("unix_sock.iolock", &[Mutex], &["unix_dgram_recvmsg", "unix_stream_read_generic"]),
    (
        "sock.sk_lock",
        &[Spin],
        &[
            "__lock_sock",
            "__release_sock",
            "lock_sock_nested",
            "release_sock",
            "tcp_v4_rcv",
            "tcp_v6_rcv",
        ],
    ),
    (
        "files_struct.file_lock",
        &[Spin],
        &[
            "__alloc_fd",
            "__close_fd",
            "alloc_fd",
            "close_fd",
            "close_fd_get_file",
            "do_dup2",
            "dup_fd",
            "fd_install",
            "file_close_fd",
            "get_unused_fd_flags",
            "pick_file",
            "put_unused_fd",
        ],
    ),
    (
        "file.f_pos_lock",
        &[Mutex],
        &["__fdget_pos", "fdget_pos", "ksys_lseek", "ksys_read", "ksys_write"],
    ),
    (
        "pipe_inode_info.mutex",
        &[Mutex],
        &["anon_pipe_read", "anon_pipe_write", "pipe_read", "pipe_release", "pipe_write"],
    ),
    (
        "mm_struct.mmap_lock",
        &[Rwsem],
        &[
            "__do_sys_brk",
            "__vm_munmap",
            "__x64_sys_brk",
            "do_madvise",
            "do_mprotect_pkey",
            "do_user_addr_fault",
            "dup_mmap",
            "exit_mm",
            "exit_mmap",
            "get_mmap_lock_carefully",
            "lock_mm_and_find_vma",
            "madvise_lock",
            "vm_mmap_pgoff",
            "vm_munmap",
        ],
    ),
    (
        "inode.i_rwsem",
        &[Rwsem],
        &[
            "do_rmdir",
            "do_unlinkat",
            "ext4_buffered_write_iter",
            "ext4_dio_write_iter",
            "ext4_file_write_iter",
            "filename_create",
            "filename_unlinkat",
            "generic_file_write_iter",
            "iterate_dir",
            "lock_rename",
            "lookup_slow",
            "open_last_lookups",
            "path_openat",
            "shmem_file_write_iter",
        ],
    ),
    ("xfs inode lock", &[Rwsem], &["xfs_ilock", "xfs_ilock_nowait", "xfs_ilock_iocb"]),
    (
        "xlog_grant_head.lock",
        &[Spin],
        &["xlog_grant_head_check", "xlog_grant_head_wait", "xlog_grant_head_wake_all"],
    ),
    (
        "xlog.l_icloglock",
        &[Spin],
        &[
            "xlog_force_lsn",
            "xlog_state_get_iclog_space",
            "xlog_state_release_iclog",
            "xlog_state_do_callback",
            "xlog_write",
            "xfs_log_force",
            "xfs_log_force_seq",
        ],
    ),
    ("xfs_cil.xc_ctx_lock", &[Rwsem], &["xlog_cil_commit", "xlog_cil_push_work"]),
    ("xfs_cil.xc_push_lock", &[Spin], &["xlog_cil_force_seq", "xlog_cil_push_now"]),
    ("xfs_ail.ail_lock", &[Spin], &["xfs_trans_ail_update_bulk", "xfsaild", "xfsaild_push"]),
    ("xfs_buf.b_sema", &[Semaphore], &["xfs_buf_lock"]),
    ("anon_vma.rwsem", &[Rwsem], &["anon_vma_clone", "anon_vma_fork", "unlink_anon_vmas"]),
    ("address_space.i_mmap_rwsem", &[Rwsem], &["unlink_file_vma", "vma_link", "vma_prepare"]),
    (
        "super_block.s_writers",
        &[PercpuRwsem],
        &["__sb_start_write", "freeze_super", "sb_wait_write", "vfs_write"],
    ),
    (
        "dentry.d_lock",
        &[Spin],
        &[
            "d_alloc",
            "d_delete",
            "dput",
            "lockref_get",
            "lockref_get_not_dead",
            "lockref_put_or_lock",
            "lockref_put_return",
        ],
    ),
    ("super_block.s_inode_list_lock", &[Spin], &["evict", "inode_sb_list_add"]),
    (
        "zone.lock",
        &[Spin],
        &["__rmqueue_pcplist", "free_one_page", "free_pcppages_bulk", "rmqueue", "rmqueue_bulk"],
    ),
    (
        "lruvec.lru_lock",
        &[Spin],
        &[
            "__page_cache_release",
            "folio_batch_move_lru",
            "folio_lruvec_lock",
            "folio_lruvec_lock_irq",
            "folio_lruvec_lock_irqsave",
            "folio_lruvec_relock_irqsave",
            "isolate_lru_pages",
            "lock_page_lruvec_irqsave",
            "lru_note_cost",
            "move_folios_to_lru",
            "pagevec_lru_move_fn",
            "release_pages",
            "shrink_inactive_list",
        ],
    ),
    (
        "kmem_cache_node.list_lock",
        &[Spin],
        &["___slab_alloc", "__slab_free", "__unfreeze_partials", "get_partial_node"],
    ),
    ("page table lock", &[Spin], &["__pte_offset_map_lock", "do_anonymous_page", "wp_page_copy"]),
    (
        "sighand_struct.siglock",
        &[Spin],
        &[
            "__lock_task_sighand",
            "__set_current_blocked",
            "do_send_sig_info",
            "do_sigaction",
            "do_sigtimedwait",
            "get_signal",
            "sigprocmask",
        ],
    ),
    (
        "tasklist_lock",
        &[Rwlock],
        &[
            "__do_wait",
            "copy_process",
            "do_exit",
            "do_wait",
            "exit_notify",
            "kill_something_info",
            "ptrace_attach",
            "release_task",
            "wait_consider_task",
            "wait_task_zombie",
        ],
    ),
    (
        "journal_s.j_state_lock",
        &[Rwlock, Spin],
        &[
            "add_transaction_credits",
            "jbd2_complete_transaction",
            "jbd2_journal_commit_transaction",
            "jbd2_journal_extend",
            "jbd2_log_start_commit",
            "jbd2_log_wait_commit",
            "jbd2_trans_will_send_data_barrier",
            "kjournald2",
            "start_this_handle",
        ],
    ),
    ("journal_s.j_list_lock", &[Spin], &["jbd2_journal_dirty_metadata", "jbd2_journal_file_inode"]),
    (
        "journal_s.j_checkpoint_mutex",
        &[Mutex],
        &["__jbd2_log_wait_for_space", "jbd2_log_do_checkpoint"],
    ),
    (
        "tty_struct.atomic_write_lock",
        &[Mutex],
        &["file_tty_write", "iterate_tty_write", "tty_write", "tty_write_lock"],
    ),
    (
        "tty_struct.legacy_mutex",
        &[Mutex],
        &["tty_lock", "tty_lock_interruptible", "tty_lock_slave"],
    ),
    ("tty_struct.termios_rwsem", &[Rwsem], &["n_tty_ioctl_helper", "n_tty_read", "n_tty_write"]),
    ("n_tty_data.atomic_read_lock", &[Mutex], &["n_tty_read"]),
    (
        "n_tty_data.output_lock",
        &[Mutex],
        &["do_output_char", "process_echoes", "process_output_block"],
    ),
    ("tty_port.lock", &[Spin], &["pty_write", "tty_insert_flip_string_and_push_buffer"]),
    (
        "perf_event_context.mutex",
        &[Mutex],
        &[
            "_perf_ioctl",
            "perf_event_ctx_lock_nested",
            "perf_event_exit_task_context",
            "perf_event_init_context",
            "perf_event_release_kernel",
        ],
    ),
    ("perf_event.child_mutex", &[Mutex], &["perf_event_for_each_child", "perf_event_read_value"]),
    ("perf_event.mmap_mutex", &[Mutex], &["perf_mmap", "perf_mmap_close"]),
    ("worker_pool.lock", &[Spin], &["__queue_work", "process_one_work", "worker_thread"]),
    ("hrtimer_cpu_base.lock", &[Spin], &["hrtimer_start_range_ns", "lock_hrtimer_base"]),
    ("timer_base.lock", &[Spin], &["__mod_timer", "lock_timer_base"]),
    ("deadline_data.lock", &[Spin], &["dd_dispatch_request", "dd_insert_requests"]),
];

/// Every lock of the table.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LOCKS.iter().map(|(name, ..)| *name)
}

/// `osq_lock` serves mutexes and rw_semaphores alike; the others are one kind each.
fn kinds(class: LockClass) -> &'static [Kind] {
    match class {
        LockClass::Osq => &[Mutex, Rwsem],
        LockClass::MutexOwner | LockClass::MutexSpin | LockClass::Mutex => &[Mutex],
        LockClass::RwsemOwner | LockClass::Rwsem => &[Rwsem],
        LockClass::Qspinlock => &[Spin],
        LockClass::Rwlock => &[Rwlock],
        LockClass::PercpuRwsem => &[PercpuRwsem],
        // On PREEMPT_RT spinlocks and rwlocks are rt_mutexes.
        LockClass::RtMutex => &[Spin, Rwlock, Mutex, Rwsem],
        LockClass::Semaphore => &[Semaphore],
        LockClass::Rq => &[],
    }
}

/// The lock that a function takes directly, if the table knows it and the kinds agree.
pub(super) fn lock_of(class: LockClass, caller: &str) -> Option<&'static str> {
    kinds(class).iter().find_map(|kind| {
        let of_kind = LOCKS.iter().filter(|(_, kinds, _)| kinds.contains(kind));
        of_kind.into_iter().find(|(_, _, takers)| takers.contains(&caller)).map(|(lock, ..)| *lock)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_decides_between_a_callers_locks() {
        assert_eq!(lock_of(LockClass::Qspinlock, "ep_poll"), Some("eventpoll.lock"));
        assert_eq!(lock_of(LockClass::Rwlock, "ep_poll"), Some("eventpoll.lock"));
        assert_eq!(lock_of(LockClass::MutexSpin, "ep_poll"), Some("eventpoll.mtx"));
        assert_eq!(lock_of(LockClass::Rwsem, "ep_poll"), None);
        assert_eq!(lock_of(LockClass::Osq, "vm_mmap_pgoff"), Some("mm_struct.mmap_lock"));
    }

    /// Two locks of one kind under one caller would make the first a coin toss.
    #[test]
    fn no_caller_is_ambiguous() {
        for (index, (lock, kinds, takers)) in LOCKS.iter().enumerate() {
            for (other, other_kinds, other_takers) in &LOCKS[index + 1..] {
                let same_kind = kinds.iter().any(|kind| other_kinds.contains(kind));
                let shared = takers.iter().find(|taker| other_takers.contains(taker));
                assert!(!same_kind || shared.is_none(), "{lock} and {other}: {shared:?}");
            }
        }
    }

    /// The lock's own code never is the caller, so an entry for it could never match.
    #[test]
    fn no_taker_is_passed_over() {
        for taker in LOCKS.iter().flat_map(|(_, _, takers)| *takers) {
            assert!(!super::super::super::is_lock_internal(taker), "{taker}");
        }
    }
}
