//! Connection strings: finding single options in them, and hiding passwords.
//!
//! tokio-postgres parses connection strings, but not every option of libpq's. This module finds the
//! options of a string with their places, so that those can be taken out and passwords blanked.

use std::ops::Range;

/// What stands in the place of a password.
const HIDDEN: &str = "***";

/// One option of a connection string.
#[derive(Debug, PartialEq, Eq)]
struct Pair {
    /// The bytes of `key=value`, with the separator that follows.
    whole: Range<usize>,
    /// The bytes of the value as written.
    written: Range<usize>,
    key: String,
    value: String,
}

/// Takes the options `keys` out of `dsn`: the string without them, and their keys and values.
pub(super) fn take_options(dsn: &str, keys: &[&str]) -> (String, Vec<(String, String)>) {
    let mut rest = dsn.to_owned();
    let mut taken = Vec::new();
    for pair in pairs(dsn).into_iter().rev() {
        if keys.contains(&pair.key.as_str()) {
            rest.replace_range(pair.whole, "");
            taken.push((pair.key, pair.value));
        }
    }
    taken.reverse();
    (rest.trim_end_matches(['?', '&']).to_owned(), taken)
}

/// The words that this process was started with; what is not UTF-8 in them is replaced.
pub fn own_arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// A command line with every password in it blanked.
pub fn scrub_arguments(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    arguments.into_iter().map(|argument| scrub_argument(&argument)).collect()
}

/// A message in which arguments may be quoted, with their passwords blanked.
pub fn scrub_message(message: &str, arguments: impl IntoIterator<Item = String>) -> String {
    let mut scrubbed = message.to_owned();
    for argument in arguments {
        let hidden = scrub_argument(&argument);
        if hidden != argument {
            scrubbed = scrubbed.replace(&argument, &hidden);
        }
    }
    scrubbed
}

fn scrub_argument(argument: &str) -> String {
    match argument.split_once('=') {
        // Other programs' options: `--pgsql-password=…`.
        Some((option, _)) if option.starts_with("--") && option.contains("password") => {
            format!("{option}={HIDDEN}")
        }
        Some((option, value)) if option.starts_with("--") => format!("{option}={}", scrub(value)),
        _ => scrub(argument),
    }
}

/// `dsn` with its passwords blanked.
pub(crate) fn scrub(dsn: &str) -> String {
    let mut scrubbed = dsn.to_owned();
    for pair in pairs(dsn).into_iter().rev() {
        if percent_decode(&pair.key).to_lowercase().contains("password") {
            scrubbed.replace_range(pair.written, HIDDEN);
        }
    }
    if let Some(password) = url_password(&scrubbed) {
        scrubbed.replace_range(password, HIDDEN);
    }
    scrubbed
}

/// Where the password stands in `postgres://user:password@host`, the scheme forgotten or not.
fn url_password(dsn: &str) -> Option<Range<usize>> {
    let start = match dsn.find("://") {
        Some(scheme) => scheme + 3,
        None if dsn.contains('=') => return None,
        None => 0,
    };
    // A password may hold `/` or `?` unescaped by mistake: look for the last `@` before the options.
    let end = start + dsn[start..].rfind('@')?;
    let colon = start + dsn[start..end].find(':')?;
    Some(colon + 1..end)
}

fn pairs(dsn: &str) -> Vec<Pair> {
    if dsn.contains("://") { url_pairs(dsn) } else { keyword_pairs(dsn) }
}

