//! `lockscope vm` before anything boots: what is refused, and with which exit code.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions unwrap, too")]

mod common;

use std::fs;
use std::path::Path;

use common::{Finished, entries, finish, lockscope_itself};

fn vm(words: &[&str], environment: &[(&str, &str)]) -> Finished {
    let mut command = lockscope_itself();
    command.arg("vm").args(words).envs(environment.iter().copied());
    finish(command.spawn().unwrap())
}

/// A file with the boot header of an x86 kernel, and nothing else of one.
fn hollow_kernel(path: &Path) {
    let mut bytes = vec![0; 0x400];
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
    bytes[0x300..0x30e].copy_from_slice(b"6.99.0-hollow ");
    fs::write(path, bytes).unwrap();
}

fn ended(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    for word in words {
        assert!(finished.stderr.contains(word), "no `{word}` in: {}", finished.stderr);
    }
}

#[test]
fn wrong_usage_is_refused() {
    for (words, said) in [
        (&["--", "run", "-S"][..], &["--kernel"][..]),
        (&["--kernel", "k"], &["COMMAND"]),
        (&["--kernel", "k", "--", "runn"], &["behind -- is none of lockscope's", "runn"]),
        (&["--kernel", "k", "--", "-S"], &["behind -- is none of lockscope's", "-S"]),
        (
            &["--kernel", "k", "--", "run", "-c", "0"],
            &["`lockscope run` behind --", "--client <N>", "at least 1"],
        ),
        (
            &["--kernel", "k", "--", "run", "--clint", "2"],
            &["`lockscope run` behind --", "--clint"],
        ),
        (&["--kernel", "k", "--", "vm", "--kernel", "k", "--", "run"], &["in its turn"]),
        (&["--kernel", "k", "--", "run", "-S", "-o", "/nonexistent/run"], &["/nonexistent/run"]),
        (&["--kernel", "k", "--memory", "1", "--", "doctor"], &["256"]),
        (&["--kernel", "k", "--accel", "xen", "--", "doctor"], &["kvm", "tcg", "auto"]),
        (&["--kernel", "k", "--", "ab", "--b", "client=2", "--", "-S"], &["-o DIR"]),
    ] {
        ended(&vm(words, &[]), 2, said);
    }
}

#[test]
fn a_working_directory_that_the_guest_does_not_have_is_refused() {
    let mut command = lockscope_itself();
    command.args(["vm", "--kernel", "k", "--", "doctor"]).current_dir("/dev/shm");
    ended(&finish(command.spawn().unwrap()), 2, &["/dev/shm", "change to another"]);
}

#[test]
fn what_does_not_boot_is_nothing_to_judge() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    fs::write(path("text"), "no kernel").unwrap();
    fs::write(path("elf"), b"\x7fELF").unwrap();
    hollow_kernel(Path::new(&path("hollow")));
    fs::create_dir(path("tmp")).unwrap();
    let tmp = path("tmp");
    let doctor = |kernel: &str, options: &[&str], environment: &[(&str, &str)]| {
        let kernel = path(kernel);
        let words = [&["--kernel", &kernel], options, &["--", "doctor"]].concat();
        vm(&words, &[&[("TMPDIR", tmp.as_str())], environment].concat())
    };
    ended(&doctor("absent", &[], &[]), 125, &["no result", "absent", "No such file"]);
    ended(&doctor("text", &[], &[]), 125, &["text is no kernel", "arch/x86/boot"]);
    ended(&doctor("elf", &[], &[]), 125, &["ELF", "bzImage"]);
    let modules = ["--modules", place.path().to_str().unwrap()];
    ended(&doctor("hollow", &modules, &[]), 125, &["6.99.0-hollow", "modules_install"]);
    let no_tools = [("PATH", "/nonexistent")];
    ended(&doctor("hollow", &[], &no_tools), 125, &["is missing", "apt-get install"]);
    assert!(entries(Path::new(&tmp)).is_empty(), "nothing is left");
}
