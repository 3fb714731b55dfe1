//! What the reply to one request said, as it arrives, and where its rows go.

use super::abort::ServerError;
use super::frames::Frame;
use crate::load::script::{Results, Variables, is_variable_name};

/// What a reply said so far.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// ReadyForQuery messages.
    pub(super) ready_count: u32,
    /// The transaction status of the last of them.
    pub(super) status: u8,
    /// The first error: it is the cause of any others.
    pub(super) error: Option<ServerError>,
    pub(super) copy: bool,
    /// For each statement that was prepared, how many ReadyForQuery came before.
    pub(super) parsed: Vec<u32>,
    /// Why the rows cannot become variables.
    pub(super) problem: Option<String>,
    rows: Rows,
}

/// The transaction status outside of a transaction block.
pub(super) const IDLE: u8 = b'I';

impl Reply {
    /// Nothing said yet.
    pub(super) fn of_new_connection() -> Self {
        Self { status: IDLE, ..Self::default() }
    }

    /// Makes it ready for the next request.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.ready_count = 0;
        self.error = None;
        self.parsed.clear();
    }

    /// Takes a frame of a reply whose rows nobody wants.
    #[inline]
    pub(super) fn take(&mut self, frame: &Frame<'_>) {
        match *frame {
            Frame::Ready(status) => {
                self.ready_count += 1;
                self.status = status;
            }
            Frame::Error(payload) => {
                self.error.get_or_insert_with(|| ServerError::parse(payload));
            }
            Frame::Copy => self.copy = true,
            Frame::Parsed => self.parsed.push(self.ready_count),
            Frame::Columns(_) | Frame::Row(_) | Frame::Completed => {}
        }
    }

    /// Takes a frame of a reply whose rows become variables.
    pub(super) fn take_rows(
        &mut self,
        frame: &Frame<'_>,
        results: &Results,
        variables: &mut Variables,
    ) {
        match *frame {
            Frame::Columns(payload) => self.rows.begin(payload),
            Frame::Row(payload) => self.rows.add(payload),
            Frame::Completed => {
                // A result without columns follows another: it has no rows.
                if self.rows.is_complete {
                    self.rows.forget();
                }
                self.rows.is_complete = true;
                if results.every && self.rows.count.is_some_and(|count| count > 0) {
                    self.store(results, variables);
                }
                if results.every {
                    self.rows.forget();
                }
            }
            Frame::Ready(_) if !results.every && self.error.is_none() => {
                match self.rows.count {
                    Some(1) => self.store(results, variables),
                    count => {
                        let text = format!("expected one row, got {}", count.unwrap_or(0));
                        self.problem.get_or_insert(text);
                    }
                }
                self.rows.forget();
            }
            Frame::Ready(_) => self.rows.forget(),
            _ => {}
        }
        self.take(frame);
    }

    fn store(&mut self, results: &Results, variables: &mut Variables) {
        if let Err(problem) = self.rows.store(&results.prefix, variables) {
            self.problem.get_or_insert(problem);
        }
    }
}

/// The last row of one result.
#[derive(Debug, Default)]
struct Rows {
    /// RowDescription.
    columns: Vec<u8>,
    /// DataRow.
    last: Vec<u8>,
    /// Rows of this result; none where the statement returns no rows at all.
    count: Option<u64>,
    /// The next frames belong to another result.
    is_complete: bool,
    /// For a variable's name.
    name: String,
}

/// Largest memory that is kept for the next result.
const KEPT_BYTES: usize = 1 << 16;

impl Rows {
    fn begin(&mut self, columns: &[u8]) {
        self.forget();
        self.columns.extend_from_slice(columns);
        self.count = Some(0);
    }

    fn add(&mut self, row: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(row);
        self.count = self.count.map(|count| count + 1);
    }

    fn forget(&mut self) {
        self.count = None;
        self.is_complete = false;
        for buffer in [&mut self.columns, &mut self.last] {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES);
        }
    }

    /// Sets the variables that the row's columns name.
    fn store(&mut self, prefix: &str, variables: &mut Variables) -> Result<(), String> {
        let malformed = || "the server's row is malformed".to_owned();
        let mut columns = Bytes(&self.columns);
        let mut row = Bytes(&self.last);
        let count = columns.u16().ok_or_else(malformed)?;
        if row.u16() != Some(count) {
            return Err(malformed());
        }
        for _ in 0..count {
            let column = columns.column().ok_or_else(malformed)?;
            let value = row.value().ok_or_else(malformed)?;
            self.name.clear();
            self.name.push_str(prefix);
            self.name.push_str(&String::from_utf8_lossy(column));
            // A name that nothing mentions needs no variable, but must be one.
            if let Some(index) = variables.index(&self.name) {
                variables.set_text(index, value);
            } else if !is_variable_name(&self.name) {
                return Err(format!("invalid variable name: \"{}\"", self.name));
            }
        }
        Ok(())
    }
}

/// What is left of a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// The name of a column; its table, type and format are of no interest.
    fn column(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let name = self.take(end)?;
        self.take(1 + 18)?;
        Some(name)
    }

    /// A column's value; null is empty.
    fn value(&mut self) -> Option<&'a [u8]> {
        let length = i32::from_be_bytes(self.take(4)?.try_into().ok()?);
        if length == -1 { Some(&[]) } else { self.take(usize::try_from(length).ok()?) }
    }
}
