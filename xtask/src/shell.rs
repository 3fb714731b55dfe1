//! Running other programs: announced, checked, and named in every error.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
pub(crate) use lockscope_vm::find_program;

/// Prints the command, runs it with this terminal, and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = display(command);
    eprintln!("+ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// The standard output of a quiet command; its standard error becomes part of the error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let line = display(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}: {}", output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as one would type it, with the variables it sets.
pub(crate) fn display(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        value.map(|value| format!("{}={}", name.display(), quote(value)))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(quote);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

/// A word as the shell must see it.
pub(crate) fn quote(word: &OsStr) -> String {
    String::from_utf8_lossy(&lockscope_vm::quote(word)).into_owned()
}

pub(crate) fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The root of the workspace, wherever xtask was started from.
pub(crate) fn workspace_root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().unwrap_or(manifest_dir).to_path_buf()
}

/// Cargo's target directory, as cargo itself decides it.
pub(crate) fn target_dir() -> PathBuf {
    let root = workspace_root();
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// `cargo` of the toolchain that runs this task, in the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("cargo");
        command.env("PREFIX", "/usr/lib/llvm-22").args(["run", "a b", "it's", ""]);
        assert_eq!(display(&command), "PREFIX=/usr/lib/llvm-22 cargo run 'a b' \"it's\" ''");
    }

    #[test]
    fn a_failing_command_is_named_with_its_complaint() {
        let error = capture(Command::new("sh").args(["-c", "echo no luck >&2; exit 3"]))
            .expect_err("the command exits with 3");
        let text = format!("{error:#}");
        assert!(text.contains("exit status: 3") && text.contains("no luck"), "{text}");
    }
}
