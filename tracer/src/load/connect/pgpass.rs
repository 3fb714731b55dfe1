//! libpq's password file.

use std::path::{Path, PathBuf};
use std::{env, fs};

use super::secret::Secret;

/// Where the password file is by default.
pub(super) fn default_path() -> Option<PathBuf> {
    env::home_dir().map(|home| home.join(".pgpass"))
}

/// The password for a connection, if the file has one.
///
/// As in libpq, a file that others may read is not used; the refusal is logged.
pub(super) fn lookup(
    path: &Path,
    host: &str,
    port: u16,
    database: &str,
    user: &str,
) -> Option<Secret> {
    if !is_private(path) {
        return None;
    }
    let content = fs::read_to_string(path).ok()?;
    find(&content, [host, &port.to_string(), database, user])
}

fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(metadata) = fs::metadata(path) else { return false };
    let private = metadata.is_file() && metadata.mode() & 0o077 == 0;
    if !private {
        log::warn!(
            "password file {} is not used: it must be a plain file that only its owner can read (chmod 0600)",
            path.display()
        );
    }
    private
}

fn find(content: &str, wanted: [&str; 4]) -> Option<Secret> {
    content.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = split(line);
        let (password, keys) = fields.split_last()?;
        let matches = keys.len() == wanted.len()
            && keys.iter().zip(wanted).all(|(key, wanted)| key == "*" || key == wanted);
        matches.then(|| Secret::new(password.clone()))
    })
}

/// Fields between colons; a backslash keeps the next character as it is.
fn split(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.extend_last(characters.next()),
            other => fields.extend_last(Some(other)),
        }
    }
    fields
}

trait ExtendLast {
    fn extend_last(&mut self, character: Option<char>);
}

impl ExtendLast for Vec<String> {
    fn extend_last(&mut self, character: Option<char>) {
        if let Some(last) = self.last_mut() {
            last.extend(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# comment\nbroken\ndb:5432:*:bench:first\n*:*:*:bench:a\\:b\\\\c:d\n";

    fn password(wanted: [&str; 4]) -> Option<String> {
        find(FILE, wanted).map(|secret| secret.reveal().to_owned())
    }

    #[test]
    fn the_first_matching_line_wins() {
        assert_eq!(password(["db", "5432", "postgres", "bench"]).unwrap(), "first");
    }

    #[test]
    fn escapes_are_undone_and_later_colons_belong_to_the_password() {
        assert_eq!(password(["db", "1", "postgres", "bench"]).unwrap(), "a:b\\c:d");
    }

    #[test]
    fn nobody_else_gets_a_password() {
        assert_eq!(password(["db", "5432", "postgres", "alice"]), None);
    }
}
