//! Where the symbols of a stripped file are: a debug file of the same build, as distributions install
//! them, or one that debuginfod fetches if the user has set it up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ReadCache};

const DEBUG_DIRECTORY: &str = "/usr/lib/debug";

/// The debug file of a stripped file.
pub(super) fn debug_file<'data>(elf: &impl Object<'data>, path: &Path) -> Option<PathBuf> {
    let build_id = elf.build_id().ok().flatten()?;
    let link = elf.gnu_debuglink().ok().flatten();
    let link = link.map(|(name, _)| String::from_utf8_lossy(name).into_owned());
    let candidates = candidates(Path::new(DEBUG_DIRECTORY), build_id, link.as_deref(), path);
    let installed = candidates.into_iter().find(|candidate| is_of_build(candidate, build_id));
    installed.or_else(|| fetched(build_id))
}

/// By build id first, then by the name that the file tells.
fn candidates(root: &Path, build_id: &[u8], link: Option<&str>, path: &Path) -> Vec<PathBuf> {
    let hex = hex(build_id);
    let mut candidates = Vec::new();
    if let Some((directory, name)) = hex.split_at_checked(2) {
        candidates.push(root.join(format!(".build-id/{directory}/{name}.debug")));
    }
    if let (Some(link), Some(directory)) = (link, path.parent()) {
        let below = directory.strip_prefix("/").unwrap_or(directory);
        candidates.push(directory.join(link));
        candidates.push(directory.join(".debug").join(link));
        candidates.push(root.join(below).join(link));
    }
    candidates
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A debug file of another build would name the wrong functions.
fn is_of_build(path: &Path, build_id: &[u8]) -> bool {
    let Ok(file) = fs::File::open(path) else { return false };
    let cache = ReadCache::new(&file);
    let elf = object::File::parse(&cache);
    elf.is_ok_and(|elf| elf.build_id().ok().flatten() == Some(build_id))
}

/// From the servers that the user named in `DEBUGINFOD_URLS`, by the usual tool and into its cache.
fn fetched(build_id: &[u8]) -> Option<PathBuf> {
    if std::env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
        return None;
    }
    let tool = which::which("debuginfod-find")
        .map_err(|_| log::warn!("DEBUGINFOD_URLS is set, but there is no debuginfod-find"))
        .ok()?;
    let output = Command::new(tool).args(["debuginfo", &hex(build_id)]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    (output.status.success() && is_of_build(&path, build_id)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_places_in_their_order() {
        let path = Path::new("/usr/lib/postgresql/15/bin/postgres");
        let found = candidates(Path::new("/d"), &[0xab, 0x0c, 0xff], Some("0cff.debug"), path);
        let expected = [
            "/d/.build-id/ab/0cff.debug",
            "/usr/lib/postgresql/15/bin/0cff.debug",
            "/usr/lib/postgresql/15/bin/.debug/0cff.debug",
            "/d/usr/lib/postgresql/15/bin/0cff.debug",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(candidates(Path::new("/d"), &[], None, path), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_file_of_another_build_is_not_taken() {
        let this = std::env::current_exe().unwrap();
        assert!(!is_of_build(&this, &[1, 2, 3]));
        assert!(!is_of_build(Path::new("/proc/self/maps"), &[1, 2, 3]));
        assert!(!is_of_build(Path::new("/nowhere"), &[1, 2, 3]));
    }
}
