//! `lockscope sweep`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::{FilterArgs, LoadArgs, SeriesArgs, ServerArgs, TableArgs, TraceArgs};
use crate::commands::sweep::Varied;
use crate::report::plot::PlotFormat;

/// A file for a picture, whose name says its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlotFile {
    /// Where.
    pub path: PathBuf,
    /// As its name ends.
    pub format: PlotFormat,
}

impl FromStr for PlotFile {
    type Err = String;

    fn from_str(text: &str) -> Result<PlotFile, String> {
        let path = PathBuf::from(text);
        let extension = path.extension().and_then(|extension| extension.to_str());
        let format = match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => PlotFormat::Svg,
            Some("png") => PlotFormat::Png,
            _ => {
                return Err(
                    "a picture is an .svg or a .png: give its name one of these ends".to_owned()
                );
            }
        };
        Ok(PlotFile { path, format })
    }
}

/// Runs at several values of one option or more. Every option of `lockscope run` may be varied; those
/// that are given once hold for all steps.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Client counts, as in 1,2,4,8 [default where nothing else is varied: powers of two up to four
    /// times the CPUs].
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with = "client",
          value_parser = super::values::at_least_one)]
    pub clients: Vec<u32>,
    /// Another option of `lockscope run` and its values, as in scale=10,100 or
    /// protocol=simple,prepared; several make a grid, and each combination beside the client counts
    /// a curve (may be repeated).
    #[arg(long, value_name = "OPTION=V,V,…")]
    pub vary: Vec<Varied>,
    /// Save every step's run in this directory, and the sweep as sweep.json.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write a row a step to this file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw throughput and the ledger over the steps into this file, .svg or .png (may be repeated).
    #[arg(long, value_name = "FILE", alias = "svg")]
    pub plot: Vec<PlotFile>,
    /// Print the sweep as JSON (docs/sweep.schema.json).
    #[arg(long)]
    pub json: bool,
    /// While the steps run, and how the text looks.
    #[command(flatten)]
    pub series: SeriesArgs,
    /// The load.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Where to run it.
    #[command(flatten)]
    pub server: ServerArgs,
    /// The tables.
    #[command(flatten)]
    pub tables: TableArgs,
    /// How to trace meanwhile.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// What to narrow the trace to.
    #[command(flatten)]
    pub filter: FilterArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_s_name_says_its_form() {
        let format = |name: &str| name.parse::<PlotFile>().map(|file| file.format);
        assert_eq!(format("a/b.svg"), Ok(PlotFormat::Svg));
        assert_eq!(format("b.PNG"), Ok(PlotFormat::Png));
        for none in ["b", "b.jpg", "svg", "b.svg.gz"] {
            assert!(format(none).unwrap_err().contains(".png"), "{none}");
        }
    }
}
