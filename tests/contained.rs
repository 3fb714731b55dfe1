//! A Postgres server in a pid namespace of its own, as in a container: its pid there is 1.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::{Running, wait_until};
use crate::postgres::Postgres;

/// Starting and stopping takes far less.
const LIMIT: Duration = Duration::from_secs(60);

/// The server, stopped when dropped. Its `postmaster.pid` holds its pid in the namespace.
#[derive(Debug)]
pub struct Contained {
    server: Postgres,
    unshare: Running,
    postmaster: u32,
}

impl Contained {
    /// Makes a server and starts it in a new namespace, with these settings.
    ///
    /// # Errors
    /// When Postgres is not installed, does not start, or namespaces cannot be made.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self> {
        let server = Postgres::start(settings)?;
        server.stop()?;
        let user = server.user();
        let (uid, gid) = (format!("--reuid={}", user.uid), format!("--regid={}", user.gid));
        let wrapper = ["unshare", "--pid", "--fork", "setpriv", &uid, &gid, "--clear-groups"];
        let unshare = Running::start(&mut server.foreground(&wrapper, settings))?;
        let children = format!("/proc/{0}/task/{0}/children", unshare.pid());
        let child = || fs::read_to_string(&children).ok()?.trim().parse().ok();
        wait_until(LIMIT, || child().is_some()).context("unshare starts nothing")?;
        let postmaster = child().context("the server ended")?;
        let contained = Self { server, unshare, postmaster };
        let ready = wait_until(LIMIT, || contained.server.is_ready());
        ready.with_context(|| format!("no server: {}", contained.unshare.said()))?;
        Ok(contained)
    }

    /// The server; its own pid of the postmaster is none of this namespace.
    #[must_use]
    pub fn server(&self) -> &Postgres {
        &self.server
    }

    /// The postmaster's process id outside of its namespace.
    #[must_use]
    pub fn postmaster_pid(&self) -> u32 {
        self.postmaster
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        // Not by pg_ctl: the pid that it reads is another process's here. A server that has ended
        // already is fine.
        if let Ok(pid) = i32::try_from(self.postmaster) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
        let process = format!("/proc/{}", self.postmaster);
        let _ = wait_until(LIMIT, || !Path::new(&process).exists());
    }
}
