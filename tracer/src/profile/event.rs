//! What the kernel writes into the rings, in our own words.

use perf_event::data::endian::Native;
use perf_event::data::parse::{ParseConfig, Parser};
use perf_event::data::{self, RecordMetadata, Visitor};

/// A `COMM` record that comes from an exec (`PERF_RECORD_MISC_COMM_EXEC`).
const COMM_EXEC: u16 = 1 << 13;
/// `PERF_RECORD_SWITCH`, which the parser does not read, and `PERF_RECORD_SWITCH_CPU_WIDE`, which is the
/// same with two more words in front.
const RECORD_SWITCH: u32 = 14;
const RECORD_SWITCH_CPU_WIDE: u32 = 15;
/// `PERF_RECORD_MISC_SWITCH_OUT` and `…_OUT_PREEMPT`.
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPTED: u16 = 1 << 14;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// CLOCK_MONOTONIC.
    pub(super) time_ns: u64,
    pub(super) kind: EventKind,
}

/// What a record tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// A task was seen on a CPU; `chain` holds its addresses, innermost first, with the kernel's
    /// marks between the kernel's and the user's; `raw` are a tracepoint's fields.
    Sample { pid: u32, tid: u32, weight: u64, chain: Vec<u64>, raw: Vec<u8> },
    /// A task has a child.
    Fork { pid: u32, parent_pid: u32, tid: u32, parent_tid: u32 },
    /// A task has a new name.
    Comm { pid: u32, tid: u32, name: String, exec: bool },
    /// A file was mapped with permission to execute.
    Map { pid: u32, start: u64, length: u64, offset: u64, inode: u64, path: String },
    /// The task left its CPU, or has one again.
    Switch { out: bool, preempted: bool },
    /// Records that the ring had no room for.
    Lost(u64),
    /// The kernel paused the sampling: it took too much time.
    Throttled,
    /// One that says nothing here.
    Other,
}

/// Reads one record: its header's type and flags, and what follows the header.
pub(super) fn parse(
    record_type: u32,
    misc: u16,
    data: &[u8],
    config: &ParseConfig<Native>,
) -> Option<Event> {
    let (record_type, front): (u32, &[u8]) = match record_type {
        RECORD_SWITCH => (RECORD_SWITCH_CPU_WIDE, &[0; 8]),
        other => (other, &[]),
    };
    let length = u16::try_from(front.len() + data.len() + 8).ok()?;
    let bytes = [
        record_type.to_ne_bytes().as_slice(),
        &misc.to_ne_bytes(),
        &length.to_ne_bytes(),
        front,
        data,
    ]
    .concat();
    Parser::new(bytes.as_slice(), config.clone()).parse_record(Reader).ok()
}

struct Reader;

fn event(metadata: &RecordMetadata, kind: EventKind) -> Event {
    Event { time_ns: metadata.sample_id().time().unwrap_or(0), kind }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl<'a> Visitor<'a> for Reader {
    type Output = Event;

    fn visit_unimplemented(self, metadata: RecordMetadata) -> Event {
        event(&metadata, EventKind::Other)
    }

    fn visit_switch_cpu_wide(self, _: data::SwitchCpuWide, metadata: RecordMetadata) -> Event {
        let is = |flag| metadata.misc() & flag != 0;
        let kind = EventKind::Switch { out: is(SWITCH_OUT), preempted: is(SWITCH_OUT_PREEMPTED) };
        event(&metadata, kind)
    }

    fn visit_sample(self, record: data::Sample<'a>, metadata: RecordMetadata) -> Event {
        let (Some(pid), Some(tid)) = (record.pid(), record.tid()) else {
            return event(&metadata, EventKind::Other);
        };
        Event {
            time_ns: record.time().unwrap_or(0),
            kind: EventKind::Sample {
                pid,
                tid,
                weight: record.period().unwrap_or(1),
                chain: record.callchain().unwrap_or_default().to_vec(),
                raw: record.raw().unwrap_or_default().to_vec(),
            },
        }
    }

    fn visit_fork(self, record: data::Fork, metadata: RecordMetadata) -> Event {
        let data::Exit { pid, ppid, tid, ptid, .. } = record;
        let kind = EventKind::Fork { pid, parent_pid: ppid, tid, parent_tid: ptid };
        event(&metadata, kind)
    }

    fn visit_comm(self, record: data::Comm<'a>, metadata: RecordMetadata) -> Event {
        let exec = metadata.misc() & COMM_EXEC != 0;
        let (pid, tid, name) = (record.pid, record.tid, text(&record.comm));
        event(&metadata, EventKind::Comm { pid, tid, name, exec })
    }

    fn visit_mmap2(self, record: data::Mmap2<'a>, metadata: RecordMetadata) -> Event {
        let kind = EventKind::Map {
            pid: record.pid,
            start: record.addr,
            length: record.len,
            offset: record.pgoff,
            inode: record.ino().unwrap_or(0),
            path: text(&record.filename),
        };
        event(&metadata, kind)
    }

    fn visit_lost(self, record: data::Lost, metadata: RecordMetadata) -> Event {
        event(&metadata, EventKind::Lost(record.lost))
    }

    fn visit_lost_samples(self, record: data::LostSamples, metadata: RecordMetadata) -> Event {
        event(&metadata, EventKind::Lost(record.lost))
    }

    fn visit_throttle(self, _record: data::Throttle, metadata: RecordMetadata) -> Event {
        event(&metadata, EventKind::Throttled)
    }
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;
    use perf_event::{Builder, SampleFlag};

    use super::*;

    /// As the rings' events are set up: every record ends with who and when.
    fn config() -> ParseConfig<Native> {
        let mut builder = Builder::new(Software::CONTEXT_SWITCHES);
        builder.sample(SampleFlag::TID | SampleFlag::TIME).sample_id_all(true);
        ParseConfig::from(*builder.attrs())
    }

    /// (pid 7, tid 8) at 1234.
    fn trailer() -> Vec<u8> {
        [
            7_u32.to_ne_bytes().to_vec(),
            8_u32.to_ne_bytes().to_vec(),
            1234_u64.to_ne_bytes().to_vec(),
        ]
        .concat()
    }

    fn kind(record_type: u32, misc: u16, data: &[u8]) -> (u64, EventKind) {
        let event = parse(record_type, misc, &[data, &trailer()].concat(), &config()).unwrap();
        (event.time_ns, event.kind)
    }

    #[test]
    fn switches_are_told_apart() {
        let switch = |out, preempted| (1234, EventKind::Switch { out, preempted });
        assert_eq!(kind(14, 0, &[]), switch(false, false));
        assert_eq!(kind(14, 1 << 13, &[]), switch(true, false));
        assert_eq!(kind(14, 3 << 13, &[]), switch(true, true));
    }

    #[test]
    fn names_and_losses_are_read() {
        let mut comm = [7_u32.to_ne_bytes(), 8_u32.to_ne_bytes()].concat();
        comm.extend(b"postgres\0\0\0\0\0\0\0\0");
        let name = "postgres".to_owned();
        let expected = EventKind::Comm { pid: 7, tid: 8, name, exec: true };
        assert_eq!(kind(3, 1 << 13, &comm), (1234, expected));
        let lost = [1_u64.to_ne_bytes(), 5_u64.to_ne_bytes()].concat();
        assert_eq!(kind(2, 0, &lost), (1234, EventKind::Lost(5)));
        assert_eq!(parse(2, 0, &[1, 2], &config()), None, "cut short");
    }
}
