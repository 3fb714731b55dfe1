//! The command's output, passed on as it comes.
//!
//! It goes through files of the share, not over the console: standard output and error stay apart,
//! and both byte for byte what the command wrote.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write};
use std::path::Path;

use super::Output;
use crate::VmError;

/// Names in the share.
pub(super) const STDOUT: &str = "stdout";
pub(super) const STDERR: &str = "stderr";

pub(super) struct Streams<'a> {
    stdout: Stream<'a>,
    stderr: Stream<'a>,
}

struct Stream<'a> {
    name: &'static str,
    from: File,
    /// Absent once it takes nothing any more.
    to: Option<&'a mut dyn Write>,
    failed: Option<io::Error>,
}

impl<'a> Streams<'a> {
    /// Makes both files.
    pub(super) fn open(share: &Path, output: Output<'a>) -> Result<Self, VmError> {
        let Output { stdout, stderr } = output;
        Ok(Self {
            stdout: Stream::open("standard output", &share.join(STDOUT), stdout)?,
            stderr: Stream::open("standard error", &share.join(STDERR), stderr)?,
        })
    }

    /// Passes on what is new.
    pub(super) fn pass_on(&mut self) {
        // Progress lines lead to the report, and so come first.
        self.stderr.pass_on();
        self.stdout.pass_on();
    }

    /// Passes on the rest.
    ///
    /// # Errors
    /// Something could not be passed on; a reader that has gone away is no error.
    pub(super) fn finish(&mut self) -> Result<(), VmError> {
        self.pass_on();
        for stream in [&mut self.stdout, &mut self.stderr] {
            if let Some(source) = stream.failed.take() {
                return Err(VmError::io(format!("write to {}", stream.name))(source));
            }
        }
        Ok(())
    }
}

impl<'a> Stream<'a> {
    fn open(name: &'static str, path: &Path, to: &'a mut dyn Write) -> Result<Self, VmError> {
        let what = || format!("make the file of the guest's {name}");
        File::create(path).map_err(VmError::io(what()))?;
        let from = File::open(path).map_err(VmError::io(what()))?;
        Ok(Self { name, from, to: Some(to), failed: None })
    }

    fn pass_on(&mut self) {
        let Some(to) = &mut self.to else { return };
        if let Err(error) = copy(&mut self.from, *to) {
            self.to = None;
            self.failed = Some(error).filter(|error| error.kind() != ErrorKind::BrokenPipe);
        }
    }
}

/// Copies from where the last copy ended to the present end.
fn copy(from: &mut File, to: &mut dyn Write) -> io::Result<()> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok(());
    }
    to.write_all(&bytes)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn output_is_passed_on_once_and_apart() {
        let share = tempfile::tempdir().unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let output = Output { stdout: &mut out, stderr: &mut err };
        let mut streams = Streams::open(share.path(), output).unwrap();
        let append = |name: &str, bytes: &[u8]| {
            let file = fs::OpenOptions::new().append(true).open(share.path().join(name));
            file.unwrap().write_all(bytes).unwrap();
        };
        append(STDOUT, b"a\xff");
        streams.pass_on();
        append(STDOUT, b"b\n");
        append(STDERR, b"no newline");
        streams.finish().unwrap();
        assert_eq!((out, err), (b"a\xffb\n".to_vec(), b"no newline".to_vec()));
    }

    #[test]
    fn a_full_place_is_told_and_a_reader_that_is_gone_is_not() {
        struct Refuses(ErrorKind);
        impl Write for Refuses {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let finish = |kind| {
            let share = tempfile::tempdir().unwrap();
            let (mut out, mut err) = (Refuses(kind), Vec::new());
            let output = Output { stdout: &mut out, stderr: &mut err };
            let mut streams = Streams::open(share.path(), output).unwrap();
            fs::write(share.path().join(STDOUT), "x").unwrap();
            streams.finish()
        };
        assert!(finish(ErrorKind::BrokenPipe).is_ok());
        let error = finish(ErrorKind::StorageFull).unwrap_err().to_string();
        assert!(error.contains("standard output"), "{error}");
    }
}
