//! The rwlock `tasklist_lock`: half of the threads take it for writing (setpgid), the others for
//! reading (a signal 0 to their process group).

use anyhow::{Result, bail};
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

fn main() -> Result<()> {
    // A group of its own, so that no signal reaches anybody else.
    set_group()?;
    run("rwlock", &Options::parse(), |index| {
        Ok(if index % 2 == 0 { Box::new(set_group) } else { Box::new(ask_group) })
    })
}

/// Makes the process the leader of its group, again and again.
fn set_group() -> Result<()> {
    // SAFETY: takes two numbers.
    if unsafe { libc::setpgid(0, 0) } != 0 {
        bail!("setpgid: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

fn ask_group() -> Result<()> {
    // SAFETY: takes two numbers; signal 0 reaches nobody.
    if unsafe { libc::kill(0, 0) } != 0 {
        bail!("kill: {}", std::io::Error::last_os_error());
    }
    Ok(())
}
