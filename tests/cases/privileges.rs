//! Without the right to trace a run says so, with the remedy, before it makes anything; without
//! tracing it needs no rights at all.

use lockscope_tests::command::{Finished, finish, lockscope, skip};
use lockscope_tests::traced::Run;
use nix::unistd::geteuid;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];
const NO_CAPABILITIES: [&str; 3] =
    ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"];

/// A place from which anybody can run `lockscope`, and in which anybody can make a server.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new(case: &str) -> Option<Self> {
        if !geteuid().is_root() {
            skip(case, "only root can give rights away");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o1777)).expect("open");
        let place = Self { dir };
        std::fs::copy(lockscope(&[]).get_program(), place.program()).expect("copied");
        Some(place)
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("lockscope")
    }

    fn lockscope(&self, rights: &[&str], words: &[&str]) -> Finished {
        let mut command = Command::new("setpriv");
        command.args(rights).arg(self.program()).args(words).current_dir("/");
        let done = finish(&mut command).expect("setpriv of util-linux");
        assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
        done
    }

    /// What runs left in the directory.
    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path()).expect("listed").flatten();
        entries.map(|entry| entry.path()).filter(|path| *path != self.program()).collect()
    }
}

#[test]
fn a_run_is_refused_with_the_remedy() {
    let Some(place) = Place::new("a_run_is_refused_with_the_remedy") else { return };
    let dir = place.dir.path().to_str().expect("a plain path").to_owned();
    for rights in [NOBODY, NO_CAPABILITIES] {
        let done = place.lockscope(&rights, &["run", "-T", "1", "--data-dir", &dir]);
        assert_eq!(done.code, Some(2), "{rights:?}: {}", done.stderr);
        for text in ["cannot trace", "sudo", "--no-trace", "lockscope doctor"] {
            assert!(done.stderr.contains(text), "{rights:?}: no `{text}` in: {}", done.stderr);
        }
        assert_eq!(done.stdout, "");
        assert!(place.left().is_empty(), "{:?}", place.left());
    }
}

#[test]
fn doctor_says_what_is_missing() {
    let Some(place) = Place::new("doctor_says_what_is_missing") else { return };
    for rights in [NOBODY, NO_CAPABILITIES] {
        let done = place.lockscope(&rights, &["doctor"]);
        assert_eq!(done.code, Some(2), "{rights:?}: {}", done.stderr);
        for text in ["no capability for tracing", "CAP_BPF", "sudo", "Nothing can be traced"] {
            assert!(done.stdout.contains(text), "{rights:?}: no `{text}` in:\n{}", done.stdout);
        }
        let json = place.lockscope(&rights, &["doctor", "--json"]);
        assert_eq!(json.code, Some(2), "{rights:?}: {}", json.stderr);
        assert_eq!(Run::of(&json).expect("JSON").0["can_trace"], false);
    }
}

#[test]
fn measuring_without_tracing_needs_none() {
    let Some(place) = Place::new("measuring_without_tracing_needs_none") else { return };
    let dir = place.dir.path().to_str().expect("a plain path").to_owned();
    let words =
        ["run", "--no-trace", "-S", "-T", "1", "--warmup", "0", "--json", "--data-dir", &dir];
    let done = place.lockscope(&NOBODY, &words);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = Run::of(&done).expect("JSON");
    assert!(run.count("/throughput/transactions_count") > 0, "{}", run.0["throughput"]);
    assert!(run.warnings().contains(&"not-traced"), "{:?}", run.warnings());
    assert!(place.left().is_empty(), "{:?}", place.left());
}

/// Root without its capabilities cannot start a server as somebody else.
#[test]
fn a_root_that_may_not_give_files_away_is_told() {
    let Some(place) = Place::new("a_root_that_may_not_give_files_away_is_told") else { return };
    let dir = place.dir.path().to_str().expect("a plain path").to_owned();
    let done =
        place.lockscope(&NO_CAPABILITIES, &["run", "--no-trace", "-T", "1", "--data-dir", &dir]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    for text in ["refuses to run as root", "--dsn"] {
        assert!(done.stderr.contains(text), "no `{text}` in: {}", done.stderr);
    }
    assert!(place.left().is_empty(), "{:?}", place.left());
}
