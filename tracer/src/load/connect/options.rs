//! libpq's options that lockscope reads itself: from the connection string, else from a variable.

use std::env;
use std::str::FromStr;
use std::time::Duration;

use super::conninfo::take_options;
use super::target::TargetError;

/// Keyword in a connection string, and the variable that stands for it.
const OPTIONS: [(&str, &str); 13] = [
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("passfile", "PGPASSFILE"),
    ("gssencmode", "PGGSSENCMODE"),
    ("fallback_application_name", ""),
    // Read by no one here, but not worth refusing a connection string for.
    ("client_encoding", ""),
    ("sslcompression", ""),
];

/// The options of one connection.
#[derive(Debug)]
pub(super) struct Options {
    from_dsn: Vec<(String, String)>,
}

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Given {
    /// The keyword or the variable.
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl Options {
    /// Takes these options out of `dsn`: the string without them, and the options.
    pub(super) fn take(dsn: &str) -> (String, Self) {
        let keywords: Vec<&str> = OPTIONS.iter().map(|(keyword, _)| *keyword).collect();
        let (rest, from_dsn) = take_options(dsn, &keywords);
        (rest, Self { from_dsn })
    }

    /// Nothing but variables.
    pub(super) fn from_variables() -> Self {
        Self { from_dsn: Vec::new() }
    }

    /// The last value for a keyword; an empty one counts as not given, as in libpq.
    pub(super) fn get(&self, keyword: &str) -> Option<Given> {
        let (name, variable) = OPTIONS.iter().find(|(known, _)| *known == keyword)?;
        let in_dsn = self.from_dsn.iter().rev().find(|(given, _)| given == keyword);
        let given = match in_dsn {
            Some((_, value)) => Given { name, value: value.clone() },
            None => Given { name: variable, value: env::var(variable).ok()? },
        };
        (!given.value.is_empty()).then_some(given)
    }

    /// The same, parsed; `expected` names what is allowed.
    pub(super) fn parse<T: FromStr>(
        &self,
        keyword: &str,
        expected: &'static str,
    ) -> Result<Option<T>, TargetError> {
        let Some(Given { name, value }) = self.get(keyword) else { return Ok(None) };
        match value.parse() {
            Ok(parsed) => Ok(Some(parsed)),
            Err(_) => Err(TargetError::Option { name, value, expected }),
        }
    }
}

/// How long the start of a connection may take; `None` is for ever.
///
/// As in libpq, zero and less mean no limit. Without the option it is half a minute.
pub(super) fn connect_timeout(options: &Options) -> Result<Option<Duration>, TargetError> {
    const DEFAULT: Duration = Duration::from_secs(30);
    let seconds = options.parse::<i32>("connect_timeout", "a whole number of seconds")?;
    Ok(match seconds {
        None => Some(DEFAULT),
        Some(seconds) => u64::try_from(seconds).ok().filter(|s| *s > 0).map(Duration::from_secs),
    })
}

/// Which kind of server will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SessionAttributes {
    #[default]
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    /// A standby if there is one, else any.
    PreferStandby,
}

impl SessionAttributes {
    pub(super) const EXPECTED: &'static str =
        "any, read-write, read-only, primary, standby or prefer-standby";
}

impl FromStr for SessionAttributes {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "any" => Self::Any,
            "read-write" => Self::ReadWrite,
            "read-only" => Self::ReadOnly,
            "primary" => Self::Primary,
            "standby" => Self::Standby,
            "prefer-standby" => Self::PreferStandby,
            _ => return Err(()),
        })
    }
}

/// Whether SCRAM proves that both ends see the same TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Binding {
    Disable,
    /// Where the server offers it.
    #[default]
    Prefer,
    Require,
}

impl FromStr for Binding {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            _ => return Err(()),
        })
    }
}

/// In which order hosts are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Balance {
    /// As they are listed.
    #[default]
    Disable,
    /// Each connection in an order of its own.
    Random,
}

impl FromStr for Balance {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "disable" => Ok(Self::Disable),
            "random" => Ok(Self::Random),
            _ => Err(()),
        }
    }
}

/// The only value of `gssencmode` that cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoGss;

impl FromStr for NoGss {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        matches!(text, "disable" | "prefer").then_some(Self).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_zero_or_less_is_none() {
        let timeout = |dsn| connect_timeout(&Options::take(dsn).1);
        assert_eq!(timeout("connect_timeout=3").unwrap(), Some(Duration::from_secs(3)));
        assert_eq!(timeout("connect_timeout=0").unwrap(), None);
        assert_eq!(timeout("connect_timeout=-1").unwrap(), None);
        assert_eq!(timeout("host=h").unwrap(), Some(Duration::from_secs(30)));
        let error = timeout("connect_timeout=soon").unwrap_err().to_string();
        assert!(error.contains("connect_timeout") && error.contains("`soon`"), "{error}");
    }

    #[test]
    fn the_last_value_counts_and_an_empty_one_does_not() {
        let (rest, options) = Options::take("sslmode=disable host=h sslmode=require passfile=''");
        assert_eq!(rest, "host=h ");
        assert_eq!(options.get("sslmode").unwrap().value, "require");
        assert!(options.get("passfile").is_none());
    }
}
