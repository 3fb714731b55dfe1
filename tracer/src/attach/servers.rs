//! The Postgres servers of this machine, and which of them a user means.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::processes::ProcessTable;

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningServer {
    /// Pid of its postmaster, as lockscope sees it.
    pub postmaster: u32,
    /// The port in its `postmaster.pid`; absent when that cannot be read.
    pub port: Option<u16>,
    /// Its data directory, as it names it itself.
    pub data_directory: PathBuf,
}

impl fmt::Display for RunningServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.postmaster)?;
        if let Some(port) = self.port {
            write!(f, ", port {port}")?;
        }
        write!(f, ", {}", self.data_directory.display())
    }
}

/// What a user gave names no server, or several.
#[derive(Debug, thiserror::Error)]
pub enum NoSuchServer {
    /// None.
    #[error(
        "--postgres {given}: no running server has this port, data directory or pid; {running}"
    )]
    None {
        /// As given.
        given: String,
        /// Those that run.
        running: String,
    },
    /// Several, in different network namespaces.
    #[error("--postgres {given}: several servers have this port ({servers}); give the pid of one")]
    Several {
        /// As given.
        given: String,
        /// Them.
        servers: String,
    },
}

/// Every server whose processes can be seen, by pid.
pub fn running_servers(processes: &ProcessTable) -> Vec<RunningServer> {
    processes.postmasters().filter_map(server).collect()
}

/// The server that has this port, this data directory, or this pid among its processes.
///
/// # Errors
/// There is none, or more than one has the port.
pub fn find_server(given: &str, processes: &ProcessTable) -> Result<RunningServer, NoSuchServer> {
    choose(given, &running_servers(processes), |pid| processes.postmaster_of(pid))
}

fn choose(
    given: &str,
    running: &[RunningServer],
    postmaster_of: impl Fn(u32) -> Option<u32>,
) -> Result<RunningServer, NoSuchServer> {
    let number: Option<u32> = given.parse().ok();
    let has_port = |server: &&RunningServer| server.port.map(u32::from) == number;
    let by_port: Vec<&RunningServer> =
        running.iter().filter(|_| number.is_some()).filter(has_port).collect();
    if let [only] = by_port[..] {
        return Ok(only.clone());
    }
    if by_port.len() > 1 {
        let servers = list(by_port.into_iter());
        return Err(NoSuchServer::Several { given: given.to_owned(), servers });
    }
    let postmaster = number.and_then(postmaster_of);
    let directory = fs::canonicalize(given).ok().filter(|_| number.is_none());
    let is_meant = |server: &&RunningServer| {
        Some(server.postmaster) == postmaster
            || directory.as_deref().is_some_and(|directory| is_same(server, directory))
    };
    running.iter().find(is_meant).cloned().ok_or_else(|| {
        let running = match running.is_empty() {
            true => "no server runs here".to_owned(),
            false => format!("running are: {}", list(running.iter())),
        };
        NoSuchServer::None { given: given.to_owned(), running }
    })
}

fn list<'a>(servers: impl Iterator<Item = &'a RunningServer>) -> String {
    servers.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn is_same(server: &RunningServer, directory: &Path) -> bool {
    fs::canonicalize(format!("/proc/{}/cwd", server.postmaster))
        .is_ok_and(|working| working == directory)
}

/// A postmaster works in its data directory and describes itself there in `postmaster.pid`: pid,
/// data directory, start time, port, … a line each (Postgres, `src/include/utils/pidfile.h`).
fn server(postmaster: u32) -> Option<RunningServer> {
    let working = PathBuf::from(format!("/proc/{postmaster}/cwd"));
    let described = fs::read_to_string(working.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = described.lines().collect();
    // A server of one user (initdb's, too) writes its pid with a minus: nobody can connect to it.
    if lines.first().is_some_and(|pid| pid.starts_with('-')) {
        return None;
    }
    let data_directory = match lines.get(1) {
        Some(directory) => PathBuf::from(directory),
        None => fs::read_link(&working).ok()?,
    };
    let port = lines.get(3).and_then(|line| line.trim().parse().ok());
    Some(RunningServer { postmaster, port, data_directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<RunningServer> {
        [(10, 5432, "/a"), (20, 5433, "/b"), (30, 5433, "/c")]
            .map(|(postmaster, port, directory)| RunningServer {
                postmaster,
                port: Some(port),
                data_directory: directory.into(),
            })
            .to_vec()
    }

    fn choose_among_three(given: &str) -> Result<u32, String> {
        let above = |pid| [(5432, 20), (31, 30)].into_iter().find(|(child, _)| *child == pid);
        choose(given, &servers(), |pid| above(pid).map(|(_, postmaster)| postmaster))
            .map(|server| server.postmaster)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_port_comes_before_a_pid() {
        assert_eq!(choose_among_three("5432"), Ok(10));
        assert_eq!(choose_among_three("31"), Ok(30));
    }

    #[test]
    fn what_is_none_or_several_lists_the_servers() {
        let several = choose_among_three("5433").unwrap_err();
        assert!(several.contains("pid 20") && several.contains("pid 30"), "{several}");
        let none = choose_among_three("/no/such/place").unwrap_err();
        assert!(none.contains("pid 10, port 5432, /a"), "{none}");
        let nothing = choose("1", &[], |_| None).unwrap_err().to_string();
        assert!(nothing.contains("no server runs here"), "{nothing}");
    }
}
