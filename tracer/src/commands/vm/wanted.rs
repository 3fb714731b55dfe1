//! What a command saves, and how it comes back to where the user wants it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lockscope_vm::job::{Wanted, kept};

use super::{VmCommandError, io_error};
use crate::cli::{Command, JobArgs, LogArgs};
use crate::commands::output::OutputFile;

/// The places of all that the command saves.
pub(super) struct Places {
    wanted: Vec<Wanted>,
    /// Files that are proven to be writable, by their place in `wanted`.
    files: Vec<(usize, OutputFile)>,
}

impl Places {
    /// Looks at the command's options; paths are seen from `directory`.
    ///
    /// # Errors
    /// A file cannot be written here.
    pub(super) fn of(command: &Command, directory: &Path) -> Result<Self, VmCommandError> {
        let wanted: Vec<Wanted> =
            saved_by(command)?.into_iter().map(|w| under(directory, w)).collect();
        let mut files = Vec::new();
        for (index, wanted) in wanted.iter().enumerate() {
            if let Wanted::File(path) = wanted {
                files.push((index, OutputFile::create(path)?));
            }
        }
        Ok(Self { wanted, files })
    }

    pub(super) fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// Takes what the guest has handed over in `place`. What the command did not save stays as it was.
    ///
    /// # Errors
    /// A place takes no file.
    pub(super) fn save(self, place: &Path) -> Result<(), VmCommandError> {
        for (index, file) in self.files {
            if let Some(saved) = only_file(&kept(place, index))? {
                file.save(&fs::read(saved).map_err(io_error("read a file of the guest's"))?)?;
            }
        }
        for (index, wanted) in self.wanted.iter().enumerate() {
            let from = kept(place, index);
            let into = match wanted {
                Wanted::File(_) => continue,
                Wanted::Directory(path) => path.as_path(),
                Wanted::Beginning(path) => path.parent().unwrap_or(Path::new("/")),
            };
            copy_all(&from, into).map_err(io_error("copy the guest's files here"))?;
        }
        Ok(())
    }
}

/// Everything that a command may write but its output.
fn saved_by(command: &Command) -> Result<Vec<Wanted>, VmCommandError> {
    let file = |path: &Option<PathBuf>| path.clone().map(Wanted::File);
    let directory = |path: &Option<PathBuf>| path.clone().map(Wanted::Directory);
    let saved = match command {
        Command::Run(args) => job(&args.job),
        Command::Load(args) => job(&args.job),
        Command::Attach(args) => vec![file(&args.output.output)],
        Command::Sweep(args) => {
            let plots = args.plot.iter().map(|plot| Some(Wanted::File(plot.path.clone())));
            [directory(&args.output), file(&args.csv)].into_iter().chain(plots).collect()
        }
        Command::Ab(args) => {
            if args.output.is_none() && !args.quick {
                return Err(VmCommandError::Unnamed);
            }
            vec![directory(&args.output)]
        }
        Command::Compare(args) => vec![file(&args.result.output)],
        Command::Explain(args) => vec![file(&args.result.output)],
        Command::Init(_) | Command::Workloads(_) | Command::Doctor(_) | Command::Report(_) => {
            Vec::new()
        }
        Command::Vm(_) => return Err(VmCommandError::Nested),
    };
    Ok(saved.into_iter().flatten().collect())
}

fn job(args: &JobArgs) -> Vec<Option<Wanted>> {
    vec![args.output.output.clone().map(Wanted::File), logs(&args.log)]
}

fn logs(args: &LogArgs) -> Option<Wanted> {
    args.log.then(|| Wanted::Beginning(PathBuf::from(args.prefix())))
}

fn under(directory: &Path, wanted: Wanted) -> Wanted {
    match wanted {
        Wanted::File(path) => Wanted::File(directory.join(path)),
        Wanted::Directory(path) => Wanted::Directory(directory.join(path)),
        Wanted::Beginning(path) => Wanted::Beginning(directory.join(path)),
    }
}

/// The file in a directory that holds one at most.
fn only_file(directory: &Path) -> Result<Option<PathBuf>, VmCommandError> {
    match fs::read_dir(directory).map(|mut entries| entries.next().transpose()) {
        Ok(Ok(entry)) => Ok(entry.map(|entry| entry.path())),
        Ok(Err(source)) | Err(source) => Err(io_error("look at the guest's files")(source)),
    }
}

fn copy_all(from: &Path, into: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = into.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::create_dir_all(into)?;
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn saved(line: &str) -> Vec<Wanted> {
        let words = ["lockscope"].into_iter().chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).unwrap();
        saved_by(&cli.command).unwrap().into_iter().map(|w| under(Path::new("/here"), w)).collect()
    }

    #[test]
    fn every_file_of_a_command_is_wanted() {
        let file = |path: &str| Wanted::File(PathBuf::from(path));
        assert_eq!(saved("run -S -o new.lockscope"), [file("/here/new.lockscope")]);
        assert_eq!(saved("run -S -o /there/x"), [file("/there/x")]);
        assert!(saved("run -S").is_empty() && saved("doctor").is_empty());
        let log = |path: &str| Wanted::Beginning(PathBuf::from(path));
        assert_eq!(saved("load -S -l"), [log("/here/pgbench_log")]);
        assert_eq!(saved("run -S -l --log-prefix /t/x"), [log("/t/x")]);
        let directory = |path: &str| Wanted::Directory(PathBuf::from(path));
        let sweep = saved("sweep --clients 1,2 -S -o runs --csv a.csv --plot a.png");
        assert_eq!(sweep, [directory("/here/runs"), file("/here/a.csv"), file("/here/a.png")]);
        assert_eq!(saved("explain a -o b"), [file("/here/b")]);
        assert_eq!(saved("ab --a x=1 --b x=2 -o d -- -S"), [directory("/here/d")]);
        assert_eq!(saved("attach --all -o a"), [file("/here/a")]);
    }

    #[test]
    fn runs_of_rounds_need_a_name() {
        let words = ["lockscope", "ab", "--b", "protocol=simple", "--", "-S"];
        let cli = Cli::try_parse_from(words).unwrap();
        assert!(matches!(saved_by(&cli.command), Err(VmCommandError::Unnamed)));
    }

    #[test]
    fn what_was_handed_over_comes_to_its_place_and_nothing_else_changes() {
        let (here, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let words = ["lockscope", "sweep", "--clients", "1", "-S", "-o", "runs", "--csv", "rows"];
        let words = words.into_iter().chain(["--plot", "picture.svg"]);
        let cli = Cli::try_parse_from(words).unwrap();
        let places = Places::of(&cli.command, here.path()).unwrap();
        for (index, name) in [(0, Some("deep/run")), (1, Some("rows")), (2, None)] {
            let directory = kept(place.path(), index);
            fs::create_dir_all(&directory).unwrap();
            if let Some(name) = name {
                let file = directory.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, name).unwrap();
            }
        }
        fs::write(here.path().join("picture.svg"), "of before").unwrap();
        places.save(place.path()).unwrap();
        let read = |name: &str| fs::read_to_string(here.path().join(name)).unwrap();
        assert_eq!(read("runs/deep/run"), "deep/run");
        assert_eq!(read("rows"), "rows");
        assert_eq!(read("picture.svg"), "of before");
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_place_that_takes_no_file_is_refused_before_anything_boots() {
        let words = ["lockscope", "run", "-S", "-o", "/nonexistent/run"];
        let cli = Cli::try_parse_from(words).unwrap();
        let refused = Places::of(&cli.command, Path::new("/")).err().unwrap().to_string();
        assert!(refused.contains("/nonexistent/run"), "{refused}");
    }
}
