//! Debian's package archive, read through a private apt configuration.
//!
//! Kernels of other releases are fetched and unpacked, never installed: the machine's own package
//! lists and status are not touched.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result};

use crate::shell::{capture, run};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const MIRROR_VARIABLE: &str = "LOCKSCOPE_DEBIAN_MIRROR";

/// One release of Debian, as apt sees it with its state kept under `dir`.
pub(super) struct Archive {
    dir: PathBuf,
}

impl Archive {
    /// Points apt at one suite and fetches its package list.
    pub(super) fn open(suite: &str, dir: &Path) -> Result<Self> {
        let mirror = find_mirror()?;
        for sub in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(sub))
                .with_context(|| format!("cannot create {}", dir.display()))?;
        }
        let source = format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        for (name, text) in [("sources.list", source), ("apt.conf", private_configuration(dir))] {
            fs::write(dir.join(name), text)
                .with_context(|| format!("cannot write into {}", dir.display()))?;
        }
        let archive = Self { dir: dir.to_path_buf() };
        run(archive.apt("apt-get").args(["-q", "update"]))?;
        Ok(archive)
    }

    /// The packages that `package` depends on, by name.
    pub(super) fn dependencies(&self, package: &str) -> Result<Vec<String>> {
        let text = capture(self.apt("apt-cache").args(["depends", "--important", package]))?;
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.map(str::to_owned).collect())
    }

    /// Downloads packages and unpacks them under `root`.
    pub(super) fn unpack(&self, packages: &[String], root: &Path) -> Result<()> {
        let downloads = self.dir.join("downloads");
        fs::create_dir_all(&downloads).context("cannot create the download directory")?;
        run(self.apt("apt-get").current_dir(&downloads).args(["-q", "download"]).args(packages))?;
        for entry in fs::read_dir(&downloads).context("cannot list the downloads")? {
            run(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(root))?;
        }
        fs::remove_dir_all(&downloads).context("cannot remove the downloads")
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.dir.join("apt.conf"));
        command
    }
}

/// The machine's own configuration still applies where this says nothing: proxies, for example.
fn private_configuration(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        r#"Dir::Etc::sourcelist "{dir}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "{dir}/lists";
Dir::State::status "/dev/null";
Dir::Cache "{dir}/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
APT::Architecture "amd64";
APT::Sandbox::User "root";
"#
    )
}

/// The mirror this machine itself uses, or the one it is told to use.
fn find_mirror() -> Result<String> {
    if let Ok(mirror) = env::var(MIRROR_VARIABLE) {
        return Ok(mirror);
    }
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(
        fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|e| e.path()),
    );
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .find_map(|text| debian_mirror(&text))
        .with_context(|| {
            format!(
                "no Debian archive in this machine's apt sources; set {MIRROR_VARIABLE} to a mirror's address \
                 and install the package debian-archive-keyring"
            )
        })
}

/// The first address in an apt source file, of either format, that ends like a Debian archive.
fn debian_mirror(sources: &str) -> Option<String> {
    sources
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"))
        .flat_map(str::split_whitespace)
        .map(|word| word.trim_end_matches('/'))
        .find(|word| word.contains("://") && word.ends_with("/debian"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::debian_mirror;

    #[test]
    fn the_mirror_is_read_from_both_source_formats() {
        let one_line = "# deb http://old.example/debian x main\ndeb [arch=amd64] http://a.example/debian/ bookworm main\n";
        assert_eq!(debian_mirror(one_line).as_deref(), Some("http://a.example/debian"));
        let deb822 = "Types: deb\nURIs: http://b.example/debian\nSuites: trixie\n";
        assert_eq!(debian_mirror(deb822).as_deref(), Some("http://b.example/debian"));
    }

    #[test]
    fn other_archives_are_not_taken_for_debian() {
        assert_eq!(debian_mirror("URIs: http://b.example/debian-security\n"), None);
        assert_eq!(debian_mirror("deb http://c.example/ubuntu noble main\n"), None);
    }
}
