//! What the workers and their owner share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::load::connect::CancelKey;

/// Flags and counts; nothing else is ordered by them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    stopped: AtomicBool,
    /// Seconds that the clients had to end before their statements were cancelled; 0 before.
    cancelled_after_s: AtomicU64,
    /// Whether clients that still have not ended are given up.
    cut: AtomicBool,
    /// Keys of the backends by client; 0 for clients that have ended.
    keys: Vec<AtomicU64>,
    /// Clients that still run transactions.
    active_clients: AtomicUsize,
    aborted_clients: AtomicUsize,
    /// Whether the measured part has begun.
    measured: AtomicBool,
    /// Time spent in connecting by `-C`, and how often.
    connecting_ns: AtomicU64,
    connections: AtomicU64,
}

impl Shared {
    pub(crate) fn new(clients: usize) -> Self {
        let keys = (0..clients).map(|_| AtomicU64::new(0)).collect();
        Self { active_clients: AtomicUsize::new(clients), keys, ..Self::default() }
    }

    /// Clients end after their current transaction.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// From now on clients that fail do so because their statements were cancelled, `seconds` (at
    /// least 1) after the end.
    pub(crate) fn cancelled(&self, seconds: u64) {
        self.cancelled_after_s.store(seconds.max(1), Ordering::Relaxed);
    }

    pub(super) fn cancelled_after_s(&self) -> Option<u64> {
        Some(self.cancelled_after_s.load(Ordering::Relaxed)).filter(|seconds| *seconds > 0)
    }

    /// Clients that have not ended are given up.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    pub(super) fn connected(&self, client: u32, key: CancelKey) {
        if let Some(place) = self.keys.get(client as usize) {
            place.store(key.to_bits(), Ordering::Relaxed);
        }
    }

    /// Keys of the clients that have not ended.
    pub(crate) fn busy_keys(&self) -> Vec<CancelKey> {
        let bits = self.keys.iter().map(|key| key.load(Ordering::Relaxed));
        bits.filter(|bits| *bits != 0).map(CancelKey::from_bits).collect()
    }

    /// The measured part begins.
    pub(crate) fn measure(&self) {
        self.measured.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_measured(&self) -> bool {
        self.measured.load(Ordering::Relaxed) && !self.is_stopped()
    }

    pub(crate) fn active_clients(&self) -> usize {
        self.active_clients.load(Ordering::Relaxed)
    }

    pub(crate) fn aborted_clients(&self) -> usize {
        self.aborted_clients.load(Ordering::Relaxed)
    }

    pub(super) fn client_left(&self, client: u32) {
        if let Some(place) = self.keys.get(client as usize) {
            place.store(0, Ordering::Relaxed);
        }
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
