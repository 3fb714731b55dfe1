//! `cargo xtask test`: every test there is, and one line that sums them up.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::cargo_test;
use crate::setup::{self, Part};
use crate::shell::{cargo, is_root, target_dir};
use crate::tally::Tally;
use crate::vm;

/// The kernels that every change is tested on. The oldest only shows that all programs load.
const KERNELS: [&str; 3] = ["5.10", "6.1", "6.12"];

#[derive(Args)]
pub(crate) struct Options {
    /// Leave out the tests in virtual machines
    #[arg(long)]
    no_vm: bool,
    /// Run only one layer
    #[arg(long, value_enum, conflicts_with = "no_vm")]
    only: Option<Layer>,
    /// Kernels of the virtual machines
    #[arg(long = "kernel", value_delimiter = ',', default_values = KERNELS)]
    kernels: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// Tests beside the code; they need neither root nor a server.
    Unit,
    /// End to end on this machine's kernel, as root.
    Host,
    /// End to end on Debian's kernels.
    Vm,
}

impl Layer {
    fn parts(self) -> &'static [Part] {
        match self {
            Self::Unit => &[Part::Build, Part::Postgres],
            Self::Host => &[Part::Build, Part::Postgres, Part::HostTests],
            Self::Vm => &[Part::Build, Part::Postgres, Part::Vm],
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let layers: Vec<Layer> = match options.only {
        Some(layer) => vec![layer],
        None if options.no_vm => vec![Layer::Unit, Layer::Host],
        None => vec![Layer::Unit, Layer::Host, Layer::Vm],
    };
    if layers.contains(&Layer::Host) && !is_root() {
        bail!(
            "tracing tests need root; run `sudo -E env \"PATH=$PATH\" cargo xtask test`, or `--only unit` without root"
        );
    }
    let parts: Vec<Part> = layers.iter().flat_map(|layer| layer.parts()).copied().collect();
    setup::ensure(&parts)?;

    let mut tally = Tally::default();
    for layer in layers {
        tally += match layer {
            Layer::Unit => unit()?,
            Layer::Host => host()?,
            Layer::Vm => vm::run_all(&options.kernels)?,
        };
    }
    println!();
    tally.print();
    if tally.failed.is_empty() { Ok(()) } else { bail!("{} tests failed", tally.failed.len()) }
}

fn unit() -> Result<Tally> {
    let words = ["test", "--workspace", "--exclude", "lockscope-tests", "--no-fail-fast"];
    cargo_test::run("unit", cargo().args(words))
}

/// The cases share one kernel and its probes: one at a time.
fn host() -> Result<Tally> {
    let binaries = ["build", "--package", "lockscope", "--package", "lockscope-tests", "--bins"];
    crate::shell::run(cargo().args(binaries))?;
    let words =
        ["test", "--package", "lockscope-tests", "--no-fail-fast", "--", "--test-threads=1"];
    cargo_test::run("host", cargo().args(words).env("LOCKSCOPE_BIN", lockscope_binary()))
}

fn lockscope_binary() -> std::path::PathBuf {
    std::env::var_os("LOCKSCOPE_BIN")
        .map_or_else(|| target_dir().join("debug/lockscope"), std::path::PathBuf::from)
}
