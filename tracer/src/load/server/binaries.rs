//! Finding Postgres's programs on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Where Debian keeps each major version.
const DEBIAN_ROOT: &str = "/usr/lib/postgresql";

/// The programs of one Postgres installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) initdb: PathBuf,
    pub(super) postgres: PathBuf,
}

/// No installation found.
#[derive(Debug, thiserror::Error)]
#[error(
    "no Postgres server program found (looked for initdb and postgres in PATH, in \
     {DEBIAN_ROOT}/*/bin and where pg_config points); install it (Debian: apt-get install \
     postgresql), or name a running server with --dsn"
)]
pub struct NoBinaries;

impl Binaries {
    /// Looks in PATH, then for Debian's newest version, then where `pg_config` points.
    pub(super) fn find() -> Result<Self, NoBinaries> {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path)
            .find_map(|directory| Self::in_directory(&directory))
            .or_else(|| newest_version(Path::new(DEBIAN_ROOT)))
            .or_else(|| Self::in_directory(&pg_config_directory()?))
            .ok_or(NoBinaries)
    }

    fn in_directory(directory: &Path) -> Option<Self> {
        let initdb = directory.join("initdb");
        let postgres = directory.join("postgres");
        (initdb.is_file() && postgres.is_file()).then_some(Self { initdb, postgres })
    }
}

/// The installation under `root/N/bin` with the largest N.
fn newest_version(root: &Path) -> Option<Binaries> {
    let mut versions: Vec<(u32, Binaries)> = fs::read_dir(root)
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, Binaries::in_directory(&path.join("bin"))?))
        })
        .collect();
    versions.sort_by_key(|(version, _)| *version);
    versions.pop().map(|(_, binaries)| binaries)
}

fn pg_config_directory() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let directory = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(directory.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_version_wins() {
        let root = tempfile::tempdir().unwrap();
        for (version, programs) in [
            ("9", &["initdb", "postgres"][..]),
            ("15", &["initdb", "postgres"]),
            ("16", &["initdb"]),
        ] {
            let directory = root.path().join(version).join("bin");
            fs::create_dir_all(&directory).unwrap();
            for program in programs {
                fs::write(directory.join(program), "").unwrap();
            }
        }
        let found = newest_version(root.path()).unwrap();
        assert_eq!(found.initdb, root.path().join("15/bin/initdb"));
    }
}
