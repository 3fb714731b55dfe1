//! How a guest's instructions run: by the processor itself, or emulated.

use std::fs::{self, OpenOptions};
use std::io;

use clap::ValueEnum;

const DEVICE: &str = "/dev/kvm";

/// How QEMU runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Accelerator {
    /// Emulated, one CPU at a time; works everywhere.
    Tcg,
    /// The host's virtualization.
    Kvm,
}

impl Accelerator {
    /// With several emulation threads, guests crash when probes come and go in hot functions.
    pub(crate) fn arguments(self) -> [&'static str; 2] {
        match self {
            Self::Tcg => ["-accel", "tcg,thread=single"],
            Self::Kvm => ["-accel", "kvm"],
        }
    }

    pub(crate) fn cpu(self) -> &'static str {
        match self {
            Self::Tcg => "max",
            Self::Kvm => "host",
        }
    }
}

/// Why KVM cannot run any kernel here.
#[derive(Debug, thiserror::Error)]
pub enum NoKvm {
    /// Whatever `/dev/kvm` then is, it runs only guests made for it.
    #[error("the processor offers no virtualization (neither vmx nor svm in /proc/cpuinfo)")]
    Processor,
    /// The device is missing or not this user's.
    #[error("cannot open {DEVICE}: {0}")]
    Device(#[source] io::Error),
}

/// Whether KVM can run any kernel here.
///
/// # Errors
/// Why it cannot.
pub fn find_kvm() -> Result<(), NoKvm> {
    let processor = fs::read_to_string("/proc/cpuinfo").map_err(NoKvm::Device)?;
    if !offers_virtualization(&processor) {
        return Err(NoKvm::Processor);
    }
    OpenOptions::new().read(true).write(true).open(DEVICE).map(drop).map_err(NoKvm::Device)
}

fn offers_virtualization(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_whitespace().any(|f| f == "vmx" || f == "svm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtualization_is_a_flag_of_the_processor() {
        assert!(offers_virtualization("processor\t: 0\nflags\t\t: fpu vmx sse\n"));
        assert!(offers_virtualization("flags\t\t: fpu svm\n"));
        assert!(!offers_virtualization("flags\t\t: fpu sse hypervisor\nvmx flags\t: vnmi\n"));
        assert!(!offers_virtualization(""));
    }
}
