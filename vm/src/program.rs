//! Programs of this machine, and words as a shell must see them.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::VmError;

/// Directories that hold administration tools but are missing from many users' `PATH`.
const SYSTEM_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Looks a program up in `PATH` and in the system directories.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(SYSTEM_DIRS.iter().map(PathBuf::from));
    let paths = env::join_paths(dirs).ok()?;
    which::which_in(name, Some(paths), env::current_dir().ok()?).ok()
}

/// The same of a program that guests cannot do without.
pub(crate) fn need_program(
    program: &'static str,
    package: &'static str,
) -> Result<PathBuf, VmError> {
    find_program(program).ok_or(VmError::MissingProgram { program, package })
}

/// Whether a program needs no libraries.
pub fn is_static(program: &Path) -> bool {
    let ldd = Command::new("ldd").arg(program).stdin(Stdio::null()).output();
    ldd.is_ok_and(|output| !output.status.success())
}

/// A word as a shell must see it.
pub fn quote(word: &OsStr) -> Vec<u8> {
    let quoter = shlex::bytes::Quoter::new().allow_nul(true);
    quoter.quote(word.as_bytes()).expect("only a NUL cannot be quoted, and it may be there").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        for word in
            [&b"plain"[..], b"", b"two words", b"it's", b"$HOME `x` \\ \"", b"\xff*", b"a\nb"]
        {
            let mut line = b"printf %s ".to_vec();
            line.extend(quote(OsStr::from_bytes(word)));
            let output =
                Command::new("sh").arg("-c").arg(OsStr::from_bytes(&line)).output().unwrap();
            assert_eq!(output.stdout, word, "{}", String::from_utf8_lossy(&line));
        }
    }
}
