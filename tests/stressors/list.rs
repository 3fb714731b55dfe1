//! Lists a directory slowly: the kernel sleeps while it copies the names to a page that is not there yet, and
//! holds the directory's `i_rwsem` meanwhile, for which everybody waits who creates or removes a file there.
//! Nothing is changed, so it is a neighbour that hurts without harm. `--path` is looked up anew each time: where
//! it is a symbolic link, that tells the stressor to go elsewhere.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use lockscope_tests::userfault::Page;
use serde_json::json;

#[derive(Parser)]
struct Cli {
    /// How long to go on
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The directory
    #[arg(long)]
    path: PathBuf,
    /// Milliseconds for which each listing holds the lock
    #[arg(long, default_value_t = 2)]
    hold_ms: u64,
    /// Milliseconds between two listings
    #[arg(long, default_value_t = 1)]
    pause_ms: u64,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let duration = Duration::try_from_secs_f64(cli.seconds).context("strange --seconds")?;
    let page = Arc::new(Page::map()?);
    serve(page.clone(), Duration::from_millis(cli.hold_ms));
    let began = Instant::now();
    let mut listings_count = 0_u64;
    while began.elapsed() < duration {
        let directory = File::open(&cli.path)
            .with_context(|| format!("cannot open the directory {}", cli.path.display()))?;
        page.list(&directory).with_context(|| format!("cannot list {}", cli.path.display()))?;
        page.withdraw()?;
        listings_count += 1;
        thread::sleep(Duration::from_millis(cli.pause_ms));
    }
    println!("{}", json!({ "stressor": "list", "operations_count": listings_count }));
    Ok(())
}

/// Gives the page to each listing after the time for which it is to hold the lock. Ends with the process.
fn serve(page: Arc<Page>, hold: Duration) {
    thread::spawn(move || -> Result<()> {
        loop {
            page.wait_for_touch()?;
            thread::sleep(hold);
            page.provide()?;
        }
    });
}
