//! Versions of kernels and servers, in their order.

use std::fmt;

use winnow::ascii::dec_uint;
use winnow::combinator::{eof, opt, preceded, terminated};
use winnow::error::EmptyError;
use winnow::prelude::*;

/// `6.3-rc1` is before `6.3`, and that before `6.3.1`; `6.3-rc` is before every candidate of 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
    /// Number of the release candidate; `u32::MAX` of the release.
    candidate: u32,
}

impl Version {
    /// What `text` begins with: `6.12.41+deb13-amd64`, `17.2 (Debian 17.2-1)`.
    pub(super) fn leading(text: &str) -> Option<Version> {
        version.parse_next(&mut text.trim_start()).ok()
    }

    /// All of `text`.
    pub(super) fn whole(text: &str) -> Option<Version> {
        terminated(version, eof).parse_next(&mut text.trim()).ok()
    }

    /// Whether both are of one series: 6.12.3 and 6.12.41.
    pub(super) fn same_series(self, other: Version) -> bool {
        (self.major, self.minor) == (other.major, other.minor)
    }
}

fn version(input: &mut &str) -> winnow::Result<Version, EmptyError> {
    let candidate = preceded("-rc", opt(dec_uint::<_, u32, EmptyError>));
    let (major, minor, patch, candidate) =
        (dec_uint, opt(part), opt(part), opt(candidate)).parse_next(input)?;
    Ok(Version {
        major,
        minor: minor.unwrap_or(0),
        patch: patch.unwrap_or(0),
        candidate: candidate.map_or(u32::MAX, Option::unwrap_or_default),
    })
}

fn part(input: &mut &str) -> winnow::Result<u32, EmptyError> {
    preceded('.', dec_uint).parse_next(input)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch > 0 {
            write!(f, ".{}", self.patch)?;
        }
        match self.candidate {
            u32::MAX => Ok(()),
            0 => f.write_str("-rc"),
            candidate => write!(f, "-rc{candidate}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_come_before_their_release() {
        let texts =
            ["5.10.4", "6.3-rc", "6.3.0-rc2-next", "6.3-rc10", "6.3", "6.3.1-1-amd64", "6.12"];
        let versions: Vec<Version> =
            texts.iter().map(|text| Version::leading(text).unwrap()).collect();
        assert!(versions.is_sorted() && versions.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn servers_and_distributions_say_more_than_a_number() {
        let shown = |text: &str| Version::leading(text).map(|version| version.to_string());
        assert_eq!(shown("17.2 (Debian 17.2-1.pgdg120+1)").as_deref(), Some("17.2"));
        assert_eq!(shown("6.12.41+deb13-amd64").as_deref(), Some("6.12.41"));
        assert_eq!(shown("6.1.0-53-amd64").as_deref(), Some("6.1"));
        assert_eq!(shown("19devel").as_deref(), Some("19.0"));
        assert_eq!(shown("linux"), None);
        assert_eq!(Version::whole("6.12.41+deb13"), None);
        assert!(Version::whole("6.3-rc").is_some() && Version::whole("11").is_some());
    }
}
