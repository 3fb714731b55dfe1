//! What a guest says on its console.

/// Marks the lines of the guest's own scripts.
const MARKER: &str = "lockscope-vm: ";
/// What a kernel prints when it is no longer to be trusted.
const CRASHES: [&str; 5] =
    ["Kernel panic", "Oops", "BUG: ", "general protection fault", "soft lockup"];

/// What a guest says about itself.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It begins this piece of work.
    Begin(&'a str),
    /// It has ended that.
    End(&'a str),
    /// It has ended all, and powers off.
    Done,
    /// It still runs.
    Alive,
    /// The kernel lacks these options, between spaces.
    Missing(&'a str),
    /// It cannot go on, and powers off.
    Failed(&'a str),
    /// Anything else on the console.
    Line(&'a str),
    /// What QEMU itself says.
    Qemu(&'a str),
}

impl<'a> Event<'a> {
    pub(crate) fn parse(line: &'a str) -> Self {
        let message = line.find(MARKER).map(|at| line[at + MARKER.len()..].trim());
        let Some(message) = message else { return Self::Line(line) };
        match message.split_once(' ').unwrap_or((message, "")) {
            ("begin", name) => Self::Begin(name),
            ("end", name) => Self::End(name),
            ("done", _) => Self::Done,
            ("alive", _) => Self::Alive,
            ("missing", options) => Self::Missing(options),
            ("failed", what) => Self::Failed(what),
            _ => Self::Line(line),
        }
    }

    /// Whether what comes after this is worth nothing.
    pub(crate) fn is_crash(&self) -> bool {
        match self {
            Self::Failed(_) => true,
            Self::Line(line) => CRASHES.iter().any(|sign| line.contains(sign)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_behind_kernel_messages() {
        assert_eq!(Event::parse("lockscope-vm: begin osq"), Event::Begin("osq"));
        assert_eq!(Event::parse("[ 1.2] late lockscope-vm: end osq "), Event::End("osq"));
        assert_eq!(Event::parse("lockscope-vm: done"), Event::Done);
        assert_eq!(Event::parse("lockscope-vm: alive"), Event::Alive);
        assert_eq!(Event::parse("begin osq"), Event::Line("begin osq"));
    }

    #[test]
    fn what_the_kernel_lacks_and_why_it_ends_are_told() {
        let missing = Event::parse("lockscope-vm: missing CONFIG_9P_FS CONFIG_OVERLAY_FS");
        assert_eq!(missing, Event::Missing("CONFIG_9P_FS CONFIG_OVERLAY_FS"));
        let failed = Event::parse("lockscope-vm: failed to mount the host's root");
        assert_eq!(failed, Event::Failed("to mount the host's root"));
    }

    #[test]
    fn a_crash_is_told_by_the_kernel_s_words() {
        let is_crash = |line| Event::parse(line).is_crash();
        assert!(is_crash("[    1.2] Kernel panic - not syncing: VFS: Unable to mount root fs"));
        assert!(is_crash("[    9.9] watchdog: BUG: soft lockup - CPU#1 stuck for 22s!"));
        assert!(is_crash("lockscope-vm: failed to load 9p.ko"));
        assert!(!is_crash("[    1.2] virtio_blk virtio3: [vda] 2097152 512-byte blocks"));
        assert!(!is_crash("lockscope-vm: begin Oops"));
    }
}
