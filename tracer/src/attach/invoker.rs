//! Who called lockscope: a command runs as that user, not as the root that sudo made of him.

use std::env;
use std::ffi::CString;
use std::io;
use std::process::Command;

use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist};

/// The user to run as; nothing changes when it is the one that lockscope runs as.
#[derive(Clone, Debug)]
pub(super) struct Invoker {
    user: Option<User>,
    groups: Vec<Gid>,
}

impl Invoker {
    /// By `SUDO_UID`, where lockscope runs as root.
    ///
    /// # Errors
    /// That user's entry or groups cannot be read.
    pub(super) fn find() -> io::Result<Invoker> {
        let uid = env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok()).map(Uid::from_raw);
        let nobody = Invoker { user: None, groups: Vec::new() };
        let Some(uid) = uid.filter(|uid| geteuid().is_root() && !uid.is_root()) else {
            return Ok(nobody);
        };
        let missing =
            || io::Error::other(format!("SUDO_UID is {uid}, and no user has that number"));
        let user = User::from_uid(uid)?.ok_or_else(missing)?;
        let name = CString::new(user.name.as_str())?;
        let groups = getgrouplist(&name, user.gid)?;
        Ok(Invoker { user: Some(user), groups })
    }

    /// Home, and the names that libpq and others look for: sudo has set root's.
    pub(super) fn describe(&self, command: &mut Command) {
        if let Some(user) = &self.user {
            command.env("HOME", &user.dir).env("USER", &user.name).env("LOGNAME", &user.name);
        }
    }

    /// In the child: becomes that user for good. Only system calls.
    pub(super) fn become_user(&self) -> io::Result<()> {
        let Some(user) = &self.user else { return Ok(()) };
        nix::unistd::setgroups(&self.groups)?;
        nix::unistd::setgid(user.gid)?;
        nix::unistd::setuid(user.uid)?;
        Ok(())
    }
}
