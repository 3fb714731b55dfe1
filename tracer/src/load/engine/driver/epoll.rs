//! One system call a message: epoll, edge-triggered.

use std::io;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::alarm::Alarm;
use super::{Action, Driver, unless_gone};
use crate::load::connect::{Received, Transport};
use crate::load::engine::abort::AbortReason;
use crate::load::engine::crew::Crew;

const RECEIVE_BYTES: usize = 64 * 1024;
const EVENTS: usize = 256;
const ALARM: u64 = u64::MAX;

pub(in crate::load::engine) struct EpollDriver {
    epoll: Epoll,
    alarm: Alarm,
    transports: Vec<Option<Transport>>,
    buffer: Vec<u8>,
    events: Vec<EpollEvent>,
}

impl EpollDriver {
    /// Room for `slots` connections.
    pub(in crate::load::engine) fn new(slots: usize) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let alarm = Alarm::new()?;
        epoll.add(&alarm, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, ALARM))?;
        let transports = (0..slots).map(|_| None).collect();
        let (buffer, events) = (vec![0; RECEIVE_BYTES], vec![EpollEvent::empty(); EVENTS]);
        Ok(Self { epoll, alarm, transports, buffer, events })
    }

    fn serve(&mut self, event: EpollEvent, crew: &mut Crew) {
        let slot = event.data() as usize;
        let flags = event.events();
        if flags.contains(EpollFlags::EPOLLOUT)
            && let Err(error) = self.resume_sending(slot)
        {
            return self.give_up(slot, AbortReason::Io(error), crew);
        }
        // The end comes as an event of its own only if it was not there with the last bytes.
        let at_end = flags.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP);
        if let Err(reason) = self.receive(slot, at_end, crew) {
            self.give_up(slot, reason, crew);
        }
    }

    /// Takes everything that has arrived, and answers it; `at_end`: up to the end of the stream.
    fn receive(&mut self, slot: usize, at_end: bool, crew: &mut Crew) -> Result<(), AbortReason> {
        // An earlier event of the same wait may have closed it.
        while let Some(transport) = &mut self.transports[slot] {
            let (count, drained) = match transport.receive(&mut self.buffer)? {
                Received::Bytes { count, drained } => (count, drained),
                Received::Nothing => return Ok(()),
                Received::End => return Err(AbortReason::Closed),
            };
            match crew.received(slot, &self.buffer[..count]) {
                Action::Wait => {}
                Action::Send => {
                    if !unless_gone(transport.send(crew.request(slot)))? {
                        self.watch(slot, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT)?;
                    }
                }
                Action::Close => self.close(slot),
            }
            if drained && !at_end {
                return Ok(());
            }
        }
        Ok(())
    }

    fn give_up(&mut self, slot: usize, reason: AbortReason, crew: &mut Crew) {
        crew.lost(slot, reason);
        self.close(slot);
    }

    fn resume_sending(&mut self, slot: usize) -> io::Result<()> {
        let Some(transport) = &mut self.transports[slot] else { return Ok(()) };
        if unless_gone(transport.send_unsent())? {
            self.watch(slot, EpollFlags::EPOLLIN)?;
        }
        Ok(())
    }

    fn watch(&self, slot: usize, flags: EpollFlags) -> io::Result<()> {
        match &self.transports[slot] {
            Some(transport) => Ok(self.epoll.modify(transport, &mut interest(slot, flags))?),
            None => Ok(()),
        }
    }
}

impl Driver for EpollDriver {
    fn open(&mut self, slot: usize, transport: Transport) -> io::Result<()> {
        self.epoll.add(&transport, interest(slot, EpollFlags::EPOLLIN))?;
        self.transports[slot] = Some(transport);
        Ok(())
    }

    fn close(&mut self, slot: usize) {
        if let Some(transport) = self.transports[slot].take() {
            // Closing the only descriptor ends the watch.
            transport.say_goodbye();
        }
    }

    fn send(&mut self, slot: usize, request: &[u8]) -> io::Result<()> {
        let Some(transport) = &mut self.transports[slot] else { return Ok(()) };
        if !unless_gone(transport.send(request))? {
            self.watch(slot, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT)?;
        }
        Ok(())
    }

    fn is_open(&self, slot: usize) -> bool {
        self.transports[slot].is_some()
    }

    fn wait(&mut self, due_ns: u64, crew: &mut Crew) -> io::Result<()> {
        let timeout = if due_ns == 0 {
            EpollTimeout::ZERO
        } else {
            self.alarm.set(due_ns)?;
            EpollTimeout::NONE
        };
        let count = match self.epoll.wait(&mut self.events, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        for index in 0..count {
            let event = self.events[index];
            if event.data() == ALARM {
                self.alarm.silence();
                crew.look_at_the_clock();
            } else {
                self.serve(event, crew);
            }
        }
        Ok(())
    }
}

fn interest(slot: usize, flags: EpollFlags) -> EpollEvent {
    EpollEvent::new(flags | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET, slot as u64)
}
