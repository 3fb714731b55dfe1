//! One command in a guest, as if it ran here: its output, its exit code and the files that it saves.

mod failure;
mod share;
mod storage;
mod streams;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use failure::GuestFailure;
use failure::{Seen, Stop};
use share::SHARE;
pub use storage::{FileSystem, Storage};
use streams::Streams;

use super::program::need_program;
use super::{Event, Guest, Kernel, Machine, VmError, Watcher, boot, build_initramfs};

/// A guest at work says every 10 s that it is alive; an emulated one under load may be late.
const ALIVE_LIMIT: Duration = Duration::from_secs(180);
/// From its last word to the end. Kernels without ACPI cannot power off.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(10);

/// A command and what it finds.
#[derive(Debug)]
pub struct Job<'a> {
    /// The program with its path, and its arguments.
    pub words: &'a [OsString],
    /// Variables beside those of a bare system.
    pub environment: &'a [(OsString, OsString)],
    /// Where it runs.
    pub directory: &'a Path,
    /// What it may save.
    pub wanted: &'a [Wanted],
    /// Where its temporary files are, which are in memory else.
    pub storage: Option<Storage>,
    /// How long it may take.
    pub limit: Duration,
}

/// Something that the command saves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// This file.
    File(PathBuf),
    /// Everything in this directory.
    Directory(PathBuf),
    /// The files whose path is this, a dot and anything else.
    Beginning(PathBuf),
}

/// Where and how the guest runs.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// What to boot.
    pub kernel: &'a Kernel,
    /// On what.
    pub machine: Machine,
    /// An empty directory for all that is needed meanwhile; the files that the command saves are in
    /// it in the end ([`kept`]).
    pub place: &'a Path,
    /// The file that keeps the console.
    pub console: &'a Path,
}

/// Where the command's output goes.
pub struct Output<'a> {
    /// Its standard output.
    pub stdout: &'a mut dyn Write,
    /// Its standard error.
    pub stderr: &'a mut dyn Write,
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Its exit code, 128 and the signal's number after a signal.
    pub code: u8,
    /// What the kernel complained of meanwhile, if it did.
    pub complaint: Option<String>,
}

/// Boots the kernel, runs the command, and waits for its end. `goes_on` is asked some ten times a
/// second; where it says no, the guest ends at once.
///
/// # Errors
/// Whatever keeps the command from ending by itself.
pub fn run<'a>(
    job: &Job<'_>,
    setting: Setting<'_>,
    output: Output<'a>,
    goes_on: &'a dyn Fn() -> bool,
) -> Result<Done, VmError> {
    let Setting { kernel, machine, place, console } = setting;
    let share = place.join(SHARE);
    share::prepare(job, &need_program("busybox", "busybox-static")?, &share)?;
    let initramfs = build_initramfs(kernel, place)?;
    let disks = job.storage.map(|storage| storage.make_images(place)).transpose()?;
    let disks = disks.unwrap_or_default();
    let guest = Guest { kernel, initramfs: &initramfs, share: &share, disks: &disks, machine };
    let mut follower = Follower {
        streams: Streams::open(&share, output)?,
        seen: Seen::default(),
        begun: None,
        limit: job.limit,
        goes_on,
    };
    let ending = boot(&guest, console, &mut follower)?;
    follower.streams.finish()?;
    let complaint = failure::judge(ending, follower.seen)?;
    let code = share::code(&share).ok_or(GuestFailure::Lost)?;
    Ok(Done { code, complaint })
}

/// Where `place` has what the command saved of the wanted with this index: a directory, which holds
/// the file, the files, or what was in the directory.
pub fn kept(place: &Path, index: usize) -> PathBuf {
    place.join(SHARE).join("files").join(index.to_string())
}

/// The end of a console's log, for messages.
pub fn console_tail(console: &Path, lines: usize) -> Vec<String> {
    let text = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].iter().map(|&line| line.to_owned()).collect()
}

struct Follower<'a> {
    streams: Streams<'a>,
    seen: Seen,
    begun: Option<Instant>,
    limit: Duration,
    goes_on: &'a dyn Fn() -> bool,
}

impl Watcher for Follower<'_> {
    fn event(&mut self, event: &Event<'_>) -> Option<Duration> {
        match event {
            Event::Begin(_) => {
                self.seen.begun = true;
                self.begun = Some(Instant::now());
                Some(ALIVE_LIMIT)
            }
            Event::Alive | Event::End(_) => Some(ALIVE_LIMIT),
            Event::Done => {
                self.seen.done = true;
                Some(POWER_OFF_LIMIT)
            }
            Event::Missing(options) => {
                self.seen.missing = Some((*options).to_owned());
                Some(POWER_OFF_LIMIT)
            }
            Event::Failed(what) => {
                self.seen.failed = Some((*what).to_owned());
                Some(POWER_OFF_LIMIT)
            }
            Event::Line(_) => {
                self.seen.spoke = true;
                None
            }
            Event::Qemu(_) => None,
        }
    }

    fn goes_on(&mut self) -> bool {
        self.streams.pass_on();
        let late = self.begun.is_some_and(|begun| begun.elapsed() > self.limit);
        self.seen.stop = match (late, (self.goes_on)()) {
            (_, false) => Some(Stop::Asked),
            (true, true) if !self.seen.done => Some(Stop::Late(self.limit)),
            _ => None,
        };
        self.seen.stop.is_none()
    }
}
