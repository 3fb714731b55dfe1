//! What the workers and their owner share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Flags and counts; nothing else is ordered by them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    stopped: AtomicBool,
    /// Seconds that the clients had to end, once they are over; 0 before.
    cut_after_s: AtomicU64,
    /// Clients that still run transactions.
    active_clients: AtomicUsize,
    aborted_clients: AtomicUsize,
    /// Time spent in connecting by `-C`, and how often.
    connecting_ns: AtomicU64,
    connections: AtomicU64,
}

impl Shared {
    pub(crate) fn new(clients: usize) -> Self {
        Self { active_clients: AtomicUsize::new(clients), ..Self::default() }
    }

    /// Clients end after their current transaction.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Clients that have not ended `seconds` (at least 1) after the end are given up.
    pub(crate) fn cut(&self, seconds: u64) {
        self.cut_after_s.store(seconds.max(1), Ordering::Relaxed);
    }

    pub(super) fn cut_after_s(&self) -> Option<u64> {
        Some(self.cut_after_s.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0)
    }

    pub(crate) fn active_clients(&self) -> usize {
        self.active_clients.load(Ordering::Relaxed)
    }

    pub(crate) fn aborted_clients(&self) -> usize {
        self.aborted_clients.load(Ordering::Relaxed)
    }

    pub(super) fn client_left(&self) {
        self.active_clients.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn client_aborted(&self) {
        self.aborted_clients.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connected_in(&self, ns: u64) {
        self.connecting_ns.fetch_add(ns, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Time spent in connecting anew, and how often.
    pub(crate) fn connecting(&self) -> (u64, u64) {
        (self.connecting_ns.load(Ordering::Relaxed), self.connections.load(Ordering::Relaxed))
    }
}
