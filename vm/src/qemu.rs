//! QEMU's process: its command line, what it prints, its end.

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use super::program::need_program;
use super::{Accelerator, Kernel, VmError};

const PROGRAM: &str = "qemu-system-x86_64";
/// With the hypervisor bit, kernels use test-and-set spinlocks whose contention nothing can see.
const FEATURES: &str = "-hypervisor";
/// What Xen does not get along with when it is emulated.
const FEATURES_FOR_XEN: &str = "-pks,-pku,-la57,-smap,-smep,-fsgsbase";
/// A crash ends the guest at once instead of leaving half a kernel to be waited for. The kernel's check
/// of its timer, which a hypervisor's bit would turn off, panics where the host is too busy to tick.
const KERNEL_ARGUMENTS: &str = "loglevel=5 oops=panic panic=-1 no_timer_check rdinit=/init";
/// How long QEMU may take to end once its console is closed.
const END_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// The machine that a guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Its CPUs.
    pub cpus: u32,
    /// Its memory, in MiB.
    pub memory_mib: u32,
    /// How its instructions run.
    pub accelerator: Accelerator,
}

/// A guest to boot.
#[derive(Debug)]
pub struct Guest<'a> {
    /// What to boot.
    pub kernel: &'a Kernel,
    /// What [`build_initramfs`](super::build_initramfs) made for this kernel.
    pub initramfs: &'a Path,
    /// A directory of the host that the guest reads and writes; `guest.sh` in it is what it runs.
    pub share: &'a Path,
    /// Raw images that the guest may use up: its `/dev/vda`, `/dev/vdb` and so on.
    pub disks: &'a [PathBuf],
    /// On what.
    pub machine: Machine,
}

/// A line of the console, or of QEMU's own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Console(String),
    Qemu(String),
}

/// QEMU under way; killed when dropped.
pub(crate) struct Qemu {
    child: Child,
}

impl Qemu {
    /// Starts it. The lines end when its console and its own output are closed.
    pub(crate) fn start(guest: &Guest<'_>) -> Result<(Self, Receiver<Line>), VmError> {
        need_program(PROGRAM, "qemu-system-x86")?;
        let mut command = command(guest);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A terminal's Ctrl-C is for us, who end the guest in order.
        command.process_group(0);
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(VmError::io(format!("start {PROGRAM}")))?;
        let (sender, lines) = mpsc::channel();
        if let Some(console) = child.stdout.take() {
            read_lines(console, Line::Console, sender.clone());
        }
        if let Some(words) = child.stderr.take() {
            read_lines(words, Line::Qemu, sender);
        }
        Ok((Self { child }, lines))
    }

    /// How it ended by itself; `None` when it does not.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, VmError> {
        let began = Instant::now();
        loop {
            let status = self.child.try_wait().map_err(VmError::io("wait for QEMU"))?;
            if status.is_some() || began.elapsed() > END_LIMIT {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(guest: &Guest<'_>) -> Command {
    let Machine { cpus, memory_mib, accelerator } = guest.machine;
    let features = match guest.kernel.hypervisor {
        None => FEATURES,
        Some(_) => FEATURES_FOR_XEN,
    };
    let mut command = Command::new(PROGRAM);
    command
        .args(accelerator.arguments())
        .args(["-cpu", &format!("{},{features}", accelerator.cpu())])
        .args(["-smp", &cpus.to_string(), "-m", &format!("{memory_mib}M")])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-serial", "stdio"]);
    boot_from(&mut command, guest);
    share(&mut command, "host", Path::new("/"), true);
    if let Some(modules) = &guest.kernel.modules {
        share(&mut command, "modules", modules, true);
    }
    share(&mut command, "share", guest.share, false);
    for disk in guest.disks {
        let disk = option_value(disk);
        command.args(["-drive", &format!("file={disk},format=raw,if=virtio,cache=unsafe")]);
    }
    command
}

fn boot_from(command: &mut Command, guest: &Guest<'_>) {
    let (image, initramfs) = (&guest.kernel.image, guest.initramfs);
    let arguments = format!("{KERNEL_ARGUMENTS} {}", guest.kernel.arguments);
    let arguments = arguments.trim_end();
    match &guest.kernel.hypervisor {
        None => command
            .arg("-kernel")
            .arg(image)
            .arg("-initrd")
            .arg(initramfs)
            .arg("-append")
            .arg(format!("console=ttyS0 {arguments}")),
        // The kernel and its initramfs are the hypervisor's modules, in this order.
        Some(hypervisor) => {
            let (image, initramfs) = (image.display(), initramfs.display());
            command
                .arg("-kernel")
                .arg(hypervisor)
                .arg("-append")
                .arg("console=com1 com1=115200 noreboot=1 dom0_mem=1536M dom0=pv")
                .arg("-initrd")
                .arg(format!("{image} console=hvc0 {arguments},{initramfs}"))
        }
    };
}

fn share(command: &mut Command, tag: &str, path: &Path, readonly: bool) {
    let mode = if readonly { ",readonly=on" } else { "" };
    let path = option_value(path);
    let device = format!("local,id={tag},path={path},security_model=none,multidevs=remap{mode}");
    command
        .args(["-fsdev", &device])
        .args(["-device", &format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}")]);
}

/// A comma would end the option's value: QEMU reads a doubled comma as one.
fn option_value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Whatever ends this process must not leave a guest behind.
fn die_with_parent(command: &mut Command) {
    let set_signal = || set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from);
    // SAFETY: between fork and exec the closure only makes one system call.
    unsafe { command.pre_exec(set_signal) };
}

fn read_lines(from: impl Read + Send + 'static, line: fn(String) -> Line, to: Sender<Line>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(from);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            if to.send(line(text)).is_err() {
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(kernel: &Kernel, disks: &[PathBuf]) -> String {
        let guest = Guest {
            kernel,
            initramfs: Path::new("/t/initramfs.cpio"),
            share: Path::new("/t/a,b"),
            disks,
            machine: Machine { cpus: 3, memory_mib: 512, accelerator: Accelerator::Tcg },
        };
        let command = command(&guest);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_guest_is_what_was_asked_for_and_its_root_is_read_only() {
        let mut kernel = Kernel {
            image: PathBuf::from("/k/bzImage"),
            release: "6.1.0".to_owned(),
            modules: None,
            hypervisor: None,
            arguments: "preempt=full".to_owned(),
        };
        let plain = arguments(&kernel, &[]);
        assert!(plain.starts_with("-accel tcg,thread=single -cpu max,-hypervisor -smp 3 -m 512M"));
        assert!(plain.contains("-kernel /k/bzImage -initrd /t/initramfs.cpio"), "{plain}");
        assert!(plain.contains(" rdinit=/init preempt=full -fsdev"), "{plain}");
        assert!(plain.contains("id=host,path=/,security_model=none,multidevs=remap,readonly=on"));
        assert!(
            plain.contains("id=share,path=/t/a,,b,security_model=none,multidevs=remap -device")
        );
        assert!(!plain.contains("id=modules") && !plain.contains("-drive"), "{plain}");

        kernel.modules = Some(PathBuf::from("/k/lib/modules/6.1.0"));
        let whole = arguments(&kernel, &[PathBuf::from("/t/disk,1"), PathBuf::from("/t/b")]);
        assert!(whole.contains("id=modules,path=/k/lib/modules/6.1.0"), "{whole}");
        assert!(whole.contains("-drive file=/t/disk,,1,format=raw"), "{whole}");
        assert!(whole.contains("-drive file=/t/b,format=raw"), "{whole}");
    }
}
