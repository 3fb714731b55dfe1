//! The same waits in perf's words: `perf lock record`, then `perf lock contention` by thread.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::command::wait_until;

/// Emulated CPUs take their time.
const LIMIT: Duration = Duration::from_secs(240);

/// A recording under way; ended when dropped.
#[derive(Debug)]
pub struct Perf {
    child: Child,
    data: PathBuf,
}

impl Perf {
    /// Starts recording the whole machine and waits until perf says that it does: on emulated CPUs it may
    /// take long to open its events.
    ///
    /// # Errors
    /// When perf is missing or refuses.
    pub fn start(results: &Path) -> Result<Self> {
        let data = results.join("perf.data");
        let fifos = tempfile::tempdir().context("cannot create a directory")?;
        let (orders, answers) = (fifos.path().join("orders"), fifos.path().join("answers"));
        let mut told = fifo(&orders)?;
        let mut heard = fifo(&answers)?;
        told.write_all(b"enable\n").context("cannot write to perf's fifo")?;
        let child = Command::new("perf")
            .args(["lock", "record", "-a", "-m", "4M", "--delay", "-1", "--control"])
            .arg(format!("fifo:{},{}", orders.display(), answers.display()))
            .arg("-o")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start perf; `cargo xtask setup` installs it")?;
        let mut perf = Self { child, data };
        let mut ended = false;
        wait_until(LIMIT, || {
            ended = perf.child.try_wait().map_or(true, |status| status.is_some());
            ended || heard.read(&mut [0; 16]).is_ok_and(|length| length > 0)
        })
        .context("perf enables no event")?;
        if ended {
            bail!("perf ended before it recorded");
        }
        Ok(perf)
    }

    /// Ends it and reads what it recorded.
    ///
    /// # Errors
    /// When it does not end, or its report cannot be made.
    pub fn finish(mut self) -> Result<Totals> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGINT)
            .context("cannot end perf")?;
        wait_until(LIMIT, || self.child.try_wait().is_ok_and(|status| status.is_some()))
            .context("perf does not end")?;
        let output = Command::new("perf")
            .args(["lock", "contention", "--threads", "-i"])
            .arg(&self.data)
            .stdin(Stdio::null())
            .output()
            .context("cannot start perf")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        fs::write(self.data.with_extension("txt"), &said).context("cannot keep perf's report")?;
        Totals::parse(&said)
    }
}

/// A fifo that nobody waits at: what is written before the other end is there is kept.
fn fifo(path: &Path) -> Result<File> {
    let made = mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR);
    made.with_context(|| format!("cannot make {}", path.display()))?;
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.with_context(|| format!("cannot open {}", path.display()))
}

impl Drop for Perf {
    fn drop(&mut self) {
        // Usually it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits and their nanoseconds, by tid.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Totals(BTreeMap<u64, (u64, u64)>);

impl Totals {
    /// Reads lines like ` 12  1.50 ms  1.00 ms  125.00 us  4711  stress-mutex`.
    fn parse(text: &str) -> Result<Self> {
        let mut totals = BTreeMap::new();
        for words in text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            let [count, total, unit, _, _, _, _, tid, ..] = words[..] else { continue };
            let (Ok(count), Ok(total), Ok(tid)) = (count.parse(), total.parse(), tid.parse())
            else {
                continue;
            };
            totals.insert(tid, (count, nanoseconds(total, unit)?));
        }
        if totals.is_empty() {
            bail!("perf reported no thread: {text}");
        }
        Ok(Self(totals))
    }

    /// Waits and nanoseconds of these threads together.
    pub fn of(&self, tids: impl IntoIterator<Item = u64>) -> (u64, u64) {
        let found = tids.into_iter().filter_map(|tid| self.0.get(&tid));
        found.fold((0, 0), |sum, thread| (sum.0 + thread.0, sum.1 + thread.1))
    }
}

/// perf prints three digits at least, in a unit that fits.
fn nanoseconds(number: f64, unit: &str) -> Result<u64> {
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => bail!("perf printed the unit `{unit}`"),
    };
    Ok((number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_with_their_units() {
        let text = " contended   total wait     max wait     avg wait          pid   comm\n\n\
                    12      1.50 ms      1.00 ms    125.00 us       4711   stress-mutex\n\
                    3     40.00 us     20.00 us     13.33 us       4712   stress mutex\n";
        let totals = Totals::parse(text).expect("two threads");
        assert_eq!(totals.of([4711, 4712, 9]), (15, 1_540_000));
        assert!(Totals::parse("nothing").is_err());
    }
}
