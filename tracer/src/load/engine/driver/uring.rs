//! Many messages a system call: io_uring.
//!
//! One receive a connection stays posted for the whole run, and a request is a queue entry that
//! leaves, with those of other connections, at the next wait. A send that succeeds reports nothing:
//! the reply does.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, cqueue, opcode, types};

use super::alarm::Alarm;
use super::buffers::{Buffers, GROUP};
use super::{Action, Driver, unless_gone};
use crate::load::connect::Transport;
use crate::load::engine::abort::AbortReason;
use crate::load::engine::crew::Crew;

/// Requests that leave together at most; with more, the first would wait long for the last.
const BATCH: usize = 32;
/// Requests up to this size are copied to the connection's place in `requests`.
const REQUEST_BYTES: usize = 4096;
const QUEUE: u32 = 256;
const LEAST_BUFFERS: u16 = 16;
const MOST_BUFFERS: usize = 4096;
const CONNECTIONS_MOST: usize = 1 << 20;

const ALARM: u64 = u64::MAX;
/// Beside the slot in an entry's user data.
const SENDING: u64 = 1 << 32;
const SENDING_LARGE: u64 = 1 << 33;

pub(in crate::load::engine) struct UringDriver {
    // Dropped first: afterwards the kernel uses none of the memory below.
    ring: IoUring,
    buffers: Buffers,
    /// A place a connection, which stays where it is while the ring lives.
    requests: Vec<u8>,
    connections: Vec<Option<Connection>>,
    alarm: Alarm,
    /// Completions of one wait.
    arrived: VecDeque<cqueue::Entry>,
}

struct Connection {
    transport: Transport,
    /// A request that is too large for its place, until the kernel has taken it.
    large: Option<Vec<u8>>,
    /// What is to be sent after it.
    after_large: Vec<u8>,
}

/// A ring as the driver uses it.
fn new_ring(completions: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(completions)
        .build(QUEUE)
}

/// Sets all up that the driver needs, and takes it down again.
pub(super) fn probe() -> io::Result<()> {
    UringDriver::new(1).map(drop)
}

impl UringDriver {
    /// Room for `slots` connections.
    pub(in crate::load::engine) fn new(slots: usize) -> io::Result<Self> {
        let slots = slots.clamp(1, CONNECTIONS_MOST);
        let completions = u32::try_from(4 * slots).unwrap_or(u32::MAX).max(2 * QUEUE);
        let ring = new_ring(completions)?;
        let count = slots.next_power_of_two().min(MOST_BUFFERS) as u16;
        let buffers = Buffers::new(count.max(LEAST_BUFFERS))?;
        // SAFETY: both are fields of the driver, and fields are dropped in order.
        unsafe { buffers.register(&ring.submitter()) }?;
        ring.submitter().register_files_sparse(slots as u32)?;
        let mut driver = Self {
            ring,
            buffers,
            requests: vec![0; slots * REQUEST_BYTES],
            connections: (0..slots).map(|_| None).collect(),
            alarm: Alarm::new()?,
            arrived: VecDeque::with_capacity(QUEUE as usize),
        };
        driver.watch_alarm()?;
        Ok(driver)
    }

    fn watch_alarm(&mut self) -> io::Result<()> {
        let timer = types::Fd(self.alarm.as_fd().as_raw_fd());
        let events = libc::POLLIN as u32;
        let poll = opcode::PollAdd::new(timer, events).multi(true).build().user_data(ALARM);
        self.push(&poll)
    }

    fn post_receive(&mut self, slot: usize) -> io::Result<()> {
        let receive = opcode::RecvMulti::new(types::Fixed(slot as u32), GROUP).build();
        self.push(&receive.user_data(slot as u64))
    }

    /// Queues an entry; those before it leave when the queue is full.
    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        loop {
            // SAFETY: what entries point to are fields that outlive the ring.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    fn send_large(&mut self, slot: usize, request: Vec<u8>) -> io::Result<()> {
        let Some(connection) = &mut self.connections[slot] else { return Ok(()) };
        let request = connection.large.insert(request);
        let entry = send_entry(slot, request).user_data(slot as u64 | SENDING_LARGE);
        self.push(&entry)
    }

    fn serve(&mut self, completion: &cqueue::Entry, crew: &mut Crew) -> io::Result<()> {
        if completion.user_data() == ALARM {
            return self.rang(completion.flags(), crew);
        }
        let slot = (completion.user_data() & u64::from(u32::MAX)) as usize;
        let served = match completion.user_data() & !u64::from(u32::MAX) {
            // A success is silent.
            SENDING => sent(completion.result()),
            SENDING_LARGE => self.sent_large(slot, completion.result()),
            _ => self.received(slot, completion, crew),
        };
        if let Err(reason) = served
            && self.connections[slot].is_some()
        {
            crew.lost(slot, reason);
            self.close(slot);
        }
        Ok(())
    }

