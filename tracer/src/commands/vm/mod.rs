//! `lockscope vm`: another command of lockscope's, in a guest that runs a kernel of the user's.

mod surroundings;
mod wanted;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};
use lockscope_vm::job::{FileSystem, Job, Output, Setting, Storage, console_tail, run as run_job};
use lockscope_vm::{Accelerator, Kernel, Machine, VmError, find_kvm};

use self::surroundings::Surroundings;
use self::wanted::Places;
use super::Exit;
use super::output::{OutputError, print_report, say};
use crate::cli::{self, Accel, Cli, Command, VmArgs};
use crate::signals::Interrupt;

/// How much of the console a failure shows.
const CONSOLE_LINES: usize = 15;
/// What mkfs.xfs makes a file system of, at least.
const XFS_MINIMUM_MIB: u64 = 300;

/// A command that cannot be run in a guest.
#[derive(Debug, thiserror::Error)]
pub enum VmCommandError {
    /// The first word behind `--`.
    #[error("the command behind -- is none of lockscope's: {0}")]
    NoCommand(String),
    /// The others.
    #[error("`lockscope {command}` behind -- is used wrongly: {wrong}")]
    Usage {
        /// Which command.
        command: String,
        /// What is wrong, with the option's name.
        wrong: String,
    },
    /// A guest in a guest.
    #[error("a guest cannot run `lockscope vm` in its turn; give the other command alone")]
    Nested,
    /// Several files that nobody has named.
    #[error("`lockscope ab` in a guest needs -o DIR: without it, nothing of its runs would stay")]
    Unnamed,
    /// xfsprogs would refuse it in the guest.
    #[error("--fs xfs needs at least {XFS_MINIMUM_MIB} MiB, and --disk gives {0}")]
    SmallXfs(u64),
    /// A place that the guest has of its own.
    #[error(
        "{what} is {path}, and under /run, /dev, /proc and /sys a guest has its own files; {remedy}",
        path = .path.display()
    )]
    NotInGuest {
        /// What is there.
        what: &'static str,
        /// The place.
        path: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// This process's own surroundings.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file that is to come back.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The guest.
    #[error(transparent)]
    Vm(#[from] VmError),
}

/// Runs the command, and ends with its exit code. Where the guest fails, a bisection should skip.
pub fn run(args: &VmArgs) -> Result<Exit, VmCommandError> {
    match perform(args) {
        Err(VmCommandError::Vm(error)) => {
            say(&format!("lockscope: no result from the guest: {error}"));
            Ok(Exit::CannotJudge)
        }
        result => result,
    }
}

fn perform(args: &VmArgs) -> Result<Exit, VmCommandError> {
    let command = match parse(&args.command)? {
        Parsed::Command(command) => command,
        Parsed::Shown(text) => {
            print_report(&text)?;
            return Ok(Exit::Done);
        }
    };
    let surroundings = Surroundings::find()?;
    let places = Places::of(&command, &surroundings.directory)?;
    let kernel = Kernel::open(&args.kernel, args.modules.as_deref()).map_err(VmError::from)?;
    let kernel = Kernel { arguments: args.append.clone(), ..kernel };
    let machine = machine(args, &kernel)?;
    let interrupt = Interrupt::install().map_err(io_error("ask for signals"))?;
    let place = tempfile::Builder::new().prefix("lockscope-vm-").tempdir();
    let place = place.map_err(io_error("make a temporary directory"))?;
    let console = args.console.clone().unwrap_or_else(|| place.path().join("console.log"));

    let mut words = vec![surroundings.program.clone().into_os_string()];
    words.extend(args.command.iter().cloned());
    let job = Job {
        words: &words,
        environment: &surroundings.environment,
        directory: &surroundings.directory,
        wanted: places.wanted(),
        storage: storage(args)?,
        limit: args.timeout,
    };
    let output = Output { stdout: &mut io::stdout().lock(), stderr: &mut io::stderr() };
    let goes_on = || !interrupt.is_set();
    let setting = Setting { kernel: &kernel, machine, place: place.path(), console: &console };
    let done = run_job(&job, setting, output, &goes_on);
    if let Some(code) = interrupt.exit_code() {
        say(&format!("lockscope: interrupted by {}; the guest is gone", interrupt.name()));
        return Ok(Exit::Command(code));
    }
    let done = done.inspect_err(|error| show_console(error, &console))?;
    if let Some(complaint) = done.complaint {
        say(&format!("lockscope: warning: the guest's kernel complained: {complaint}"));
    }
    places.save(place.path())?;
    Ok(Exit::Command(done.code))
}

/// The words behind `--`.
enum Parsed {
    Command(Command),
    /// Help, or the version.
    Shown(String),
}

fn parse(words: &[OsString]) -> Result<Parsed, VmCommandError> {
    let name = OsString::from("lockscope");
    match Cli::try_parse_from(std::iter::once(&name).chain(words)) {
        Ok(Cli { command: Command::Vm(_), .. }) => Err(VmCommandError::Nested),
        Ok(cli) => Ok(Parsed::Command(cli.command)),
        Err(error) if !error.use_stderr() => Ok(Parsed::Shown(error.render().to_string())),
        Err(error) => {
            let text = error.render().to_string();
            let wrong = text.trim().strip_prefix("error: ").unwrap_or(text.trim()).to_owned();
            let first = words.first().and_then(|word| word.to_str()).unwrap_or_default();
            Err(match Cli::command().find_subcommand(first) {
                Some(command) => {
                    VmCommandError::Usage { command: command.get_name().to_owned(), wrong }
                }
                None => VmCommandError::NoCommand(wrong),
            })
        }
    }
}

/// What --disk, --stripe and --fs ask for.
fn storage(args: &VmArgs) -> Result<Option<Storage>, VmCommandError> {
    let Some(disk_mib) = args.disk else { return Ok(None) };
    let file_system = match args.fs {
        cli::FileSystem::Ext4 => FileSystem::Ext4,
        cli::FileSystem::Xfs => FileSystem::Xfs,
    };
    let (disks, mib) = (args.stripe, u64::from(disk_mib) * u64::from(args.stripe));
    match file_system {
        FileSystem::Xfs if mib < XFS_MINIMUM_MIB => Err(VmCommandError::SmallXfs(mib)),
        _ => Ok(Some(Storage { disk_mib, disks, file_system })),
    }
}

/// Decides how the guest runs, and says so: times of an emulated machine mean little.
fn machine(args: &VmArgs, kernel: &Kernel) -> Result<Machine, VmError> {
    let (accelerator, how) = match (args.accel, find_kvm()) {
        (Accel::Kvm, Err(reason)) => return Err(reason.into()),
        (Accel::Kvm | Accel::Auto, Ok(())) => (Accelerator::Kvm, "by KVM".to_owned()),
        (Accel::Auto, Err(reason)) => {
            (Accelerator::Tcg, format!("emulated, for there is no KVM: {reason}"))
        }
        (Accel::Tcg, _) => (Accelerator::Tcg, "emulated".to_owned()),
    };
    let (cpus, memory_mib) = (args.smp, args.memory);
    say(&format!("lockscope: Linux {}, {cpus} CPUs, {memory_mib} MiB, {how}", kernel.release));
    if accelerator == Accelerator::Tcg {
        say(
            "lockscope: counts of an emulated machine can be compared; times are those of the emulation",
        );
    }
    Ok(Machine { cpus, memory_mib, accelerator })
}

fn show_console(error: &VmError, console: &Path) {
    if let VmError::Guest(_) = error {
        say("lockscope: the end of the guest's console (--console FILE keeps all of it):");
        for line in console_tail(console, CONSOLE_LINES) {
            say(&format!("  | {line}"));
        }
    }
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> VmCommandError {
    move |source| VmCommandError::Io { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Parsed, VmCommandError> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words)
    }

    #[test]
    fn the_inner_command_is_checked_before_anything_boots() {
        assert!(matches!(parsed("run -S -c 4 -o x"), Ok(Parsed::Command(Command::Run(_)))));
        let inner = parsed("attach --all -T 1 -- sleep 1");
        let Ok(Parsed::Command(Command::Attach(attach))) = inner else { panic!("no attach") };
        assert_eq!(attach.client, ["sleep", "1"]);
        assert!(matches!(parsed("vm --kernel k -- run -S"), Err(VmCommandError::Nested)));
        assert!(matches!(parsed("run --help"), Ok(Parsed::Shown(_))));
        let refused = parsed("run -c 0").err().map(|error| error.to_string());
        let refused = refused.unwrap_or_default();
        assert!(refused.contains("behind --") && refused.contains("at least 1"), "{refused}");
    }
}
