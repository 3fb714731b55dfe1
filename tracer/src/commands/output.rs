//! Where reports go: standard output and the file of `-o`.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::standard_output;
use crate::cli::ResultArgs;
use crate::report::text::TextOptions;

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}", path = .path.display())]
pub struct OutputError {
    path: PathBuf,
    source: io::Error,
}

/// A file that can be written, proven by opening it, and that appears whole or not at all.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A new file beside the wanted one, renamed at the end.
    Beside(NamedTempFile),
    /// A device, a pipe or the like, which must not be replaced.
    Special(File),
}

impl OutputFile {
    /// As `create`, but a place that is none of the files that are read: it would replace one of them.
    pub(super) fn create_beside<'a>(
        path: &Path,
        inputs: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<Self, OutputError> {
        let real = |path: &Path| fs::canonicalize(path).ok();
        if let Some(place) = real(path)
            && inputs.into_iter().any(|input| real(input).as_ref() == Some(&place))
        {
            let source = io::Error::other("it is one of the runs that are read; name another file");
            return Err(OutputError { path: path.to_owned(), source });
        }
        Self::create(path)
    }

    /// Opens the place; nothing is at `path` that was not there before.
    pub(super) fn create(path: &Path) -> Result<Self, OutputError> {
        let place = open(path).map_err(|source| OutputError { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), place })
    }

    /// Writes all of `content`, or leaves what was there before.
    pub(super) fn save(self, content: &[u8]) -> Result<(), OutputError> {
        let path = self.path;
        let saved = match self.place {
            Place::Beside(mut file) => file
                .write_all(content)
                .and_then(|()| file.as_file().sync_all())
                .and_then(|()| file.persist(&path).map(drop).map_err(|error| error.error)),
            Place::Special(mut file) => file.write_all(content),
        };
        saved.map_err(|source| OutputError { path, source })
    }
}

fn open(path: &Path) -> io::Result<Place> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => {
            let mut file = OpenOptions::new().write(true).open(path)?;
            // Nothing, but a device that takes nothing says so now and not after the run.
            let _ = file.write(&[])?;
            Ok(Place::Special(file))
        }
        Ok(_) => {
            // The rename would pass over a file that is write-protected.
            OpenOptions::new().write(true).open(path)?;
            beside(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => beside(path),
        Err(error) => Err(error),
    }
}

fn beside(path: &Path) -> io::Result<Place> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::metadata(directory)?;
    let file = tempfile::Builder::new()
        .prefix(".lockscope-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        // Its words name the temporary file, which means nothing to the user.
        .map_err(|error| io::Error::from(error.kind()))?;
    Ok(Place::Beside(file))
}

/// What a command told of saved runs, as text or JSON, to standard output and to the file of `-o`.
pub(super) struct ResultOutput<'a> {
    args: &'a ResultArgs,
    file: Option<OutputFile>,
}

impl<'a> ResultOutput<'a> {
    /// Opens the file; it is none of the runs that are read.
    pub(super) fn create(
        args: &'a ResultArgs,
        inputs: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<Self, OutputError> {
        let create = |path: &PathBuf| OutputFile::create_beside(path, inputs);
        Ok(Self { args, file: args.output.as_ref().map(create).transpose()? })
    }

    /// Prints first: a full disk must not cost the report, nor a closed output the file.
    pub(super) fn write(
        self,
        json: &str,
        text: impl FnOnce(&TextOptions) -> String,
    ) -> Result<(), OutputError> {
        let printed = match self.args.json {
            true => print_report(json),
            false => print_report(&text(&self.args.layout.text_options())),
        };
        printed.and(self.file.map_or(Ok(()), |file| file.save(json.as_bytes())))
    }
}

/// Prints a report; a reader that has gone away is no error, but one that was never there is.
pub fn print_report(text: &str) -> Result<(), OutputError> {
    let print = |mut stdout: io::StdoutLock<'_>| {
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    };
    let printed = match standard_output::was_closed() {
        true => Err(nix::errno::Errno::EBADF.into()),
        false => print(io::stdout().lock()),
    };
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(source) => Err(OutputError { path: "standard output".into(), source }),
        Ok(()) => Ok(()),
    }
}

/// The same on standard error, where standard output is somebody else's.
pub(super) fn say_report(text: &str) -> Result<(), OutputError> {
    let mut stderr = io::stderr().lock();
    match stderr.write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(source) => Err(OutputError { path: "standard error".into(), source }),
        Ok(()) => Ok(()),
    }
}

/// Says something on standard error. Nobody may be reading there any more, which must not cost the run.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_only_when_it_is_saved() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let file = OutputFile::create(&path).unwrap();
        assert!(!path.exists());
        file.save(b"content").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_not_saved_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        drop(OutputFile::create(&directory.path().join("run")).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_and_named() {
        for path in ["/nonexistent/run", "/proc/run", "/tmp"] {
            let error = OutputFile::create(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(path) && !error.contains(".lockscope-"), "{error}");
        }
    }

    #[test]
    fn a_device_is_written_not_replaced() {
        let null = Path::new("/dev/null");
        OutputFile::create(null).unwrap().save(b"content").unwrap();
        assert!(!fs::metadata(null).unwrap().is_file());
    }

    #[test]
    fn a_device_that_takes_nothing_is_refused_at_once() {
        let error = OutputFile::create(Path::new("/dev/full")).unwrap_err().to_string();
        assert!(error.contains("/dev/full: No space left"), "{error}");
    }
}