    fn rang(&mut self, flags: u32, crew: &mut Crew) -> io::Result<()> {
        self.alarm.silence();
        crew.look_at_the_clock();
        if cqueue::more(flags) { Ok(()) } else { self.watch_alarm() }
    }

    fn received(
        &mut self,
        slot: usize,
        completion: &cqueue::Entry,
        crew: &mut Crew,
    ) -> Result<(), AbortReason> {
        let buffer = cqueue::buffer_select(completion.flags());
        let is_open = self.connections[slot].is_some();
        let action = match (buffer, usize::try_from(completion.result())) {
            (Some(id), Ok(count)) if is_open && count > 0 => {
                crew.received(slot, self.buffers.read(id, count))
            }
            _ => Action::Wait,
        };
        if let Some(id) = buffer {
            self.buffers.give_back(id);
        }
        match (completion.result(), action) {
            _ if !is_open => return Ok(()),
            (0, _) => return Err(AbortReason::Closed),
            // All buffers were in use; the receive is posted anew below.
            (error, _) if error < 0 && -error != libc::ENOBUFS => {
                return Err(AbortReason::Io(io::Error::from_raw_os_error(-error)));
            }
            (_, Action::Wait) => {}
            (_, Action::Send) => self.send(slot, crew.request(slot))?,
            (_, Action::Close) => self.close(slot),
        }
        if !cqueue::more(completion.flags()) && self.connections[slot].is_some() {
            self.post_receive(slot)?;
        }
        Ok(())
    }

    fn sent_large(&mut self, slot: usize, result: i32) -> Result<(), AbortReason> {
        let Some(connection) = &mut self.connections[slot] else { return Ok(()) };
        connection.large = None;
        sent(result)?;
        match std::mem::take(&mut connection.after_large) {
            next if next.is_empty() => Ok(()),
            next => Ok(self.send_large(slot, next)?),
        }
    }
}

fn sent(result: i32) -> Result<(), AbortReason> {
    let sent = if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(true) };
    Ok(unless_gone(sent).map(drop)?)
}

/// A send of all of `request`, which must stay where it is until the kernel has taken it.
fn send_entry(slot: usize, request: &[u8]) -> Entry {
    let length = u32::try_from(request.len()).unwrap_or(u32::MAX);
    opcode::Send::new(types::Fixed(slot as u32), request.as_ptr(), length)
        .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
        .build()
}

impl Driver for UringDriver {
    fn open(&mut self, slot: usize, transport: Transport) -> io::Result<()> {
        let descriptor = transport.as_fd().as_raw_fd();
        self.ring.submitter().register_files_update(slot as u32, &[descriptor])?;
        let connection = Connection { transport, large: None, after_large: Vec::new() };
        self.connections[slot] = Some(connection);
        self.post_receive(slot)
    }

    fn close(&mut self, slot: usize) {
        let Some(connection) = self.connections[slot].take() else { return };
        // The ring holds the socket too: shutting it down ends what is posted, and tells the server.
        connection.transport.say_goodbye();
        drop(self.ring.submitter().register_files_update(slot as u32, &[-1]));
        if let Some(request) = connection.large {
            // The kernel may be reading it still; a connection is closed so once at most.
            std::mem::forget(request);
        }
    }

    fn send(&mut self, slot: usize, request: &[u8]) -> io::Result<()> {
        let Some(connection) = &mut self.connections[slot] else { return Ok(()) };
        if connection.large.is_some() {
            connection.after_large.extend_from_slice(request);
            return Ok(());
        }
        if request.len() > REQUEST_BYTES {
            return self.send_large(slot, request.to_vec());
        }
        // The server has answered the request that was here before, so it has read it.
        let start = slot * REQUEST_BYTES;
        let place = &mut self.requests[start..start + request.len()];
        place.copy_from_slice(request);
        let entry = send_entry(slot, place).flags(Flags::SKIP_SUCCESS);
        self.push(&entry.user_data(slot as u64 | SENDING))
    }

    fn is_open(&self, slot: usize) -> bool {
        self.connections[slot].is_some()
    }

    fn wait(&mut self, due_ns: u64, crew: &mut Crew) -> io::Result<()> {
        // What is due now rings the alarm at once: completions come only to who waits for one.
        self.alarm.set(due_ns)?;
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.extend(self.ring.completion());
        let mut served = Ok(());
        for (index, completion) in arrived.iter().enumerate() {
            served = served.and(self.serve(completion, crew));
            if index % BATCH == BATCH - 1 {
                served = served.and(self.ring.submit().map(drop));
            }
        }
        arrived.clear();
        self.arrived = arrived;
        served
    }
}
