//! One guest: booted, watched and, when it hangs, ended.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use super::kernels::Kernel;

/// Marks the guest's own lines on the console.
const MARKER: &str = "lockscope-vm: ";
/// Longest time from power-on to the first case; a loaded machine without KVM is slow.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
/// What a kernel prints when it is no longer to be trusted.
/// With the hypervisor bit, kernels use test-and-set spinlocks whose contention nothing can see.
const FEATURES: &str = "-hypervisor";
/// What Xen does not get along with when it is emulated.
const FEATURES_FOR_XEN: &str = "-pks,-pku,-la57,-smap,-smep,-fsgsbase";
const KERNEL_ARGUMENTS: &str = "loglevel=5 oops=panic panic=-1 rdinit=/init";
const CRASHES: [&str; 6] = [
    "Kernel panic",
    "Oops",
    "BUG: ",
    "general protection fault",
    "soft lockup",
    "lockscope-vm: boot failed",
];

/// How QEMU runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Accelerator {
    /// Emulated, one CPU at a time; works everywhere.
    Tcg,
    /// The host's virtualization.
    Kvm,
}

impl Accelerator {
    /// With several emulation threads, guests crash when probes come and go in hot functions.
    fn arguments(self) -> [&'static str; 2] {
        match self {
            Self::Tcg => ["-accel", "tcg,thread=single"],
            Self::Kvm => ["-accel", "kvm"],
        }
    }

    fn cpu(self) -> &'static str {
        match self {
            Self::Tcg => "max",
            Self::Kvm => "host",
        }
    }
}

pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) initramfs: &'a Path,
    /// A directory of the host that the guest reads and writes.
    pub(super) share: &'a Path,
    /// A raw disk image for the guest to use up.
    pub(super) scratch: &'a Path,
    pub(super) cpus: u32,
    pub(super) memory_mib: u32,
    pub(super) accelerator: Accelerator,
}

impl Guest<'_> {
    fn cpu_features(&self) -> &'static str {
        match self.kernel.hypervisor {
            None => FEATURES,
            Some(_) => FEATURES_FOR_XEN,
        }
    }
}

/// What the guest says about itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Begin(&'a str),
    End(&'a str),
    Done,
    /// Anything else on the console.
    Line(&'a str),
}

impl<'a> Event<'a> {
    fn parse(line: &'a str) -> Self {
        let message = line.find(MARKER).map(|at| line[at + MARKER.len()..].trim());
        match message.map(|message| message.split_once(' ').unwrap_or((message, ""))) {
            Some(("begin", name)) => Self::Begin(name),
            Some(("end", name)) => Self::End(name),
            Some(("done", _)) => Self::Done,
            _ => Self::Line(line),
        }
    }
}

/// Why the guest is no longer there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    PoweredOff,
    Crashed(String),
    /// Nothing new for this long.
    Hung(Duration),
}

/// Boots the guest and follows its console to the end. `on_event` answers an event with the
/// longest time that may pass until the next one; `None` leaves the limit as it is.
pub(super) fn boot(
    guest: &Guest<'_>,
    console_log: &Path,
    mut on_event: impl FnMut(&Event<'_>) -> Option<Duration>,
) -> Result<Ending> {
    let mut log = File::create(console_log)
        .with_context(|| format!("cannot create {}", console_log.display()))?;
    let mut child = spawn(guest)?;
    let stdout = child.stdout.take().context("QEMU has no console")?;
    let lines = read_lines(stdout);

    let mut limit = BOOT_LIMIT;
    let mut since = Instant::now();
    let mut crash = None;
    let ending = loop {
        match lines.recv_timeout(limit.saturating_sub(since.elapsed())) {
            Ok(line) => {
                writeln!(log, "{line}").context("cannot write the console log")?;
                if crash.is_none() && CRASHES.iter().any(|sign| line.contains(sign)) {
                    crash = Some(line.clone());
                }
                if let Some(new_limit) = on_event(&Event::parse(&line)) {
                    (limit, since) = (new_limit, Instant::now());
                }
            }
            Err(RecvTimeoutError::Disconnected) => break Ending::PoweredOff,
            Err(RecvTimeoutError::Timeout) => break Ending::Hung(limit),
        }
    };
    end(&mut child)?;
    Ok(crash.map_or(ending, Ending::Crashed))
}

fn spawn(guest: &Guest<'_>) -> Result<Child> {
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(guest.accelerator.arguments())
        .arg("-cpu")
        .arg(format!("{},{}", guest.accelerator.cpu(), guest.cpu_features()))
        .args(["-smp", &guest.cpus.to_string(), "-m", &format!("{}M", guest.memory_mib)])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-serial",
            "stdio",
        ]);
    boot_from(&mut command, guest);
    share(&mut command, "host", Path::new("/"), true);
    share(&mut command, "modules", &guest.kernel.modules, true);
    share(&mut command, "share", guest.share, false);
    let disk = format!("file={},format=raw,if=virtio,cache=unsafe", guest.scratch.display());
    command.args(["-drive", &disk]).stdin(Stdio::null()).stdout(Stdio::piped());
    die_with_parent(&mut command);
    command.spawn().context("cannot start qemu-system-x86_64; `cargo xtask setup` installs it")
}

/// A crash ends the guest at once instead of leaving half a kernel to be waited for.
fn boot_from(command: &mut Command, guest: &Guest<'_>) {
    let (image, initramfs) = (guest.kernel.image.display(), guest.initramfs.display());
    match &guest.kernel.hypervisor {
        None => command
            .arg("-kernel")
            .arg(&guest.kernel.image)
            .arg("-initrd")
            .arg(guest.initramfs)
            .arg("-append")
            .arg(format!("console=ttyS0 {KERNEL_ARGUMENTS}")),
        // The kernel and its initramfs are the hypervisor's modules, in this order.
        Some(hypervisor) => command
            .arg("-kernel")
            .arg(hypervisor)
            .arg("-append")
            .arg("console=com1 com1=115200 noreboot=1 dom0_mem=1536M dom0=pv")
            .arg("-initrd")
            .arg(format!("{image} console=hvc0 {KERNEL_ARGUMENTS},{initramfs}")),
    };
}

fn share(command: &mut Command, tag: &str, path: &Path, readonly: bool) {
    let mode = if readonly { ",readonly=on" } else { "" };
    // Commas in a path would end the option's value: QEMU reads a doubled comma as one.
    let path = path.display().to_string().replace(',', ",,");
    command
        .args([
            "-fsdev",
            &format!("local,id={tag},path={path},security_model=none,multidevs=remap{mode}"),
        ])
        .args(["-device", &format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}")]);
}

/// A killed xtask must not leave a guest behind.
fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    let set_signal = || {
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
            .map_err(std::io::Error::from)
    };
    // SAFETY: between fork and exec the closure only makes one system call.
    unsafe { command.pre_exec(set_signal) };
}

fn read_lines(console: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(console);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    receiver
}

fn end(child: &mut Child) -> Result<()> {
    if child.try_wait().context("cannot wait for QEMU")?.is_none() {
        // Its console is closed or it hangs; either way nothing of value is lost.
        child.kill().context("cannot end QEMU")?;
        child.wait().context("cannot wait for QEMU")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn markers_are_found_behind_kernel_messages() {
        assert_eq!(Event::parse("lockscope-vm: begin osq"), Event::Begin("osq"));
        assert_eq!(Event::parse("[ 1.2] late lockscope-vm: end osq "), Event::End("osq"));
        assert_eq!(Event::parse("lockscope-vm: done"), Event::Done);
        assert_eq!(Event::parse("begin osq"), Event::Line("begin osq"));
    }
}