/// The options after `?` in a URL.
fn url_pairs(dsn: &str) -> Vec<Pair> {
    let Some(question) = dsn.find('?') else { return Vec::new() };
    let mut pairs = Vec::new();
    let mut start = question + 1;
    for piece in dsn[question + 1..].split('&') {
        let end = start + piece.len();
        if let Some((key, value)) = piece.split_once('=') {
            pairs.push(Pair {
                whole: start..(end + 1).min(dsn.len()),
                written: end - value.len()..end,
                key: key.to_owned(),
                value: percent_decode(value),
            });
        }
        start = end + 1;
    }
    pairs
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%')
            .then(|| std::str::from_utf8(after.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The options of a `key = value key = 'va lue'` string.
fn keyword_pairs(dsn: &str) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut at = 0;
    while let Some(equals) = dsn[at..].find('=').map(|offset| at + offset) {
        let key = dsn[at..equals].split_whitespace().next_back().unwrap_or_default();
        let start = at + dsn[at..equals].rfind(key).unwrap_or_default();
        let value_start = equals + 1 + leading_space(&dsn[equals + 1..]);
        let (value, value_end) = keyword_value(dsn, value_start);
        let end = value_end + leading_space(&dsn[value_end..]);
        pairs.push(Pair {
            whole: start..end,
            written: value_start..value_end,
            key: key.to_owned(),
            value,
        });
        at = end;
    }
    pairs
}

fn leading_space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// The value that begins at `start`, without quotes and escapes, and where it ends.
fn keyword_value(dsn: &str, start: usize) -> (String, usize) {
    let quoted = dsn[start..].starts_with('\'');
    let mut value = String::new();
    let mut escaped = false;
    for (offset, character) in dsn[start..].char_indices().skip(usize::from(quoted)) {
        if escaped {
            value.push(character);
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if quoted && character == '\'' {
            return (value, start + offset + 1);
        } else if !quoted && character.is_whitespace() {
            return (value, start + offset);
        } else {
            value.push(character);
        }
    }
    (value, dsn.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(dsn: &str) -> (String, Vec<(String, String)>) {
        take_options(dsn, &["sslmode", "sslrootcert"])
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn a_message_that_quotes_an_argument_hides_its_password() {
        let arguments = ["-S", "postgresql://me:sesame@h/d", "host=x password=sesame"];
        let message =
            "unexpected argument 'postgresql://me:sesame@h/d'; -S; \"host=x password=sesame\"";
        let scrubbed = scrub_message(message, arguments.map(str::to_owned));
        assert!(!scrubbed.contains("sesame"), "{scrubbed}");
        assert!(scrubbed.contains("unexpected argument 'postgresql://me:"), "{scrubbed}");
    }

    #[test]
    fn a_password_hides_in_no_spelling_of_its_place() {
        for dsn in [
            "postgresql://h/d?user=me&pass%77ord=sesame",
            "postgresql://h/d?user=me&PASSWORD=sesame",
            "me:sesame@h:5432/d",
        ] {
            assert!(!scrub(dsn).contains("sesame"), "{}", scrub(dsn));
        }
        assert_eq!(scrub("host=a:b@c dbname=d"), "host=a:b@c dbname=d");
        assert_eq!(scrub("0,2-3"), "0,2-3");
    }

    #[test]
    fn options_are_taken_out_of_keyword_strings() {
        let (rest, taken) = take(r"host=a sslmode = verify-full  sslrootcert='/my \'dir' user=b");
        assert_eq!(rest, "host=a user=b");
        assert_eq!(taken, [pair("sslmode", "verify-full"), pair("sslrootcert", "/my 'dir")]);
    }

    #[test]
    fn options_are_taken_out_of_urls() {
        let (rest, taken) =
            take("postgres://u@h/d?sslmode=verify-ca&connect_timeout=3&sslrootcert=%2Fx");
        assert_eq!(rest, "postgres://u@h/d?connect_timeout=3");
        assert_eq!(taken, [pair("sslmode", "verify-ca"), pair("sslrootcert", "/x")]);
        assert_eq!(take("postgres://h?sslmode=require").0, "postgres://h");
    }

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        for argument in [
            "--dsn=host=h password=hunter2 user=u",
            "--dsn=host=h password='hun ter2' user=u",
            "host=h user=u password = hunter2",
            "postgres://u:hunter2@h/d",
            "postgresql://u:hun@ter2@h/d",
            "postgres://u:hunter2@h/d?sslpassword=hunter2&x=y",
            "postgres://h?password=hunter2",
            "--dsn=postgresql://u:hunter2@/d?host=/tmp",
        ] {
            let scrubbed = scrub_argument(argument);
            assert!(!scrubbed.contains("ter2"), "{scrubbed}");
            assert!(scrubbed.contains("***") && scrubbed.contains('h'), "{scrubbed}");
        }
    }

    #[test]
    fn what_holds_no_password_stays() {
        for argument in ["run", "-c", "8", "--dsn=host=h user=u", "postgres://u@h:5432/d"] {
            assert_eq!(scrub_argument(argument), argument);
        }
    }

    proptest! {
        #[test]
        fn no_password_survives(password in "[a-zA-Z0-9%!/?&= ']{4,20}", user in "[a-z]{1,3}") {
            let quoted = password.replace('\'', "\\'");
            let dsn = format!("user={user} password='{quoted}' host=h");
            prop_assert_eq!(scrub(&dsn), format!("user={user} password=*** host=h"));
        }

        #[test]
        fn any_text_is_scrubbed_without_panic(text in "\\PC{0,60}") {
            scrub_argument(&text);
            take(&text);
        }
    }
}
