//! Why a guest did not end its command.

use std::time::Duration;

use crate::Ending;

/// A guest that did not end its command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestFailure {
    /// Options that the kernel was built without.
    #[error(
        "the kernel lacks {0}, which a guest needs; build it with these (=y), or with modules (=m) and give their directory with --modules"
    )]
    Missing(String),
    /// The guest's own scripts.
    #[error("the guest failed {0}")]
    Failed(String),
    /// The kernel did not take the guest's first file system for one.
    #[error(
        "the kernel does not start the guest's first program ({0}); it needs CONFIG_BLK_DEV_INITRD, CONFIG_BINFMT_ELF and CONFIG_BINFMT_SCRIPT"
    )]
    NoInit(String),
    /// A panic, an oops or the like.
    #[error("the kernel crashed {}: {line}", when(*.begun))]
    Crashed {
        /// The first line that says so.
        line: String,
        /// Whether the command had begun.
        begun: bool,
    },
    /// Not a line.
    #[error(
        "the kernel said nothing for {} s: it does not boot, or lacks CONFIG_SERIAL_8250_CONSOLE", .0.as_secs()
    )]
    Silent(Duration),
    /// Not a word any more.
    #[error("the guest hung {}: nothing came of it for {} s", when(*.begun), .limit.as_secs())]
    Hung {
        /// How long.
        limit: Duration,
        /// Whether the command had begun.
        begun: bool,
    },
    /// The command's limit.
    #[error("the command had not ended after {} s; --timeout gives it longer", .0.as_secs_f64())]
    Late(Duration),
    /// The caller's wish.
    #[error("ended on request, before its command had ended")]
    Stopped,
    /// QEMU gave up.
    #[error("QEMU ended: {0}")]
    Qemu(String),
    /// No exit code.
    #[error("the guest powered off, and its command left no exit code")]
    Lost,
}

fn when(begun: bool) -> &'static str {
    if begun { "while the command ran" } else { "while it booted" }
}

/// What a guest has said of itself.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Anything at all.
    pub(super) spoke: bool,
    pub(super) missing: Option<String>,
    pub(super) failed: Option<String>,
    /// The command has begun.
    pub(super) begun: bool,
    /// All is done.
    pub(super) done: bool,
    pub(super) stop: Option<Stop>,
}

/// Why it was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Asked,
    Late(Duration),
}

/// What a kernel says that finds no first program.
const NO_INIT: [&str; 3] = ["Unable to mount root fs", "No working init", "Requested init"];

/// Whether the command has ended by itself, and what the kernel complained of meanwhile.
pub(super) fn judge(ending: Ending, seen: Seen) -> Result<Option<String>, GuestFailure> {
    if let Some(options) = seen.missing {
        return Err(GuestFailure::Missing(options));
    }
    if let Some(what) = seen.failed {
        return Err(GuestFailure::Failed(what));
    }
    let begun = seen.begun;
    match ending {
        // A lockup that has passed is no crash. What is hung now has only to power off.
        Ending::Crashed(line) if seen.done => Ok(Some(line)),
        _ if seen.done => Ok(None),
        Ending::Crashed(line) if NO_INIT.iter().any(|words| line.contains(words)) => {
            Err(GuestFailure::NoInit(line))
        }
        Ending::Crashed(line) => Err(GuestFailure::Crashed { line, begun }),
        Ending::Hung(limit) if !seen.spoke => Err(GuestFailure::Silent(limit)),
        Ending::Hung(limit) => Err(GuestFailure::Hung { limit, begun }),
        Ending::Stopped => Err(match seen.stop {
            Some(Stop::Late(limit)) => GuestFailure::Late(limit),
            Some(Stop::Asked) | None => GuestFailure::Stopped,
        }),
        Ending::QemuFailed(words) => Err(GuestFailure::Qemu(words)),
        Ending::PoweredOff => Err(GuestFailure::Lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(240);

    fn words(ending: Ending, seen: Seen) -> String {
        judge(ending, seen).unwrap_err().to_string()
    }

    #[test]
    fn what_the_kernel_lacks_is_named_whatever_came_of_it() {
        let seen = || Seen {
            spoke: true,
            missing: Some("CONFIG_9P_FS CONFIG_OVERLAY_FS".to_owned()),
            failed: Some("to reach the host's root".to_owned()),
            ..Seen::default()
        };
        for ending in [Ending::PoweredOff, Ending::Crashed("lockscope-vm: failed …".to_owned())] {
            let said = words(ending, seen());
            assert!(said.contains("lacks CONFIG_9P_FS CONFIG_OVERLAY_FS"), "{said}");
            assert!(said.contains("--modules"), "{said}");
        }
    }

    #[test]
    fn a_crash_tells_when_and_how() {
        let panic = || Ending::Crashed("Kernel panic - not syncing: Fatal exception".to_owned());
        let spoke = |begun| Seen { spoke: true, begun, ..Seen::default() };
        let booting = words(panic(), spoke(false));
        assert!(booting.contains("crashed while it booted: Kernel panic"), "{booting}");
        let running = words(panic(), spoke(true));
        assert!(running.contains("crashed while the command ran"), "{running}");
        let no_root =
            "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)";
        let said = words(Ending::Crashed(no_root.to_owned()), spoke(false));
        assert!(said.contains("CONFIG_BLK_DEV_INITRD"), "{said}");
    }

    #[test]
    fn silence_is_told_from_a_hang() {
        let silent = words(Ending::Hung(LIMIT), Seen::default());
        assert!(silent.contains("nothing for 240 s"), "{silent}");
        assert!(silent.contains("CONFIG_SERIAL_8250_CONSOLE"), "{silent}");
        let spoke = Seen { spoke: true, begun: true, ..Seen::default() };
        let hung = words(Ending::Hung(LIMIT), spoke);
        assert!(hung.contains("hung while the command ran"), "{hung}");
    }

    #[test]
    fn a_limit_is_told_from_a_request() {
        let stopped = |stop| words(Ending::Stopped, Seen { stop: Some(stop), ..Seen::default() });
        assert!(stopped(Stop::Late(LIMIT)).contains("after 240 s; --timeout"));
        assert!(stopped(Stop::Asked).contains("on request"));
    }

    #[test]
    fn what_is_done_is_done() {
        let done = || Seen { spoke: true, begun: true, done: true, ..Seen::default() };
        assert_eq!(judge(Ending::PoweredOff, done()), Ok(None));
        assert_eq!(judge(Ending::Hung(LIMIT), done()), Ok(None));
        let lockup = "watchdog: BUG: soft lockup - CPU#1 stuck for 22s!".to_owned();
        assert_eq!(judge(Ending::Crashed(lockup.clone()), done()), Ok(Some(lockup)));
    }

    #[test]
    fn a_guest_without_a_result_has_failed() {
        let spoke = || Seen { spoke: true, begun: true, ..Seen::default() };
        assert_eq!(judge(Ending::PoweredOff, spoke()), Err(GuestFailure::Lost));
        let said = words(Ending::QemuFailed("cannot set up guest memory".to_owned()), spoke());
        assert!(said.contains("cannot set up guest memory"), "{said}");
    }
}
