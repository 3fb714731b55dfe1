//! A throw-away Postgres: a private cluster in a temporary directory, reachable by its socket only.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::unistd::{User, chown, geteuid};
use tempfile::TempDir;

use super::binaries::Binaries;
use super::embedded_error::EmbeddedError;
use super::leftovers::{DATA, PREFIX, claim, remove_leftovers};
use super::process::{end_group, stop_postmaster};
use crate::load::connect::Target;
use crate::load::cpus::CpuList;
use crate::signals::Interrupt;

/// The superuser of the cluster.
const SUPERUSER: &str = "postgres";
/// The port names the socket; the directory is private, so any will do.
const PORT: u16 = 5432;
/// Postgres's own default.
const DEFAULT_MAX_CONNECTIONS: u32 = 100;
/// Connections beyond the clients: control, monitoring, reserved slots.
const SPARE_CONNECTIONS: u32 = 10;
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// What a server's log says when it is not the load that failed.
const TROUBLE: [&str; 3] = ["No space left on device", " PANIC: ", "was terminated by signal"];
/// Longest path that fits a socket address.
const SOCKET_PATH_MAX: usize = 107;

/// What the cluster must be able to do.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedOptions {
    /// Directory to make the cluster's directory in; the system's temporary directory by default.
    pub parent: Option<PathBuf>,
    /// Clients that will connect.
    pub clients: u32,
    /// CPUs for all of its processes.
    pub cpus: Option<CpuList>,
    /// Settings that the workload asks for.
    pub settings: &'static [(&'static str, &'static str)],
}

/// A setting given on the server's command line: name and value.
pub type Setting = (&'static str, String);

/// A running cluster; dropping it stops the server and removes the directory.
#[derive(Debug)]
pub struct EmbeddedServer {
    postmaster: Child,
    directory: TempDir,
    target: Target,
    settings: Vec<Setting>,
}

impl EmbeddedServer {
    /// Removes what dead owners left, makes a cluster and starts it.
    pub fn start(options: &EmbeddedOptions, interrupt: &Interrupt) -> Result<Self, EmbeddedError> {
        let parent = options.parent.clone().unwrap_or_else(std::env::temp_dir);
        for directory in remove_leftovers(&parent) {
            log::info!("removed the abandoned cluster {}", directory.display());
        }
        let binaries = Binaries::find()?;
        let user = unprivileged_user()?;
        let directory = make_directory(&parent, user.as_ref())?;
        let path = directory.path();
        init_cluster(&binaries, path, user.as_ref(), interrupt)?;

        let settings = settings(path, options);
        let target = Target::embedded(path, PORT, SUPERUSER);
        let postmaster = spawn_postmaster(&binaries, path, user.as_ref(), &settings, options)?;
        let mut server = Self { postmaster, directory, target, settings };
        server.wait_until_ready(interrupt)?;
        Ok(server)
    }

    /// How to connect to it.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Process id of the postmaster.
    pub fn postmaster_pid(&self) -> u32 {
        self.postmaster.id()
    }

    /// Everything that differs from Postgres's defaults.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// What broke the server, by its log, which goes with the directory.
    fn trouble(&self) -> Option<String> {
        let log = fs::read_to_string(self.directory.path().join("postgres.log")).ok()?;
        // The first of them caused the others.
        let is_trouble = |line: &&str| TROUBLE.iter().any(|words| line.contains(words));
        log.lines().find(is_trouble).map(str::to_owned)
    }

    fn wait_until_ready(&mut self, interrupt: &Interrupt) -> Result<(), EmbeddedError> {
        let directory = self.directory.path().to_owned();
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_ready(&directory.join(DATA)) {
            let ended = self.postmaster.try_wait();
            if let Some(status) = ended.map_err(|source| run_error("postgres", source))? {
                let log = last_words(&directory, "postgres");
                return Err(EmbeddedError::Failed { program: "postgres", status, directory, log });
            }
            if interrupt.is_set() {
                return Err(EmbeddedError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(EmbeddedError::Slow(last_words(&directory, "postgres")));
            }
            sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        if let Some(words) = self.trouble() {
            let parent = self.directory.path().parent().unwrap_or(Path::new("/"));
            let place = parent.display();
            log::warn!("the throw-away server in {place} was in trouble; its log says: {words}");
        }
        let postmaster = &mut self.postmaster;
        let pid = postmaster.id();
        stop_postmaster(pid, || !matches!(postmaster.try_wait(), Ok(None)));
        // The directory goes with the TempDir.
    }
}

/// Whom to run as: nobody special when not root, else an unprivileged user.
fn unprivileged_user() -> Result<Option<User>, EmbeddedError> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| User::from_name(name).ok().flatten())
        .map(Some)
        .ok_or(EmbeddedError::NoUser)
}

fn make_directory(parent: &Path, user: Option<&User>) -> Result<TempDir, EmbeddedError> {
    let error = |source| EmbeddedError::Directory { path: parent.to_owned(), source };
    let directory = tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(error)?;
    if directory.path().join(format!(".s.PGSQL.{PORT}")).as_os_str().len() > SOCKET_PATH_MAX {
        return Err(EmbeddedError::PathTooLong(parent.to_owned()));
    }
    claim(directory.path()).map_err(error)?;
    if let Some(user) = user {
        chown(directory.path(), Some(user.uid), Some(user.gid)).map_err(|errno| {
            EmbeddedError::GiveAway { user: user.name.clone(), source: errno.into() }
        })?;
    }
    Ok(directory)
}

fn init_cluster(
    binaries: &Binaries,
    directory: &Path,
    user: Option<&User>,
    interrupt: &Interrupt,
) -> Result<(), EmbeddedError> {
    let mut initdb = command(&binaries.initdb, directory, user, "initdb")?;
    // Only initdb's own writes go unsynced; the server's durability settings stay as they are.
    initdb.args(["--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8"]);
    initdb.arg(format!("--username={SUPERUSER}")).arg("-D").arg(directory.join(DATA));
    let mut child =
        spawn(&mut initdb).map_err(|error| closed_to(user, directory).unwrap_or(error))?;
    loop {
        let status = child.try_wait().map_err(|source| run_error("initdb", source))?;
        match status {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let log = last_words(directory, "initdb");
                let directory = directory.to_owned();
                return Err(EmbeddedError::Failed { program: "initdb", status, directory, log });
            }
            None if interrupt.is_set() => {
                // It cleans up after SIGINT; the directory goes anyway.
                stop_postmaster(child.id(), || !matches!(child.try_wait(), Ok(None)));
                end_group(child.id());
                return Err(EmbeddedError::Interrupted);
            }
            None => sleep(POLL),
        }
    }
}

