//! The directory through which a job and its guest talk.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::{Job, Wanted};
use crate::{PREPARE_SCRIPT, VmError, quote};

/// Its name in a job's directory.
pub(super) const SHARE: &str = "share";
const JOB_SCRIPT: &str = include_str!("job.sh");

/// Lays out what the guest reads.
pub(super) fn prepare(job: &Job<'_>, busybox: &Path, share: &Path) -> Result<(), VmError> {
    fs::create_dir_all(share.join("files")).map_err(VmError::io("create the guest's share"))?;
    let files: [(&str, &[u8]); 4] = [
        ("guest.sh", JOB_SCRIPT.as_bytes()),
        ("prepare.sh", PREPARE_SCRIPT.as_bytes()),
        ("settings", &settings(job, busybox)),
        ("command.sh", &command(job)),
    ];
    for (name, content) in files {
        fs::write(share.join(name), content)
            .map_err(VmError::io(format!("write the guest's {name}")))?;
    }
    Ok(())
}

/// The command's exit code, once it has one.
pub(super) fn code(share: &Path) -> Option<u8> {
    fs::read_to_string(share.join("status")).ok()?.trim().parse().ok()
}

/// Shell variables, and `hand_over_files`, which calls the job's script for each wanted.
fn settings(job: &Job<'_>, busybox: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    assign(&mut text, "BUSYBOX", busybox.as_os_str());
    assign(&mut text, "DIRECTORY", job.directory.as_os_str());
    let (disks, file_system) = job.storage.map_or_else(Default::default, |storage| {
        (storage.disks.to_string(), storage.file_system.to_string())
    });
    assign(&mut text, "DISKS", OsStr::new(&disks));
    assign(&mut text, "FILE_SYSTEM", OsStr::new(&file_system));
    for (name, value) in job.environment {
        text.extend(b"export ");
        assign(&mut text, &name.to_string_lossy(), value);
    }
    text.extend(b"hand_over_files() {\n    :\n");
    for (index, wanted) in job.wanted.iter().enumerate() {
        let (function, path, rest) = match wanted {
            Wanted::File(path) => ("hand_over", path, ""),
            Wanted::Directory(path) => ("hand_over_all", path, ""),
            Wanted::Beginning(path) => ("hand_over", path, ".*"),
        };
        text.extend(format!("    {function} {index} ").bytes());
        text.extend(quote(path.as_os_str()));
        text.extend(rest.bytes());
        text.push(b'\n');
    }
    text.extend(b"}\n");
    text
}

fn assign(text: &mut Vec<u8>, name: &str, value: &OsStr) {
    text.extend(name.bytes());
    text.push(b'=');
    text.extend(quote(value));
    text.push(b'\n');
}

fn command(job: &Job<'_>) -> Vec<u8> {
    let mut text = b"exec".to_vec();
    for word in job.words {
        text.push(b' ');
        text.extend(quote(word));
    }
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    fn words(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    fn job<'a>(
        words: &'a [OsString],
        environment: &'a [(OsString, OsString)],
        wanted: &'a [Wanted],
    ) -> Job<'a> {
        let (directory, limit) = (Path::new("/it's here"), Duration::from_secs(1));
        Job { words, environment, directory, wanted, storage: None, limit }
    }

    /// What a shell makes of the share's files and `script` behind them.
    fn shell(job: &Job<'_>, script: &str) -> String {
        let place = tempfile::tempdir().unwrap();
        prepare(job, Path::new("/bin/busybox"), place.path()).unwrap();
        let script = format!("share={}\n. \"$share/settings\"\n{script}", place.path().display());
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn the_command_and_its_variables_arrive_as_they_were() {
        let words = words(&["/bin/printf", "<%s>", "a b", "$X", "it's", ""]);
        let environment = [("PGOPTIONS".into(), "-c a='b $c'".into())];
        let job = job(&words, &environment, &[]);
        assert_eq!(shell(&job, ". \"$share/command.sh\""), "<a b><$X><it's><>");
        let said = shell(&job, "echo \"$DIRECTORY|$DISKS|$(sh -c 'echo \"$PGOPTIONS\"')\"");
        assert_eq!(said, "/it's here||-c a='b $c'\n");
    }

    #[test]
    fn each_wanted_is_handed_over_by_its_kind() {
        let wanted = [
            Wanted::File(PathBuf::from("/t/a run")),
            Wanted::Directory(PathBuf::from("/t/runs")),
            Wanted::Beginning(PathBuf::from("/nonexistent/log")),
        ];
        let say = "hand_over() { echo \"one $*\"; }\nhand_over_all() { echo \"all $*\"; }\n";
        let said = shell(&job(&words(&["x"]), &[], &wanted), &format!("{say}hand_over_files"));
        assert_eq!(said, "one 0 /t/a run\nall 1 /t/runs\none 2 /nonexistent/log.*\n");
    }

    #[test]
    fn the_script_hands_over_what_is_new() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).display().to_string();
        fs::create_dir(path("runs")).unwrap();
        for old in ["old", "runs/old"] {
            fs::write(path(old), "old").unwrap();
            let epoch = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1);
            fs::File::open(path(old)).unwrap().set_modified(epoch).unwrap();
        }
        // The functions as the guest has them, without the system that is around them.
        let begin = JOB_SCRIPT.find("# hand_over ").expect("the functions");
        let end = JOB_SCRIPT.find("# The command.").expect("their end");
        let steps = format!(
            "share={0}\nmark={0}/mark\n{1}\n: >\"$mark\"\nsleep 0.05\n\
             echo new >{0}/new\necho new >{0}/runs/new\necho new >{0}/log.1\n\
             hand_over 0 {0}/new\nhand_over 1 {0}/old\nhand_over_all 2 {0}/runs\nhand_over 3 {0}/log.*\n\
             hand_over 4 {0}/absent",
            place.path().display(),
            &JOB_SCRIPT[begin..end],
        );
        let status = Command::new("sh").args(["-ec", &steps]).status().unwrap();
        assert!(status.success());
        let names = |index: usize| {
            let entries = fs::read_dir(path(&format!("files/{index}"))).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["new"]);
        assert!(names(1).is_empty() && names(4).is_empty());
        assert_eq!(names(2), ["new"]);
        assert_eq!(names(3), ["log.1"]);
    }
}
