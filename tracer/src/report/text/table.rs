//! Aligned columns that give way when the line is narrow.

use std::borrow::Cow;

use crate::analyse::units::{duration, percent};

/// Where a cell's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    title: Cow<'static, str>,
    group: &'static str,
    align: Align,
    /// 0 stays; the highest is left out first.
    expendable: u8,
}

impl Column {
    pub(super) fn left(title: &'static str) -> Column {
        Column::titled(title, Align::Left)
    }

    pub(super) fn right(title: &'static str) -> Column {
        Column::titled(title, Align::Right)
    }

    /// A title that is not known beforehand.
    pub(super) fn titled(title: impl Into<Cow<'static, str>>, align: Align) -> Column {
        Column { title: title.into(), group: "", align, expendable: 0 }
    }

    /// Neighbours with the same group share a title above theirs.
    pub(super) fn group(mut self, group: &'static str) -> Column {
        self.group = group;
        self
    }

    /// May be left out, the higher the sooner.
    pub(super) fn expendable(mut self, order: u8) -> Column {
        self.expendable = order;
        self
    }
}

/// A row of cells, or a rule across.
enum Row {
    Cells(Vec<String>),
    Rule,
}

/// A table; its last column wraps when it is left-aligned.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

const GAP: &str = "  ";
const INDENT: &str = "  ";
/// A wrapped last column keeps its words whole as long as they are not longer than this.
const LONGEST_WORD: usize = 44;

impl Table {
    pub(super) fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(Row::Cells(cells));
    }

    pub(super) fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    /// The lines, none wider than `width` as long as the columns that stay allow it.
    pub(super) fn render(&self, width: usize) -> Vec<String> {
        let (kept, widths) = self.layout(width);
        let mut lines = Vec::new();
        if kept.iter().any(|&index| !self.columns[index].group.is_empty()) {
            lines.push(self.group_line(&kept, &widths));
        }
        let titles: Vec<String> = self.columns.iter().map(|c| c.title.to_string()).collect();
        lines.extend(self.cell_lines(&kept, &widths, &titles));
        let full = widths.iter().sum::<usize>() + GAP.len() * (kept.len() - 1);
        for row in &self.rows {
            match row {
                Row::Cells(cells) => lines.extend(self.cell_lines(&kept, &widths, cells)),
                Row::Rule => lines.push(format!("{INDENT}{}", "-".repeat(full))),
            }
        }
        lines.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    /// The columns that stay and their widths.
    fn layout(&self, width: usize) -> (Vec<usize>, Vec<usize>) {
        let natural: Vec<usize> =
            (0..self.columns.len()).map(|index| self.natural(index)).collect();
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let mut widths: Vec<usize> = kept.iter().map(|&index| natural[index]).collect();
            let total = INDENT.len() + widths.iter().sum::<usize>() + GAP.len() * (kept.len() - 1);
            let excess = total.saturating_sub(width);
            let Some(last) = widths.last_mut() else { return (kept, widths) };
            let wraps = kept.last().is_some_and(|&index| self.columns[index].align == Align::Left);
            let spare = if wraps { last.saturating_sub(self.longest_word()) } else { 0 };
            if excess <= spare {
                *last -= excess;
                return (kept, widths);
            }
            let dispensable = kept
                .iter()
                .enumerate()
                .filter(|(_, index)| self.columns[**index].expendable > 0)
                .max_by_key(|(_, index)| self.columns[**index].expendable);
            match dispensable {
                Some((position, _)) => kept.remove(position),
                None => {
                    *last -= spare;
                    return (kept, widths);
                }
            };
        }
    }

    fn natural(&self, index: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => Some(length(&cells[index])),
            Row::Rule => None,
        });
        cells.chain([length(&self.columns[index].title)]).max().unwrap_or(0)
    }

    /// The width that the last column needs to wrap without cutting a word.
    fn longest_word(&self) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => cells.last(),
            Row::Rule => None,
        });
        let words = cells.flat_map(|cell| cell.split(' ')).map(length);
        words.max().unwrap_or(0).min(LONGEST_WORD)
    }

    fn group_line(&self, kept: &[usize], widths: &[usize]) -> String {
        let mut line = INDENT.to_owned();
        let mut position = 0;
        while position < kept.len() {
            let group = self.columns[kept[position]].group;
            let mut span = widths[position];
            let mut next = position + 1;
            while next < kept.len() && self.columns[kept[next]].group == group {
                span += GAP.len() + widths[next];
                next += 1;
            }
            if position > 0 {
                line += GAP;
            }
            if group.is_empty() {
                line += &" ".repeat(span);
            } else {
                let label = format!(" {group} ");
                line += &if length(&label) > span {
                    shortened(group, span)
                } else {
                    format!("{label:-^span$}")
                };
            }
            position = next;
        }
        line
    }

    fn cell_lines(&self, kept: &[usize], widths: &[usize], cells: &[String]) -> Vec<String> {
        let mut line = INDENT.to_owned();
        let mut rest = Vec::new();
        for (position, (&index, &width)) in kept.iter().zip(widths).enumerate() {
            if position > 0 {
                line += GAP;
            }
            let cell = &cells[index];
            match self.columns[index].align {
                Align::Right => line += &format!("{cell:>width$}"),
                Align::Left if position + 1 == kept.len() => {
                    let mut parts = fold(cell, width).into_iter();
                    line += &parts.next().unwrap_or_default();
                    rest.extend(parts);
                }
                Align::Left => line += &format!("{cell:<width$}"),
            }
        }
        let offset = INDENT.len()
            + widths.iter().rev().skip(1).sum::<usize>()
            + GAP.len() * kept.len().saturating_sub(1);
        let mut lines = vec![line];
        lines.extend(rest.into_iter().map(|part| format!("{}{part}", " ".repeat(offset))));
        lines
    }
}

