//! The cases that run in guests: scripts in `tests/vm`, each with a small header.
//!
//! ```text
//! #!/bin/bash
//! # What must hold, in a sentence.
//! # kernels: 5.19..7.0        (optional, each bound too, both inclusive)
//! # flavours: generic, rt     (optional; without it generic kernels only)
//! # timeout: 60               (seconds)
//! ```
//!
//! A case passes with exit status 0 and is skipped with 77, the last line of its output being the
//! reason. Everything else is a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::kernels::{Flavour, Kernel, Version};

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) timeout: Duration,
    kernels: Kernels,
    flavours: Vec<Flavour>,
}

/// The kernels a case is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kernels {
    min: Option<Version>,
    max: Option<Version>,
}

impl Case {
    /// A case for every kernel.
    pub(super) fn new(name: &str, program: PathBuf, timeout: Duration) -> Self {
        let flavours = vec![Flavour::Generic, Flavour::Rt, Flavour::Xen];
        Self { name: name.to_owned(), program, timeout, kernels: Kernels::default(), flavours }
    }

    pub(super) fn applies_to(&self, kernel: &Kernel) -> bool {
        self.flavours.contains(&kernel.series.flavour) && self.kernels.contain(kernel.version)
    }

    fn read(program: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(&program).context("cannot read it")?;
        let name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let timeout = header(&text, "timeout").context("no `# timeout:` line")?;
        let seconds = timeout.parse().with_context(|| format!("strange timeout `{timeout}`"))?;
        let kernels = header(&text, "kernels").map(Kernels::parse).transpose()?.unwrap_or_default();
        let flavours = header(&text, "flavours").map_or(Ok(vec![Flavour::Generic]), flavours)?;
        Ok(Self { name, program, timeout: Duration::from_secs(seconds), kernels, flavours })
    }
}

fn flavours(list: &str) -> Result<Vec<Flavour>> {
    let parse = |name: &str| {
        Flavour::parse(name.trim()).with_context(|| format!("unknown flavour `{}`", name.trim()))
    };
    list.split(',').map(parse).collect()
}

impl Kernels {
    fn parse(range: &str) -> Result<Self> {
        let Some((min, max)) = range.split_once("..") else {
            bail!("strange kernel range `{range}`; write `6.1..`, `..6.12` or `6.1..6.12`");
        };
        let bound = |text: &str| match text {
            "" => Ok(None),
            text => Version::parse(text)
                .map(Some)
                .with_context(|| format!("strange kernel version `{text}`")),
        };
        Ok(Self { min: bound(min)?, max: bound(max)? })
    }

    fn contain(self, version: Version) -> bool {
        self.min.is_none_or(|min| min <= version) && self.max.is_none_or(|max| version <= max)
    }
}

/// The value of `# key: value` in the comment at the top of a script.
fn header<'a>(script: &'a str, key: &str) -> Option<&'a str> {
    script.lines().take_while(|line| line.starts_with('#')).find_map(|line| {
        let value = line.trim_start_matches('#').trim().strip_prefix(key)?.strip_prefix(':')?;
        Some(value.trim())
    })
}

/// All cases of a directory, by name.
pub(super) fn read_all(dir: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry.context("cannot list the cases")?.path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            let case = Case::read(path.clone());
            cases.push(case.with_context(|| format!("{} is not a case", path.display()))?);
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_end_with_the_leading_comment() {
        let script = "#!/bin/sh\n# Locks lock.\n# timeout: 30\n\n# kernels: 6.1..\n";
        assert_eq!(header(script, "timeout"), Some("30"));
        assert_eq!(header(script, "kernels"), None);
    }

    #[test]
    fn kernel_ranges_include_their_bounds() {
        let kernels = Kernels::parse("5.19..6.12").expect("a range");
        let applies = |text| kernels.contain(Version::parse(text).expect("a version"));
        assert!(applies("5.19") && applies("6.1") && applies("6.12"));
        assert!(!applies("5.10") && !applies("6.13"));
        assert_eq!(Kernels::parse("..").expect("a range"), Kernels::default());
        for bad in ["6.1", "six..", "..x"] {
            assert!(Kernels::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn flavours_are_a_list() {
        assert_eq!(flavours("generic, rt").expect("a list"), [Flavour::Generic, Flavour::Rt]);
        assert!(flavours("generic rt").is_err());
    }

    #[test]
    fn the_repository_s_cases_all_have_valid_headers() {
        let dir = crate::shell::workspace_root().join("tests/vm");
        let cases = read_all(&dir).expect("valid cases");
        assert!(!cases.is_empty());
    }
}
