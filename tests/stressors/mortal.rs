//! A process whose threads die in the middle of their waits for its `mmap_lock`: again and again its
//! first thread (or, if asked, another one) replaces the whole process (exec), and children of its are killed.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use lockscope_tests::memory::map_touch_unmap;
use lockscope_tests::stress::Options;
use nix::unistd::gettid;
use serde_json::json;

#[derive(Parser)]
struct Mortal {
    #[command(flatten)]
    options: Options,
    /// How often to be replaced
    #[arg(long, default_value_t = 3)]
    lives: u32,
    /// Another than the first thread replaces the process
    #[arg(long)]
    by_thread: bool,
    /// Contend until killed
    #[arg(long)]
    victim: bool,
}

const VICTIMS: u32 = 3;

fn main() -> Result<()> {
    let mortal = Mortal::parse();
    let options = &mortal.options;
    options.wait_for_start()?;
    let began = Instant::now();
    for _ in 1..options.threads {
        // They go on until they are killed.
        thread::spawn(contend);
    }
    let turn = options.duration()? / (mortal.lives + VICTIMS + 1);
    if mortal.victim {
        contend();
    }
    contend_for(turn)?;
    if mortal.lives > 0 {
        let mut next = again(&mortal, mortal.lives - 1)?;
        if mortal.by_thread {
            next.arg("--by-thread");
            let error = thread::spawn(move || next.exec()).join();
            bail!("cannot replace the process from a thread: {error:?}");
        }
        return Err(next.exec()).context("cannot replace the process");
    }
    for _ in 0..VICTIMS {
        kill_a_child(&mortal, turn)?;
    }
    let line = json!({
        "stressor": "mortal",
        "pid": std::process::id(),
        "tids": [gettid().as_raw()],
        "operations": [VICTIMS],
        "operations_count": VICTIMS,
        "elapsed_ns": u64::try_from(began.elapsed().as_nanos())?,
    });
    println!("{line}");
    Ok(())
}

fn contend() {
    // Ends with the process; an error would mean that memory is gone.
    while map_touch_unmap().is_ok() {}
}

fn contend_for(time: Duration) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < time {
        map_touch_unmap()?;
    }
    Ok(())
}

/// This program again, with the same options.
fn again(mortal: &Mortal, lives: u32) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("no path of its own")?);
    let Options { seconds, threads, .. } = &mortal.options;
    command.args(["--seconds", &seconds.to_string(), "--threads", &threads.to_string()]);
    command.args(["--lives", &lives.to_string()]);
    Ok(command)
}

fn kill_a_child(mortal: &Mortal, after: Duration) -> Result<()> {
    let mut child = again(mortal, 0)?.arg("--victim").spawn().context("cannot start a child")?;
    contend_for(after)?;
    child.kill().context("cannot kill the child")?;
    child.wait().context("cannot wait for the child")?;
    Ok(())
}
