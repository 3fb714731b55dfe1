//! What the kernel tells of a task: its files in `/proc`, and its memory.
//!
//! A look at a server reads some of these for each of a thousand processes, so a file is opened and read
//! once, and no more of it is taken apart than is wanted. Pids are those of lockscope's own pid namespace.

use std::fs::{self, File};
use std::io::{self, IoSliceMut, Read as _};
use std::path::Path;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Longer than most of them.
const SHORT_FILE_BYTES: usize = 4096;

/// The part of `/proc/PID/stat` that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStat {
    /// The short name.
    pub comm: String,
    /// `R`, `S`, `D`, …
    pub state: char,
    /// The parent's pid.
    pub parent: u32,
    /// Page faults without I/O.
    pub minor_faults_count: u64,
    /// Page faults with I/O.
    pub major_faults_count: u64,
    /// When it started, clock ticks since boot.
    pub started_ticks: u64,
}

/// Reads a file of `/proc`, without asking for its size first: these have none.
///
/// # Errors
/// The task is gone, or the file is withheld.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; SHORT_FILE_BYTES];
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..])? {
            0 => break,
            read => length += read,
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// The same as text; names may be in any encoding.
///
/// # Errors
/// As [`read`].
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = read(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A process's; `None` when it is gone.
pub fn stat(pid: u32) -> Option<TaskStat> {
    parse_stat(&read_text(format!("/proc/{pid}/stat")).ok()?)
}

/// A thread's; `None` when it is gone.
pub fn thread_stat(tid: u32, tgid: u32) -> Option<TaskStat> {
    parse_stat(&read_text(format!("/proc/{tgid}/task/{tid}/stat")).ok()?)
}

/// `pid (comm) state ppid …`: the name may hold anything, blanks and parentheses too (proc(5)).
fn parse_stat(text: &str) -> Option<TaskStat> {
    let (front, rest) = text.rsplit_once(')')?;
    let (_, comm) = front.split_once('(')?;
    // The manual counts from 1, and the name is 2.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    Some(TaskStat {
        comm: comm.to_owned(),
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        minor_faults_count: field(10)?.parse().ok()?,
        major_faults_count: field(12)?.parse().ok()?,
        started_ticks: field(22)?.parse().ok()?,
    })
}

/// A thread's; `None` when it is gone.
pub fn thread_comm(tid: u32, tgid: u32) -> Option<String> {
    let comm = read_text(format!("/proc/{tgid}/task/{tid}/comm")).ok()?;
    Some(comm.trim_end_matches('\n').to_owned())
}

/// The words of the command line; what a process writes over it is the first one.
pub fn command_line(pid: u32) -> Vec<String> {
    let text = read_text(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The command line as one text: the title that a server's process gives itself.
///
/// # Errors
/// As [`read`].
pub fn title(pid: u32) -> io::Result<String> {
    let text = read_text(format!("/proc/{pid}/cmdline"))?.replace('\0', " ");
    Ok(text.trim_end_matches(' ').to_owned())
}

/// The pid by which a process knows itself: the innermost of those that it has.
pub fn own_pid(pid: u32) -> Option<u32> {
    last_number(&read_text(format!("/proc/{pid}/status")).ok()?, "NSpid:")
}

fn last_number(status: &str, field: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// Every process that `/proc` shows, in no order.
pub fn pids() -> impl Iterator<Item = u32> {
    numbers(Path::new("/proc")).into_iter().flatten()
}

/// The threads of a process.
///
/// # Errors
/// It is gone.
pub fn tids(pid: u32) -> io::Result<impl Iterator<Item = u32>> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

fn numbers(directory: &Path) -> io::Result<impl Iterator<Item = u32> + use<>> {
    let entries = fs::read_dir(directory)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// Reads as much of a process's memory as `bytes` holds.
///
/// # Errors
/// It is gone, nothing is mapped there, or it is not ours to look at.
pub fn read_memory(pid: u32, address: u64, bytes: &mut [u8]) -> io::Result<()> {
    let wanted = bytes.len();
    let base = usize::try_from(address).map_err(io::Error::other)?;
    let remote = RemoteIoVec { base, len: wanted };
    let pid = Pid::from_raw(pid.cast_signed());
    match process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &[remote])? {
        read if read == wanted => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> u32 {
        std::process::id()
    }

    #[test]
    fn a_name_may_look_like_the_rest_of_its_line() {
        let numbers = (4..=52).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        let stat = parse_stat(&format!("77 (a) S 9 (b) R {numbers}\n")).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state), ("a) S 9 (b", 'R'));
        assert_eq!((stat.parent, stat.started_ticks), (4, 22));
        assert_eq!((stat.minor_faults_count, stat.major_faults_count), (10, 12));
        assert_eq!(parse_stat("77 (a) S 9"), None);
    }

    #[test]
    fn this_process_is_told_and_one_that_is_gone_is_not() {
        assert!(pids().any(|pid| pid == own()));
        assert!(tids(own()).unwrap().any(|tid| tid == own()));
        assert_eq!(stat(own()).unwrap().parent, nix::unistd::getppid().as_raw().cast_unsigned());
        assert_eq!(stat(own()).unwrap().comm, thread_comm(own(), own()).unwrap());
        assert_eq!(command_line(own()), std::env::args().collect::<Vec<_>>());
        // Above the largest pid that Linux gives.
        let gone = 1 << 23;
        assert_eq!((stat(gone), own_pid(gone), thread_comm(gone, gone)), (None, None, None));
        assert!(tids(gone).is_err() && title(gone).is_err());
    }

    #[test]
    fn a_long_file_is_read_to_its_end() {
        let maps = read_text("/proc/self/maps").unwrap();
        assert!(maps.len() > SHORT_FILE_BYTES && maps.contains("[stack]"), "{maps}");
    }

    #[test]
    fn the_innermost_pid_is_its_own() {
        assert_eq!(last_number("Pid:\t9\nNSpid:\t9\t4\t1\nNSpgid:\t9\t4\t1\n", "NSpid:"), Some(1));
        assert_eq!(last_number("Pid:\t9\n", "NSpid:"), None);
    }

    #[test]
    fn memory_is_read_where_there_is_some() {
        let word = 0x1234_5678_9abc_def0_u64;
        let mut bytes = [0; 8];
        read_memory(own(), std::ptr::from_ref(&word) as u64, &mut bytes).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), word);
        assert!(read_memory(own(), 8, &mut bytes).is_err());
        assert!(read_memory(1 << 23, 8, &mut bytes).is_err());
    }
}
