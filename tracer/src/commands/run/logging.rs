//! The transaction logs, whose failure must cost nothing but themselves.

use crate::commands::output::say;
use crate::load::TransactionRecord;
use crate::load::log::{LogError, Logs};
use crate::model::Warning;

/// Logs, if there are any, and what went wrong with them.
pub(super) struct Logging {
    logs: Option<Logs>,
    errors: Vec<LogError>,
}

impl Logging {
    /// The measured part begins at `start_ns`.
    pub(super) fn new(mut logs: Option<Logs>, start_ns: u64) -> Self {
        if let Some(logs) = &mut logs {
            logs.begin(start_ns);
        }
        Self { logs, errors: Vec::new() }
    }

    pub(super) fn record(&mut self, record: &TransactionRecord) {
        if let Some(Err(error)) = self.logs.as_mut().map(|logs| logs.record(record)) {
            say(&format!("lockscope: {error}; the run goes on without this log"));
            self.errors.push(error);
        }
    }

    /// Writes out what is left; what the reader of the report must know.
    pub(super) fn finish(mut self) -> Vec<Warning> {
        for error in self.logs.map(Logs::finish).unwrap_or_default() {
            say(&format!("lockscope: {error}"));
            self.errors.push(error);
        }
        let warning = |error: LogError| {
            Warning {
            code: "log-incomplete".to_owned(),
            text: error.to_string(),
            remedy: Some(
                "the file is cut off somewhere; nothing else is lost: the numbers count every transaction"
                    .to_owned(),
            ),
        }
        };
        self.errors.into_iter().map(warning).collect()
    }
}
