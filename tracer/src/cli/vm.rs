//! `lockscope vm`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::{at_least_one, positive_seconds};

/// A command of lockscope's on another kernel: QEMU boots it with this machine's root, read-only under
/// a layer in memory. What the command prints and saves comes back, its exit code too; everything
/// else that the guest writes is gone with it.
#[derive(Debug, Args)]
pub struct VmArgs {
    /// The kernel: a bzImage, as `make bzImage` leaves it in arch/x86/boot.
    #[arg(long, value_name = "BZIMAGE")]
    pub kernel: PathBuf,
    /// Its modules: a lib/modules/RELEASE directory, or what INSTALL_MOD_PATH named. A kernel with
    /// CONFIG_VIRTIO_PCI, CONFIG_NET_9P_VIRTIO, CONFIG_9P_FS and CONFIG_OVERLAY_FS built in needs none.
    #[arg(long, value_name = "DIR")]
    pub modules: Option<PathBuf>,
    /// More arguments of the kernel's command line, as in 'mitigations=off preempt=full'.
    #[arg(long, value_name = "ARGUMENTS", default_value = "", hide_default_value = true)]
    pub append: String,
    /// CPUs of the guest.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    pub smp: u32,
    /// Memory of the guest in MiB; what its programs write is in it, too.
    #[arg(long, value_name = "MIB", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(256..))]
    pub memory: u32,
    /// How its instructions run: by the processor (kvm), or emulated (tcg), ten times as slow and
    /// more; auto takes kvm where there is one.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub accel: Accel,
    /// Put the throw-away server and other temporary files on a disk of this size with a file system,
    /// not in memory: the guest's writes then pass the block layer. The kernel needs
    /// CONFIG_VIRTIO_BLK and the file system's option.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..))]
    pub disk: Option<u32>,
    /// Stripe so many disks of --disk MIB each by the device mapper, as LVM does, with chunks of 64
    /// KiB. The kernel needs CONFIG_BLK_DEV_DM.
    #[arg(
        long,
        value_name = "DISKS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=16),
        requires = "disk"
    )]
    pub stripe: u32,
    /// The file system on the disk.
    #[arg(long, value_name = "TYPE", default_value = "ext4", requires = "disk")]
    pub fs: FileSystem,
    /// Seconds that the command may take.
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = positive_seconds)]
    pub timeout: Duration,
    /// Write what the guest says on its console to this file.
    #[arg(long, value_name = "FILE")]
    pub console: Option<PathBuf>,
    /// The command with its options, as it would stand behind `lockscope`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A file system for the guest's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileSystem {
    /// By e2fsprogs.
    Ext4,
    /// By xfsprogs; at least 300 MiB.
    Xfs,
}

/// How a guest's instructions are to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// By the processor where that is possible, else emulated.
    Auto,
    /// By the processor.
    Kvm,
    /// Emulated.
    Tcg,
}
