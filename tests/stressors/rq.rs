//! One CPU's run queue lock: every thread changes the priority of a victim of its own, and all
//! victims run on the same CPU. Needs the right to lower nice values.

use anyhow::{Result, bail};
use clap::Parser as _;
use lockscope_tests::stress::{Options, Victim, allowed_cpus, run};

fn main() -> Result<()> {
    let cpu = allowed_cpus()?.first().copied().unwrap_or(0);
    run("rq", &Options::parse(), |_| {
        let victim = Victim::start(cpu)?;
        let mut nice = 0;
        Ok(Box::new(move || {
            nice = 1 - nice;
            renice(&victim, nice)
        }))
    })
}

fn renice(victim: &Victim, nice: i32) -> Result<()> {
    let who = libc::id_t::try_from(victim.tid())?;
    // SAFETY: takes three numbers.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, who, nice) } != 0 {
        bail!("setpriority: {}", std::io::Error::last_os_error());
    }
    Ok(())
}
