//! Guests that fail: each is told by what is wrong, ends with 125, and leaves nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lockscope_tests::command::{Running, finish, lockscope, wait_until};
use lockscope_tests::guests::kernels;
use nix::sys::signal::Signal;

#[test]
fn a_file_with_no_more_than_a_kernel_s_header_is_not_judged() {
    let place = tempfile::tempdir().expect("a directory");
    let mut bytes = vec![0; 0x400];
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
    bytes[0x300..0x30e].copy_from_slice(b"6.99.0-hollow ");
    let image = place.path().join("hollow");
    fs::write(&image, bytes).expect("written");
    let image = image.to_str().expect("plain");
    let mut vm = lockscope(&["vm", "--accel", "tcg", "--kernel", image, "--", "doctor"]);
    let done = finish(&mut vm).expect("it ends");
    assert_eq!(done.code, Some(125), "{}", done.stderr);
    assert!(
        done.stderr.contains("6.99.0-hollow") && done.stderr.contains("QEMU ended"),
        "{done:?}"
    );
}

#[test]
fn a_kernel_without_its_modules_is_told_what_it_lacks() {
    let Some([kernel, _]) = kernels("a_kernel_without_its_modules_is_told_what_it_lacks") else {
        return;
    };
    let image = kernel.image.to_str().expect("plain");
    let mut vm = lockscope(&["vm", "--accel", "tcg", "--kernel", image, "--", "doctor"]);
    let done = finish(&mut vm).expect("it ends");
    assert_eq!(done.code, Some(125), "{}", done.stderr);
    for words in ["CONFIG_VIRTIO_PCI", "CONFIG_NET_9P_VIRTIO", "CONFIG_9P_FS", "CONFIG_OVERLAY_FS"]
    {
        assert!(done.stderr.contains(words), "no {words} in: {}", done.stderr);
    }
    assert!(!done.stderr.contains("CONFIG_DEVTMPFS"), "it has that: {}", done.stderr);
}

#[test]
fn a_crash_while_the_command_runs_is_told_with_the_console_s_end() {
    let case = "a_crash_while_the_command_runs_is_told_with_the_console_s_end";
    let Some([kernel, _]) = kernels(case) else { return };
    let crash = "echo under way; sleep 1; echo c >/proc/sysrq-trigger";
    let command = ["attach", "--all", "--depth", "locks", "--", "sh", "-c", crash];
    let done = finish(&mut kernel.run(&[], &command)).expect("it ends");
    assert_eq!(done.code, Some(125), "{}", done.stderr);
    assert!(done.stdout.contains("under way"), "what came before the crash: {done:?}");
    assert!(done.stderr.contains("crashed while the command ran"), "{}", done.stderr);
    assert!(done.stderr.contains("sysrq"), "the console's end: {}", done.stderr);
}

#[test]
fn an_interrupted_guest_leaves_nothing() {
    let Some([kernel, _]) = kernels("an_interrupted_guest_leaves_nothing") else { return };
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).display().to_string();
    fs::create_dir(path("tmp")).expect("a directory");
    let (console, saved) = (path("console"), path("run.lockscope"));
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut vm = kernel.run(&["--console", &console], &["run", "-S", "-o", &saved]);
        let running = Running::start(vm.env("TMPDIR", path("tmp"))).expect("it starts");
        let booting = || fs::read(&console).is_ok_and(|text| !text.is_empty());
        wait_until(Duration::from_secs(60), booting).expect("the guest boots");
        let guests = children(running.pid());
        assert_eq!(guests.len(), 1, "{guests:?}");
        running.signal(signal).expect("it is there");
        let done = running.wait().expect("it ends");
        assert_eq!(done.code, Some(code), "{}", done.stderr);
        assert!(done.stderr.contains("interrupted by"), "{}", done.stderr);
        assert!(!Path::new(&format!("/proc/{}", guests[0])).exists(), "QEMU is gone");
        assert_eq!(fs::read_dir(path("tmp")).expect("a directory").count(), 0);
        assert!(!Path::new(&saved).exists());
        fs::remove_file(&console).expect("the console was kept");
    }
}

/// The pids of a process's children.
fn children(pid: u32) -> Vec<String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let list = fs::read_to_string(path).expect("the process is there");
    list.split_whitespace().map(str::to_owned).collect()
}
