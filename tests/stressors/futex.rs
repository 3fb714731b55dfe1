//! A lock of user space whose holder sleeps: the others wait in the kernel, in `futex_wait`, which is
//! no lock of the kernel's. Only the futex hash bucket's spinlock, held for a moment, is one.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Parser as _;
use lockscope_tests::stress::{Options, run};

const HOLD: Duration = Duration::from_millis(2);

fn main() -> Result<()> {
    let lock = Mutex::new(());
    run("futex", &Options::parse(), |_| {
        let lock = &lock;
        Ok(Box::new(move || {
            let held = lock.lock();
            thread::sleep(HOLD);
            drop(held);
            Ok(())
        }))
    })
}
