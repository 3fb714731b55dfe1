//! Debian's and Ubuntu's package manager.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::{capture, display, is_root, run};

/// Whether this distribution installs packages with apt.
pub(super) fn is_available() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    is_debian_like(&release) && crate::shell::find_program("apt-get").is_some()
}

/// The distribution's own name for messages.
pub(super) fn distribution() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = field(&release, "PRETTY_NAME").unwrap_or("an unknown distribution");
    name.to_owned()
}

fn is_debian_like(os_release: &str) -> bool {
    ["ID", "ID_LIKE"]
        .iter()
        .filter_map(|key| field(os_release, key))
        .flat_map(str::split_whitespace)
        .any(|id| id == "debian" || id == "ubuntu")
}

fn field<'a>(os_release: &'a str, key: &str) -> Option<&'a str> {
    os_release.lines().find_map(|line| {
        let value = line.strip_prefix(key)?.strip_prefix('=')?;
        Some(value.trim_matches('"'))
    })
}

/// The version apt would install, `None` when no configured source has the package.
pub(super) fn candidate(package: &str) -> Option<String> {
    let policy = capture(Command::new("apt-cache").args(["policy", package])).ok()?;
    parse_candidate(&policy)
}

fn parse_candidate(policy: &str) -> Option<String> {
    let version = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate:"))?.trim();
    (version != "(none)").then(|| version.to_owned())
}

/// Packages that `package` depends on, by name.
pub(super) fn dependencies(package: &str) -> Vec<String> {
    let text = capture(Command::new("apt-cache").args(["depends", package])).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .map(str::to_owned)
        .collect()
}

/// Refreshes the package lists; needed on a machine whose lists are empty or old.
pub(super) fn update() -> Result<()> {
    need_root(&["apt-get", "update"])?;
    run(apt_get().args(["-q", "update"]))
}

/// Installs those of the packages that are not there yet.
pub(super) fn install_missing(packages: &[String]) -> Result<()> {
    if !is_available() {
        bail!("{} has no apt; install there what provides: {}", distribution(), packages.join(" "));
    }
    let missing: Vec<String> =
        packages.iter().filter(|name| !is_installed(name)).cloned().collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

fn is_installed(package: &str) -> bool {
    capture(Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", package]))
        .is_ok_and(|status| status == "installed")
}

/// Installs packages without questions and without recommended extras.
///
/// Old lists name packages the archive has replaced, so one failure refreshes them and retries.
fn install(packages: &[String]) -> Result<()> {
    let words = ["install", "-q", "-y", "--no-install-recommends"];
    let shown: Vec<&str> = std::iter::once("apt-get")
        .chain(words)
        .chain(packages.iter().map(String::as_str))
        .collect();
    need_root(&shown)?;
    let attempt = || run(apt_get().args(words).args(packages));
    attempt().or_else(|first| {
        eprintln!("setup: {first:#}; refreshing the package lists and trying once more");
        update()?;
        attempt()
    })
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn need_root(words: &[&str]) -> Result<()> {
    if is_root() {
        return Ok(());
    }
    let mut command = Command::new("sudo");
    command.args(words);
    bail!(
        "installing packages needs root. Run this, then repeat the command:\n  {}",
        display(&command)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_its_relatives_are_recognised() {
        assert!(is_debian_like("NAME=x\nID=debian\n"));
        assert!(is_debian_like("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian_like("ID=fedora\n"));
        assert!(!is_debian_like("VARIANT_ID=debian\n"));
    }

    #[test]
    fn a_package_without_a_candidate_is_absent() {
        assert_eq!(parse_candidate("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(parse_candidate(""), None);
        let policy = "x:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n";
        assert_eq!(parse_candidate(policy).as_deref(), Some("1.96.0+dfsg1-1~deb12u2"));
    }
}
