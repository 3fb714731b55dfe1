//! The signatures: those in the binary, and a user's own.

use std::fs;
use std::io;
use std::path::Path;

use super::signature::{Signature, SignatureError};
use crate::filter::did_you_mean;

/// The files of `tracer/signatures`.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../signatures/", $name, ".toml")))),*]
    };
}

/// By name, as the directory lists them.
const BUILT_IN: &[(&str, &str)] = built_in![
    "block-plug-per-bio",
    "catcache-misses",
    "eevdf-preemption",
    "ext4-dioread-nolock",
    "futex-private-hash",
    "hdd-plug-order",
    "mm-cid-lock",
    "newidle-balance",
    "page-writeback-wait",
    "psi-cpu-clock",
    "s-lock-preempted",
    "sched-balance-running",
    "task-group-load",
    "xfs-ilock-log-force",
];

/// Those in the binary, and those of `directory`.
///
/// # Errors
/// The directory cannot be read or has none, a file is no signature, or two have one id.
pub fn catalogue(directory: Option<&Path>) -> Result<Vec<Signature>, SignatureError> {
    let mut all = BUILT_IN
        .iter()
        .map(|(name, text)| {
            let file = format!("signatures/{name}.toml");
            Signature::parse(text, &file)
                .map(|signature| Signature { origin: "built-in".to_owned(), ..signature })
        })
        .collect::<Result<Vec<_>, _>>()?;
    for signature in directory.map(of_directory).transpose()?.into_iter().flatten() {
        if let Some(first) = all.iter().find(|first| first.id == signature.id) {
            let (first, second) = (first.origin.clone(), signature.origin);
            return Err(SignatureError::SameId { id: signature.id, first, second });
        }
        all.push(signature);
    }
    Ok(all)
}

/// The one that is called `id`.
///
/// # Errors
/// None is; the message names what is near.
pub fn only(all: Vec<Signature>, id: &str) -> Result<Vec<Signature>, SignatureError> {
    if all.iter().any(|signature| signature.id == id) {
        return Ok(all.into_iter().filter(|signature| signature.id == id).collect());
    }
    let near = did_you_mean(id, all.iter().map(|signature| signature.id.as_str()));
    let ids: Vec<&str> = all.iter().map(|signature| signature.id.as_str()).collect();
    let near = if near.is_empty() { format!("; there are {}", ids.join(", ")) } else { near };
    Err(SignatureError::Unknown { id: id.to_owned(), near })
}

fn of_directory(directory: &Path) -> Result<Vec<Signature>, SignatureError> {
    let cannot = |path: &Path| {
        let path = path.to_owned();
        move |source| SignatureError::Read { path, source }
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(cannot(directory))? {
        let path = entry.map_err(cannot(directory))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            // A pipe would be waited for.
            if !path.is_file() {
                return Err(cannot(&path)(io::Error::other("it is no regular file")));
            }
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(SignatureError::Empty(directory.to_owned()));
    }
    files
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).map_err(cannot(path))?;
            Signature::parse(&text, &path.display().to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_directory_is_in_the_binary_under_its_id() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("signatures");
        let mut files: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let ids: Vec<String> = catalogue(None).unwrap().into_iter().map(|s| s.id).collect();
        assert_eq!(ids, files);
    }

    #[test]
    fn a_directory_adds_its_own_and_must_not_repeat_an_id() {
        let directory = tempfile::tempdir().unwrap();
        let error = || catalogue(Some(directory.path())).unwrap_err().to_string();
        assert!(error().contains("has no signature"), "{}", error());
        let (_, text) = BUILT_IN[0];
        let path = directory.path().join("own.toml");
        fs::write(&path, text).unwrap();
        assert!(error().contains("own.toml has the id") && error().contains("built-in"));
        fs::write(&path, text.replacen("block-plug-per-bio", "mine", 1)).unwrap();
        let all = catalogue(Some(directory.path())).unwrap();
        assert_eq!(all.len(), BUILT_IN.len() + 1);
        assert!(all.last().unwrap().origin.ends_with("own.toml"));
        fs::write(directory.path().join("twin.toml"), fs::read(&path).unwrap()).unwrap();
        assert!(error().contains("twin.toml has the id `mine`") && error().contains("own.toml"));
        fs::remove_file(directory.path().join("twin.toml")).unwrap();
        let message = only(all, "mm-cid-loc").unwrap_err().to_string();
        assert!(message.contains("did you mean mm-cid-lock?"), "{message}");
        fs::create_dir(directory.path().join("other.toml")).unwrap();
        assert!(error().contains("other.toml") && error().contains("no regular file"));
        let none = catalogue(Some(Path::new("/no/such/place"))).unwrap_err().to_string();
        assert!(none.contains("/no/such/place"), "{none}");
    }
}