/// Breaks a cell at spaces; what does not fit a line is cut and ends in `~`.
fn fold(cell: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in cell.split(' ') {
        let word = shortened(word, width);
        match lines.last_mut() {
            Some(last) if length(last) + 1 + length(&word) <= width => {
                last.push(' ');
                last.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// A duration in a cell: dense, and nothing is just 0.
pub(super) fn time(ns: f64) -> String {
    if ns == 0.0 { "0".to_owned() } else { duration(ns).replace(' ', "") }
}

/// A share in a cell.
pub(super) fn share(of_one: f64) -> String {
    percent(of_one).replace(' ', "")
}

/// A cell without a value: not measured, or it does not apply.
pub(super) fn cell(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// At most `width` characters.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "~"
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(vec![
            Column::left("class"),
            Column::right("ns/tx").group("server"),
            Column::right("share").group("server").expendable(1),
            Column::right("max").expendable(2),
            Column::left("lock"),
        ]);
        let cells =
            ["osq", "1,204", "12.0 %", "3 ms", "inode.i_rwsem <- ext4_file_write_iter_long"];
        table.row(cells.iter().map(|&cell| cell.to_owned()).collect());
        table.rule();
        table
    }

    #[test]
    fn wide_enough_shows_all() {
        let expected = [
            "         -- server ---",
            "  class  ns/tx   share   max  lock",
            "  osq    1,204  12.0 %  3 ms  inode.i_rwsem <- ext4_file_write_iter_long",
            "  ----------------------------------------------------------------------",
        ];
        assert_eq!(sample().render(100), expected);
    }

    #[test]
    fn narrow_wraps_the_last_and_then_leaves_columns_out() {
        let lines = sample().render(56);
        assert!(lines.iter().all(|line| line.len() <= 56), "{lines:#?}");
        assert!(lines.concat().contains("3 ms"));
        let lines = sample().render(50);
        assert!(lines.iter().all(|line| line.len() <= 50), "{lines:#?}");
        assert!(!lines.concat().contains("3 ms"), "the most expendable goes first");
        assert!(lines.concat().contains("12.0 %"));
        assert!(lines.concat().contains("ext4_file_write_iter_long"));
    }

    #[test]
    fn a_cut_is_marked() {
        assert_eq!(shortened("native_queued", 8), "native_~");
        assert_eq!(shortened("short", 8), "short");
    }
}
