//! A guest from its boot to its end.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::VmError;
use super::console::Event;
use super::qemu::{Guest, Line, Qemu};

/// Longest time from power-on to the first event; a loaded machine without KVM is slow.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
/// How often the watcher is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// Whoever follows a guest.
pub trait Watcher {
    /// Answers an event with the longest time that may pass until the next one; `None` leaves the
    /// limit as it is, and the time that has passed.
    fn event(&mut self, event: &Event<'_>) -> Option<Duration>;

    /// Asked some ten times a second; `false` ends the guest.
    fn goes_on(&mut self) -> bool {
        true
    }
}

/// Why the guest is no longer there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// By itself.
    PoweredOff,
    /// It printed this.
    Crashed(String),
    /// Nothing new for this long.
    Hung(Duration),
    /// The watcher did not go on.
    Stopped,
    /// QEMU gave up, with these words.
    QemuFailed(String),
}

/// Boots the guest and follows its console, which `console_log` keeps, to the end.
///
/// # Errors
/// QEMU cannot be started, or the log cannot be written.
pub fn boot(
    guest: &Guest<'_>,
    console_log: &Path,
    watcher: &mut dyn Watcher,
) -> Result<Ending, VmError> {
    let mut log = File::create(console_log)
        .map_err(VmError::io(format!("create {}", console_log.display())))?;
    let (mut qemu, lines) = Qemu::start(guest)?;
    let (mut limit, mut since) = (BOOT_LIMIT, Instant::now());
    let mut crash = None;
    let mut complaints = Vec::new();
    let ending = loop {
        if !watcher.goes_on() {
            return Ok(Ending::Stopped);
        }
        let left = limit.saturating_sub(since.elapsed());
        let line = match lines.recv_timeout(left.min(TICK)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if left > TICK => continue,
            Err(RecvTimeoutError::Timeout) => break Ending::Hung(limit),
            Err(RecvTimeoutError::Disconnected) => break ended(&mut qemu, &complaints)?,
        };
        let text = match &line {
            Line::Console(text) | Line::Qemu(text) => text,
        };
        writeln!(log, "{text}").map_err(VmError::io("write the console's log"))?;
        let event = match &line {
            Line::Console(text) => Event::parse(text),
            Line::Qemu(text) => Event::Qemu(text),
        };
        if event.is_crash() && crash.is_none() {
            crash = Some(text.clone());
        }
        if let Event::Qemu(words) = event {
            complaints.push(words.to_owned());
        }
        if let Some(new_limit) = watcher.event(&event) {
            (limit, since) = (new_limit, Instant::now());
        }
    };
    Ok(crash.map_or(ending, Ending::Crashed))
}

/// Its output is closed: how it ended.
fn ended(qemu: &mut Qemu, complaints: &[String]) -> Result<Ending, VmError> {
    Ok(match qemu.ended()? {
        Some(status) if status.success() => Ending::PoweredOff,
        _ if !complaints.is_empty() => Ending::QemuFailed(complaints.join("; ")),
        Some(status) => Ending::QemuFailed(status.to_string()),
        None => Ending::QemuFailed("it closed its console and went on".to_owned()),
    })
}
