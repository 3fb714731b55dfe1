//! What the command finds in the guest as it would find it here.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{VmCommandError, io_error};

/// Where a guest has files of its own.
const OWN: [&str; 4] = ["/run", "/dev", "/proc", "/sys"];
/// Administration's programs: a guest makes file systems, loads modules and mounts.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// This process's own.
pub(super) struct Surroundings {
    /// Its program.
    pub(super) program: PathBuf,
    pub(super) directory: PathBuf,
    /// The variables that a command may depend on.
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Surroundings {
    pub(super) fn find() -> Result<Self, VmCommandError> {
        let program = env::current_exe().map_err(io_error("find lockscope's own program"))?;
        let directory = env::current_dir().map_err(io_error("find the working directory"))?;
        check("lockscope's program", &program, "install it elsewhere")?;
        check("the working directory", &directory, "change to another")?;
        let mut environment: Vec<_> =
            env::vars_os().filter(|(name, _)| is_passed_on(name.as_bytes())).collect();
        environment.push((OsString::from("PATH"), path(env::var_os("PATH").as_deref())));
        Ok(Self { program, directory, environment })
    }
}

/// Refuses what the guest would not see.
fn check(what: &'static str, path: &Path, remedy: &'static str) -> Result<(), VmCommandError> {
    match OWN.iter().any(|own| path.starts_with(own)) {
        true => Err(VmCommandError::NotInGuest { what, path: path.to_owned(), remedy }),
        false => Ok(()),
    }
}

fn is_passed_on(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] = [b"HOME", b"LANG", b"TZ", b"COLUMNS", b"SUDO_UID"];
    const BEGINNINGS: [&[u8]; 3] = [b"PG", b"LC_", b"LOCKSCOPE_"];
    // Other names than these are no shell's variables.
    let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_name && (NAMES.contains(&name) || BEGINNINGS.iter().any(|begin| name.starts_with(begin)))
}

/// The caller's, and behind it a system's.
fn path(own: Option<&OsStr>) -> OsString {
    let mut path = own.unwrap_or_default().to_owned();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(SYSTEM_PATH);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_depends_on_is_passed_on() {
        for name in ["PGOPTIONS", "PGPASSWORD", "LC_ALL", "LANG", "HOME", "LOCKSCOPE_X"] {
            assert!(is_passed_on(name.as_bytes()), "{name}");
        }
        for name in ["TMPDIR", "LD_PRELOAD", "PS1", "PG;reboot", "XDG_RUNTIME_DIR"] {
            assert!(!is_passed_on(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_program_is_found_where_the_caller_would_find_it_first() {
        assert_eq!(path(None), SYSTEM_PATH);
        let own = path(Some(OsStr::new("/opt/pg/bin")));
        assert!(own.to_string_lossy().starts_with("/opt/pg/bin:/usr/local/sbin:"), "{own:?}");
    }

    #[test]
    fn what_a_guest_has_of_its_own_is_refused() {
        let refused = check("the working directory", Path::new("/run/user/0"), "change to another");
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("/run/user/0") && message.contains("change to"), "{message}");
        assert!(check("the working directory", Path::new("/running"), "").is_ok());
        assert!(check("the working directory", Path::new("/tmp/x"), "").is_ok());
    }
}
