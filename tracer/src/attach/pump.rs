//! What a command says, passed on byte by byte and read line by line on the way.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use crate::clock::monotonic_ns;

/// What is read of a line at most; the rest is passed on unread.
const LINE_MAX: usize = 4096;

/// Which of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// A file that is followed.
    File,
}

/// Something that the trace has to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole line was read.
    Line {
        /// Where from.
        stream: Stream,
        /// Without its end.
        text: String,
        /// When its end was read, CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// The command has ended.
    Ended {
        /// When, CLOCK_MONOTONIC.
        at_ns: u64,
    },
}

/// Bytes in, whole lines out.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// The lines that end in `bytes`. pgbench -i and others end theirs with a carriage return.
    pub(super) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        for &byte in bytes {
            if byte == b'\n' || byte == b'\r' {
                if !self.begun.is_empty() {
                    each(String::from_utf8_lossy(&self.begun).into_owned());
                    self.begun.clear();
                }
            } else if self.begun.len() < LINE_MAX {
                self.begun.push(byte);
            }
        }
    }
}

/// Passes a stream on until its end. Whoever reads lockscope's stream may go away: then the command
/// loses its reader too, as it would without lockscope.
pub(super) fn pump(stream: Stream, from: OwnedFd, events: Sender<Event>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut from = File::from(from);
        let mut lines = Lines::default();
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = match from.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let at_ns = monotonic_ns();
            if pass_on(stream, &bytes[..count]).is_err() {
                return;
            }
            lines.take(&bytes[..count], |text| {
                let _ = events.send(Event::Line { stream, text, at_ns });
            });
        }
    })
}

fn pass_on(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Error => io::stderr().write_all(bytes),
        Stream::Output | Stream::File => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes)?;
            stdout.flush()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_come_in_pieces() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in ["progr", "ess: 1\nlate", "ncy\r", "\n\nx"] {
            lines.take(piece.as_bytes(), |line| seen.push(line));
        }
        assert_eq!(seen, ["progress: 1", "latency"]);
        let long = vec![b'a'; 3 * LINE_MAX];
        lines.take(&long, |_| panic!("no end yet"));
        lines.take(b"\n", |line| assert_eq!(line.len(), LINE_MAX));
    }
}
