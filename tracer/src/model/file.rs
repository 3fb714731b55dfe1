//! Saving a run and loading it again.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::{Builder, NamedTempFile};
use thiserror::Error;

use super::{Run, SCHEMA_VERSION};

/// Why a run could not be saved or loaded.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file could not be written; nothing of it is left behind.
    #[error("cannot save the run to {path}: {source}; choose another path with -o")]
    Write {
        /// Where it should have gone.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{path} is not a lockscope run ({reason}); give a file that `lockscope run -o` saved")]
    NotARun {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer lockscope wrote it.
    #[error(
        "{path} was written by lockscope {version} in schema version {schema_version}; this one \
         reads up to {SCHEMA_VERSION}: update lockscope to read it"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The writer's version.
        version: String,
        /// The writer's schema.
        schema_version: u32,
    },
}

/// What is read before anything else, so that the version can be judged first.
#[derive(Deserialize)]
struct Header {
    schema_version: u32,
    #[serde(default)]
    lockscope_version: String,
}

/// A run or a comparison as JSON. Absent means not measured: a number that is not finite (a ratio with nothing
/// to divide by) is left out like any other value that is not there.
pub fn to_json(of: &impl Serialize) -> Value {
    // Serializing plain structs with string keys into a `Value` cannot fail.
    let mut value = serde_json::to_value(of).unwrap_or_default();
    drop_nulls(&mut value);
    value
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Saves a run: afterwards `path` holds all of it, or what it held before.
///
/// # Errors
/// [`FileError::Write`] when the directory cannot be written to or the disk is full.
pub fn save(run: &Run, path: &Path) -> Result<(), FileError> {
    let value = to_json(run);
    write_atomically(path, |file| {
        let mut writer = io::BufWriter::new(file);
        serde_json::to_writer(&mut writer, &value)?;
        writer.write_all(b"\n")?;
        writer.flush()
    })
    .map_err(|source| FileError::Write { path: path.to_owned(), source })
}

/// Checks before a long run that its result can be saved.
///
/// # Errors
/// [`FileError::Write`] with the reason why it could not.
pub fn check_save_path(path: &Path) -> Result<(), FileError> {
    let checked = match Target::of(path) {
        Ok(Target::Regular(path)) if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(Target::Regular(path)) => temporary_beside(&path).map(drop),
        Ok(Target::Special) => fs::OpenOptions::new().write(true).open(path).map(drop),
        Err(error) => Err(error),
    };
    checked.map_err(|source| FileError::Write { path: path.to_owned(), source })
}

/// Loads a run.
///
/// # Errors
/// The file cannot be read, is no lockscope run, or comes from a newer lockscope.
pub fn load(path: &Path) -> Result<Run, FileError> {
    let bytes =
        fs::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    let not_a_run = |error: serde_json::Error| FileError::NotARun {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let header: Header = serde_json::from_slice(&bytes).map_err(not_a_run)?;
    if header.schema_version > SCHEMA_VERSION {
        return Err(FileError::TooNew {
            path: path.to_owned(),
            version: header.lockscope_version,
            schema_version: header.schema_version,
        });
    }
    serde_json::from_slice(&bytes).map_err(not_a_run)
}

/// Where a path leads.
enum Target {
    /// A file that is there or will be, symbolic links followed.
    Regular(PathBuf),
    /// A device, a pipe: nothing that a rename may replace.
    Special,
}

impl Target {
    fn of(path: &Path) -> io::Result<Target> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() || metadata.is_dir() => {
                Ok(Target::Regular(fs::canonicalize(path)?))
            }
            Ok(_) => Ok(Target::Special),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Target::Regular(path.to_owned()))
            }
            Err(error) => Err(error),
        }
    }
}

fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Builder::new()
        .prefix(".lockscope-")
        .suffix(".tmp")
        // As for any new file: the umask takes away from this.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
}

/// Writes through a temporary file in the same directory and renames it; a failure removes it.
fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    match Target::of(path)? {
        Target::Special => write(&mut fs::OpenOptions::new().write(true).open(path)?),
        Target::Regular(path) => {
            let mut temporary = temporary_beside(&path)?;
            write(temporary.as_file_mut())?;
            temporary.as_file().sync_all()?;
            temporary.persist(&path).map(drop).map_err(|error| error.error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_saved_run_loads_as_the_same_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.lockscope");
        let mut run = Run::new();
        run.throughput.tps = 0.1 + 0.2;
        run.losses.insert("ring_full".to_owned(), u64::MAX);
        save(&run, &path).unwrap();
        assert_eq!(load(&path).unwrap(), run);
        assert_eq!(names_in(directory.path()), ["a.lockscope"]);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.lockscope");
        fs::write(&path, "before").unwrap();
        let error = write_atomically(&path, |file| {
            file.write_all(b"half of")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(names_in(directory.path()), ["a.lockscope"]);
    }

    #[test]
    fn a_missing_directory_is_found_before_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none/a.lockscope");
        let message = check_save_path(&path).unwrap_err().to_string();
        assert!(
            message.contains("none/a.lockscope") && message.contains("No such file"),
            "{message}"
        );
        assert!(save(&Run::new(), &path).is_err());
        assert!(check_save_path(directory.path()).is_err(), "a directory is no file");
        check_save_path(&directory.path().join("a.lockscope")).unwrap();
        assert!(names_in(directory.path()).is_empty(), "checking leaves nothing");
    }

    #[test]
    fn a_device_is_written_to_and_never_replaced() {
        let path = Path::new("/dev/null");
        check_save_path(path).unwrap();
        save(&Run::new(), path).unwrap();
        assert!(!fs::metadata(path).unwrap().is_file());
        let message = save(&Run::new(), Path::new("/dev/full")).unwrap_err().to_string();
        assert!(message.contains("/dev/full") && message.contains("No space"), "{message}");
    }

    #[test]
    fn a_symbolic_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        save(&Run::new(), &link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(load(&target).unwrap(), Run::new());
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        for (content, expected) in [
            ("", "EOF"),
            ("pgbench (15.8)\n", "expected value"),
            ("{\"tps\": 1}", "schema_version"),
            ("[1, 2]", "not a lockscope run"),
            ("{\"schema_version\": 1}", "environment"),
        ] {
            fs::write(&path, content).unwrap();
            let message = load(&path).unwrap_err().to_string();
            assert!(
                message.contains("not a lockscope run") && message.contains(expected),
                "{message}"
            );
        }
        assert!(load(&directory.path().join("none")).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn a_newer_schema_names_its_writer_even_when_names_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        fs::write(&path, "{\"schema_version\": 99, \"lockscope_version\": \"7.1.0\"}").unwrap();
        let message = load(&path).unwrap_err().to_string();
        assert!(message.contains("lockscope 7.1.0") && message.contains("update"), "{message}");
    }

    #[test]
    fn what_is_not_finite_is_absent_not_null() {
        let mut run = Run::new();
        run.own_cost.tps_ratio = Some(f64::NAN);
        run.own_cost.bpf_cpu_percent = Some(1.5);
        let value = to_json(&run);
        assert!(value["own_cost"].get("tps_ratio").is_none());
        assert_eq!(value["own_cost"]["bpf_cpu_percent"], 1.5);
        assert!(!value.to_string().contains("null"));
    }
}
