//! A file that a benchmark writes its progress to, read as it grows.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::pump::{Event, Lines, Stream};
use crate::clock::monotonic_ns;

/// How late a line may be read: a hundredth of the usual interval.
const POLL: Duration = Duration::from_millis(10);

/// Follows until it is dropped.
#[derive(Debug)]
pub struct Follower {
    stop: Arc<AtomicBool>,
}

impl Follower {
    /// Follows the file at `path` from its begin. Lines that are in it already come with the time 0.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn start(path: &Path, events: Sender<Event>) -> io::Result<Follower> {
        let mut file = File::open(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let wanted = Arc::clone(&stop);
        let mut lines = Lines::default();
        read_on(&mut file, &mut lines, 0, &events)?;
        thread::Builder::new().name("follower".into()).spawn(move || {
            while !wanted.load(Ordering::Relaxed) {
                thread::sleep(POLL);
                // A file that cannot be read any more says nothing any more.
                if read_on(&mut file, &mut lines, monotonic_ns(), &events).is_err() {
                    return;
                }
            }
        })?;
        Ok(Follower { stop })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Reads what has come; one that was emptied meanwhile is read from its begin.
fn read_on(
    file: &mut File,
    lines: &mut Lines,
    at_ns: u64,
    events: &Sender<Event>,
) -> io::Result<()> {
    let place = file.stream_position()?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() < place {
        file.seek(SeekFrom::Start(0))?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    lines.take(&bytes, |text| {
        let _ = events.send(Event::Line { stream: Stream::File, text, at_ns });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_was_there_is_told_from_what_comes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"old\nhalf").unwrap();
        let (sender, receiver) = channel();
        let _follower = Follower::start(file.path(), sender).unwrap();
        let line = || match receiver.recv_timeout(Duration::from_secs(10)).unwrap() {
            Event::Line { text, at_ns, .. } => (text, at_ns > 0),
            Event::Ended { .. } => panic!("no command"),
        };
        assert_eq!(line(), ("old".to_owned(), false));
        file.write_all(b" a line\n").unwrap();
        assert_eq!(line(), ("half a line".to_owned(), true));
        file.as_file().set_len(0).unwrap();
        file.rewind().unwrap();
        file.write_all(b"anew\n").unwrap();
        assert_eq!(line(), ("anew".to_owned(), true));
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        let (sender, _receiver) = channel();
        assert!(Follower::start(Path::new("/no/such/file"), sender).is_err());
    }
}