/// The first directory on the way to `directory` that `user`, who has no other groups, may not enter.
fn closed_to(user: Option<&User>, directory: &Path) -> Option<EmbeddedError> {
    let user = user?;
    let way: Vec<&Path> = directory.ancestors().collect();
    way.into_iter().rev().find_map(|path| {
        let metadata = fs::metadata(path).ok()?;
        let mode = metadata.mode() & 0o777;
        let search = if metadata.uid() == user.uid.as_raw() {
            0o100
        } else if metadata.gid() == user.gid.as_raw() {
            0o010
        } else {
            0o001
        };
        let closed =
            || EmbeddedError::Closed { user: user.name.clone(), path: path.to_owned(), mode };
        (mode & search == 0).then(closed)
    })
}

/// Everything that differs from Postgres's defaults.
fn settings(directory: &Path, options: &EmbeddedOptions) -> Vec<Setting> {
    let mut settings = vec![
        ("listen_addresses", String::new()),
        ("unix_socket_directories", directory.display().to_string()),
        ("port", PORT.to_string()),
    ];
    let needed = options.clients.saturating_add(SPARE_CONNECTIONS);
    if needed > DEFAULT_MAX_CONNECTIONS {
        settings.push(("max_connections", needed.to_string()));
    }
    settings.extend(options.settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
    settings
}

fn spawn_postmaster(
    binaries: &Binaries,
    directory: &Path,
    user: Option<&User>,
    settings: &[Setting],
    options: &EmbeddedOptions,
) -> Result<Child, EmbeddedError> {
    let mut postgres = command(&binaries.postgres, directory, user, "postgres")?;
    postgres.arg("-D").arg(directory.join(DATA));
    for (name, value) in settings {
        postgres.arg("-c").arg(format!("{name}={value}"));
    }
    let Some(cpus) = &options.cpus else { return spawn(&mut postgres) };
    // A child inherits its parent's CPUs: pin this thread for the moment of the fork.
    let pin_error = |source| run_error("postgres", source);
    let before = CpuList::available().map_err(pin_error)?;
    cpus.pin_this_thread().map_err(pin_error)?;
    let child = spawn(&mut postgres);
    before.pin_this_thread().map_err(pin_error)?;
    child
}

/// A command as `user`, in its own process group so that Ctrl-C reaches lockscope alone.
fn command(
    program: &Path,
    directory: &Path,
    user: Option<&User>,
    name: &str,
) -> Result<Command, EmbeddedError> {
    let log_error = |source| EmbeddedError::Directory { path: directory.to_owned(), source };
    let log = File::create(directory.join(format!("{name}.log"))).map_err(log_error)?;
    let mut command = Command::new(program);
    command.current_dir(directory).process_group(0).stdin(std::process::Stdio::null());
    command.stdout(log.try_clone().map_err(log_error)?).stderr(log);
    if let Some(user) = user {
        // With a uid and as root, std also clears the supplementary groups.
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    Ok(command)
}

fn spawn(command: &mut Command) -> Result<Child, EmbeddedError> {
    command.spawn().map_err(|source| EmbeddedError::Run {
        program: PathBuf::from(command.get_program()),
        source,
    })
}

fn run_error(program: &str, source: io::Error) -> EmbeddedError {
    EmbeddedError::Run { program: program.into(), source }
}

/// The postmaster writes its state into the last line of its pid file.
fn is_ready(data_directory: &Path) -> bool {
    fs::read_to_string(data_directory.join("postmaster.pid"))
        .is_ok_and(|content| content.lines().nth(7).is_some_and(|state| state.trim() == "ready"))
}

fn last_words(directory: &Path, program: &str) -> String {
    let log = fs::read_to_string(directory.join(format!("{program}.log"))).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_clients_raise_max_connections() {
        let directory = Path::new("/d");
        let max_connections = |clients| {
            let options = EmbeddedOptions { clients, ..Default::default() };
            let settings = settings(directory, &options);
            settings
                .into_iter()
                .find(|(name, _)| *name == "max_connections")
                .map(|(_, value)| value)
        };
        assert_eq!(max_connections(90), None);
        assert_eq!(max_connections(91).as_deref(), Some("101"));
    }
}
