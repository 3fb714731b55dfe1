//! A writer sleeps in the middle of its write, for its bytes are on a page that is not there: it holds
//! the file's `i_rwsem`, for which other writers of the file wait, and the `f_pos_lock` of its
//! descriptor, for which others wait that seek on it.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use lockscope_tests::held::{Hold, receive, run};
use lockscope_tests::stress::Options;
use lockscope_tests::userfault::Page;
use nix::unistd::gettid;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// The lock that the others wait for
    #[arg(long, value_enum, default_value_t = Lock::Rwsem)]
    lock: Lock,
}

#[derive(Clone, Copy, ValueEnum)]
enum Lock {
    /// The file's `i_rwsem`
    Rwsem,
    /// The shared descriptor's `f_pos_lock`
    Mutex,
}

fn main() -> Result<()> {
    let Cli { options, lock } = Cli::parse();
    let dir = tempfile::tempdir_in(&options.path)
        .with_context(|| format!("cannot create a directory in {}", options.path.display()))?;
    let path = dir.path().join("held");
    let shared = Arc::new(File::create(&path).context("cannot create the file")?);
    let writer = SleepingWriter::start(shared.clone())?;
    match lock {
        Lock::Rwsem => run("hold-rwsem", &options, writer, |_| {
            let mut own = File::options().append(true).open(&path).context("cannot open")?;
            Ok(Box::new(move || own.write_all(&[0]).context("cannot write")))
        }),
        Lock::Mutex => run("hold-mutex", &options, writer, |_| {
            let shared = &shared;
            Ok(Box::new(move || {
                (&**shared).seek(SeekFrom::Start(0)).context("cannot seek")?;
                Ok(())
            }))
        }),
    }
}

/// A thread that writes from the page, whenever it is told to.
struct SleepingWriter {
    page: Arc<Page>,
    tid: i32,
    orders: mpsc::Sender<()>,
    answers: mpsc::Receiver<Result<()>>,
}

impl SleepingWriter {
    fn start(file: Arc<File>) -> Result<Self> {
        let page = Arc::new(Page::map()?);
        let (orders, incoming) = mpsc::channel::<()>();
        let (outgoing, answers) = mpsc::channel();
        let (tid_sender, tid) = mpsc::channel();
        let source = page.clone();
        thread::spawn(move || {
            let _ = tid_sender.send(gettid().as_raw());
            // Ends when the other end of either channel is gone.
            while incoming.recv().is_ok() && outgoing.send(source.write_to(&file)).is_ok() {}
        });
        Ok(Self { page, tid: receive(&tid)?, orders, answers })
    }
}

impl Hold for SleepingWriter {
    fn holder_tid(&self) -> i32 {
        self.tid
    }

    fn hold(&mut self, meanwhile: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.orders.send(()).context("the writer is gone")?;
        self.page.wait_for_touch()?;
        let result = meanwhile();
        self.page.provide()?;
        receive(&self.answers)??;
        self.page.withdraw()?;
        result
    }
}
