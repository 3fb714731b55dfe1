//! The gate: whether the programs count, and since when.

use lockscope_ebpf::{Gate, OpenFlush, WaitStack};

use super::{TraceError, Tracer};
use crate::clock::monotonic_ns;
use crate::collect::bpf;

impl Tracer {
    /// Opens the gate, and tells since when. A wait that begins and ends in different openings is
    /// left out and counted as `cut_by_gate`.
    ///
    /// # Errors
    /// The gate map cannot be written.
    pub fn open_gate(&mut self) -> Result<u64, TraceError> {
        // What tasks that are not traced had open when the gate was shut is of no use any more,
        // and a task that is gone would hold its entry for ever.
        self.cleared_count += self.open_elsewhere()?;
        self.clear::<WaitStack>("OTHER_OPEN")?;
        self.clear::<OpenFlush>("OTHER_FLUSH")?;
        self.gate = Gate { generation: self.gate.generation + 1, opened_ns: monotonic_ns() };
        // The time must be there before a program sees the generation.
        self.write_gate(Gate { generation: 0, ..self.gate })?;
        self.write_gate(self.gate)?;
        Ok(self.gate.opened_ns)
    }

    /// Shuts the gate.
    ///
    /// # Errors
    /// The gate map cannot be written.
    pub fn shut_gate(&mut self) -> Result<(), TraceError> {
        self.write_gate(Gate { generation: 0, ..self.gate })
    }

    /// The newest opening of the gate, whether it still lasts or not.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    fn write_gate(&self, gate: Gate) -> Result<(), TraceError> {
        let failed = |source| TraceError::Map { map: "GATE", action: "written", source };
        bpf::update(self.map("GATE")?, &0_u32, &gate).map_err(failed)
    }

    /// Empties a map from tids to `V`.
    fn clear<V: bpf::Plain>(&self, name: &'static str) -> Result<(), TraceError> {
        let map = self.map(name)?;
        let mut tids = Vec::new();
        bpf::lookup_all(map, 1, |tid: u32, _: &[V]| tids.push(tid))
            .and_then(|()| tids.iter().try_for_each(|tid| bpf::delete(map, tid)))
            .map_err(|source| TraceError::Map { map: name, action: "cleared", source })
    }

    /// Open waits of tasks that are not traced and may sleep in them.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn open_elsewhere(&self) -> Result<u64, TraceError> {
        let mut count = 0;
        bpf::lookup_all(self.map("OTHER_OPEN")?, 1, |_: u32, stacks: &[WaitStack]| {
            count += stacks.iter().map(|stack| u64::from(stack.depth)).sum::<u64>();
        })
        .map_err(|source| TraceError::Map {
            map: "OTHER_OPEN",
            action: "read",
            source,
        })?;
        Ok(count)
    }

    /// Those of them that were forgotten because the gate had been shut meanwhile.
    pub fn cleared_count(&self) -> u64 {
        self.cleared_count
    }
}
