//! Versions of kernels and servers, in their order.

use std::fmt;

use winnow::ascii::dec_uint;
use winnow::combinator::{alt, eof, opt, preceded, terminated};
use winnow::error::EmptyError;
use winnow::prelude::*;

/// Whose versions they are: what a series is, and how candidates are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Product {
    /// `6.3-rc1` is before `6.3`, and that before `6.3.1`; `6.3-rc` is before every candidate of 6.3.
    Kernel,
    /// `19devel` is before `19beta1`, that before `19rc1`, and that before `19`, which is `19.0`.
    Postgres,
}

impl Product {
    /// As a run records it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Product::Kernel => "kernel",
            Product::Postgres => "postgres",
        }
    }

    /// What its versions look like.
    pub(super) fn examples(self) -> &'static str {
        match self {
            Product::Kernel => "6.12, 6.3.1 or 6.3-rc2",
            Product::Postgres => "17, 15.18, 9.6.24 or 19beta1",
        }
    }
}

/// Versions of one product are ordered; those of different ones are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    product: Product,
    major: u32,
    minor: u32,
    patch: u32,
    stage: Stage,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Development,
    Beta(u32),
    /// 0 is before the first.
    Candidate(u32),
    Release,
}

impl Version {
    /// What `text` begins with: `6.12.41+deb13-amd64`, `17.2 (Debian 17.2-1)`.
    pub(super) fn leading(product: Product, text: &str) -> Option<Version> {
        version(product).parse_next(&mut text.trim_start()).ok()
    }

    /// All of `text`.
    pub(super) fn whole(product: Product, text: &str) -> Option<Version> {
        terminated(version(product), eof).parse_next(&mut text.trim()).ok()
    }

    /// Whether both are of one series: Linux 6.12.3 and 6.12.41, Postgres 15.4 and 15.18, 9.6.1 and 9.6.24.
    pub(super) fn same_series(self, other: Version) -> bool {
        self.series() == other.series()
    }

    fn series(self) -> (u32, u32) {
        // Since Postgres 10 the second number counts the minor releases.
        let of_one_number = self.product == Product::Postgres && self.major >= 10;
        (self.major, if of_one_number { 0 } else { self.minor })
    }
}

fn version(product: Product) -> impl FnMut(&mut &str) -> winnow::Result<Version, EmptyError> {
    move |input| {
        let major = dec_uint.parse_next(input)?;
        let minor = opt(part).parse_next(input)?.unwrap_or(0);
        let patch = opt(part).parse_next(input)?.unwrap_or(0);
        let stage = match product {
            Product::Kernel => opt(candidate).parse_next(input)?,
            Product::Postgres => opt(before_release).parse_next(input)?,
        };
        Ok(Version { product, major, minor, patch, stage: stage.unwrap_or(Stage::Release) })
    }
}

fn part(input: &mut &str) -> winnow::Result<u32, EmptyError> {
    preceded('.', dec_uint).parse_next(input)
}

fn candidate(input: &mut &str) -> winnow::Result<Stage, EmptyError> {
    let number = preceded("-rc", opt(dec_uint::<_, u32, EmptyError>)).parse_next(input)?;
    Ok(Stage::Candidate(number.unwrap_or_default()))
}

fn before_release(input: &mut &str) -> winnow::Result<Stage, EmptyError> {
    alt((
        "devel".value(Stage::Development),
        preceded("beta", dec_uint).map(Stage::Beta),
        preceded("rc", dec_uint).map(Stage::Candidate),
    ))
    .parse_next(input)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { product, major, minor, patch, stage } = *self;
        write!(f, "{major}")?;
        if product == Product::Kernel || minor > 0 {
            write!(f, ".{minor}")?;
        }
        if patch > 0 {
            write!(f, ".{patch}")?;
        }
        match (product, stage) {
            (_, Stage::Release) => Ok(()),
            (_, Stage::Development) => f.write_str("devel"),
            (_, Stage::Beta(number)) => write!(f, "beta{number}"),
            (Product::Kernel, Stage::Candidate(0)) => f.write_str("-rc"),
            (Product::Kernel, Stage::Candidate(number)) => write!(f, "-rc{number}"),
            (Product::Postgres, Stage::Candidate(number)) => write!(f, "rc{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Product::*;
    use super::*;

    fn are_ordered(product: Product, texts: &[&str]) {
        let versions: Vec<Version> =
            texts.iter().map(|text| Version::leading(product, text).unwrap()).collect();
        assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
    }

    #[test]
    fn candidates_come_before_their_release() {
        let kernels =
            ["5.10.4", "6.3-rc", "6.3.0-rc2-next", "6.3-rc10", "6.3", "6.3.1-1-amd64", "6.12"];
        are_ordered(Kernel, &kernels);
        let servers =
            ["9.6.24", "10", "15.4", "15.18", "16devel", "16beta2", "16rc1", "16.0", "16.1"];
        are_ordered(Postgres, &servers);
    }

    #[test]
    fn a_series_of_postgres_is_its_major_version() {
        for (product, left, right, expected) in [
            (Kernel, "6.12.3", "6.12.41", true),
            (Kernel, "6.12", "6.13", false),
            (Postgres, "15", "15.18", true),
            (Postgres, "15.18", "16.18", false),
            (Postgres, "9.6.1", "9.6.24", true),
            (Postgres, "9.5", "9.6", false),
        ] {
            let [left, right] = [left, right].map(|text| Version::whole(product, text).unwrap());
            assert_eq!(left.same_series(right), expected, "{left} and {right}");
        }
    }

    #[test]
    fn servers_and_distributions_say_more_than_a_number() {
        let shown = |product, text: &str| {
            Version::leading(product, text).map(|version| version.to_string())
        };
        let debian = "17.2 (Debian 17.2-1.pgdg120+1)";
        assert_eq!(shown(Postgres, debian).as_deref(), Some("17.2"));
        assert_eq!(shown(Kernel, "6.12.41+deb13-amd64").as_deref(), Some("6.12.41"));
        assert_eq!(shown(Kernel, "6.1.0-53-amd64").as_deref(), Some("6.1"));
        assert_eq!(shown(Postgres, "19devel").as_deref(), Some("19devel"));
        assert_eq!(shown(Postgres, "19.0").as_deref(), Some("19"));
        assert_eq!(shown(Kernel, "linux"), None);
        assert_eq!(shown(Kernel, "99999999999.1"), None);
        assert_eq!(Version::whole(Kernel, "6.12.41+deb13"), None);
        assert_eq!(Version::whole(Kernel, "6.3rc1"), None);
        assert_eq!(Version::whole(Postgres, "16-rc1"), None);
        assert!(Version::whole(Kernel, "6.3-rc").is_some());
        assert!(Version::whole(Postgres, "11").is_some());
    }
}
