//! The configuration that the running kernel was built with.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;

use flate2::read::GzDecoder;

/// `CONFIG_…` options and their values; an option that is off is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelConfig(BTreeMap<String, String>);

impl KernelConfig {
    /// Reads `/proc/config.gz`, else `/boot/config-RELEASE`, else the copy beside the modules.
    /// Absent when the distribution ships none of them.
    pub fn of_running_kernel(release: &str) -> Option<Self> {
        let packed = File::open("/proc/config.gz").ok().and_then(|file| {
            let mut text = String::new();
            GzDecoder::new(file).read_to_string(&mut text).ok().map(|_| text)
        });
        let text = packed.or_else(|| {
            [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")]
                .iter()
                .find_map(|path| fs::read_to_string(path).ok())
        })?;
        Some(Self::parse(&text))
    }

    /// Parses the text of a `.config`.
    pub fn parse(text: &str) -> Self {
        let options = text.lines().filter(|line| line.starts_with("CONFIG_"));
        let pairs = options.filter_map(|line| line.split_once('='));
        KernelConfig(
            pairs.map(|(name, value)| (name.into(), value.trim_matches('"').into())).collect(),
        )
    }

    /// The value of an option (`y`, `m`, a number, a string), absent when it is off.
    pub fn get(&self, option: &str) -> Option<&str> {
        self.0.get(option).map(String::as_str)
    }

    /// Whether an option is built in.
    pub fn is_on(&self, option: &str) -> bool {
        self.get(option) == Some("y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_options_and_leaves_out_what_is_off() {
        let config =
            KernelConfig::parse("# comment\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x y\"\n");
        assert!(config.is_on("CONFIG_A"));
        assert_eq!(config.get("CONFIG_B"), None);
        assert_eq!(config.get("CONFIG_C"), Some("x y"));
    }
}
