//! Lines of a given width: headings, wrapped paragraphs, labelled facts.

use super::TextOptions;
use super::table::Table;

/// Columns of a label and the gap behind it.
const LABEL_WIDTH: usize = 14;

/// The text so far.
pub(super) struct Page {
    options: TextOptions,
    out: String,
}

impl Page {
    pub(super) fn new(options: TextOptions) -> Page {
        let width = options.width.max(TextOptions::MIN_WIDTH);
        Page { options: TextOptions { width, ..options }, out: String::new() }
    }

    pub(super) fn options(&self) -> &TextOptions {
        &self.options
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// An empty line and a title, with a remark behind it.
    pub(super) fn heading(&mut self, title: &str, remark: &str) {
        self.out.push('\n');
        let title = self.clean(title);
        let bold =
            if self.options.color { format!("\x1b[1m{title}\x1b[0m") } else { title.clone() };
        if remark.is_empty() {
            self.out += &format!("{bold}\n");
            return;
        }
        let remark = self.clean(remark);
        let width = self.options.width;
        let lines = wrap(&remark, width - title.chars().count() - 2, width - 2);
        self.out += &format!("{bold}  {}\n", lines.join("\n  "));
    }

    /// One line as it is; it must fit.
    pub(super) fn line(&mut self, line: &str) {
        let line = self.clean(line);
        self.out += line.trim_end();
        self.out.push('\n');
    }

    /// One line as it is, however long: something else reads it.
    pub(super) fn raw(&mut self, line: &str) {
        self.line(line);
    }

    /// Wrapped text, every line indented.
    pub(super) fn paragraph(&mut self, indent: usize, text: &str) {
        self.hanging(&" ".repeat(indent), indent, text);
    }

    /// `label     text`, wrapped beside the label.
    pub(super) fn labelled(&mut self, label: &str, text: &str) {
        self.hanging(&format!("  {label:<width$}", width = LABEL_WIDTH - 2), LABEL_WIDTH, text);
    }

    /// Wrapped text whose first line begins with `first`, the others `indent` columns in.
    pub(super) fn hanging(&mut self, first: &str, indent: usize, text: &str) {
        let text = self.clean(text);
        let lead = self.clean(first);
        let width = self.options.width;
        let lines = wrap(&text, width.saturating_sub(lead.chars().count()), width - indent);
        for (index, line) in lines.iter().enumerate() {
            let margin = if index == 0 { lead.clone() } else { " ".repeat(indent) };
            self.out += format!("{margin}{line}").trim_end();
            self.out.push('\n');
        }
    }

    pub(super) fn table(&mut self, table: &Table) {
        for line in table.render(self.options.width) {
            self.line(&line);
        }
    }

    /// Text from the machine may hold anything: what is not printable, or not ASCII when only that
    /// is allowed, becomes a question mark. The reports' own signs are put in here, too.
    fn clean(&self, text: &str) -> String {
        let safe: String = text
            .chars()
            .map(|c| match c {
                '\u{b5}' | '\u{3bc}' if !self.options.utf8 => 'u',
                c if c.is_control() || (!self.options.utf8 && !c.is_ascii()) => '?',
                c => c,
            })
            .collect();
        if self.options.utf8 { micro(&safe) } else { safe }
    }
}

/// `us` after a number becomes a micro sign and `s`.
fn micro(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 8);
    for (index, &c) in characters.iter().enumerate() {
        let after_number = match index.checked_sub(1).map(|before| characters[before]) {
            Some(' ') => index >= 2 && characters[index - 2].is_ascii_digit(),
            Some(before) => before.is_ascii_digit(),
            None => false,
        };
        let ends = characters.get(index + 2).is_none_or(|next| !next.is_alphanumeric());
        let is_micro = c == 'u' && characters.get(index + 1) == Some(&'s') && after_number && ends;
        out.push(if is_micro { '\u{b5}' } else { c });
    }
    out
}

/// Breaks at spaces, the first line at its own width; a word longer than a line is broken where
/// the line ends.
fn wrap(text: &str, first_width: usize, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut room = first_width.max(1);
    for word in bound_words(text) {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && line.chars().count() + 1 + word.len() > room {
            lines.push(std::mem::take(&mut line));
            room = width;
        }
        while word.len() > room {
            lines.push(word.drain(..room).collect());
            room = width;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Words of a text, a number and its unit as one.
fn bound_words(text: &str) -> Vec<String> {
    const UNITS: [&str; 12] =
        ["ns", "us", "\u{b5}s", "ms", "s", "%", "B", "KiB", "MiB", "GiB", "TiB", "CPUs"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', '.', ';', ':', ')']);
        match words.last_mut() {
            Some(last) if UNITS.contains(&bare) && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(
            wrap("takes 412 us, or 15.9 % of it", 12, 12),
            ["takes", "412 us, or", "15.9 % of it"]
        );
    }

    #[test]
    fn text_from_outside_cannot_steer_the_terminal() {
        let mut page = Page::new(TextOptions::default());
        page.paragraph(0, "a\u{1b}[31mb 5 \u{b5}s \u{4e2d}");
        assert_eq!(page.finish(), "a?[31mb 5 us ?\n");
    }

    #[test]
    fn micro_is_written_as_asked() {
        let mut page = Page::new(TextOptions { utf8: true, ..TextOptions::default() });
        page.line("5 us 41.2us, a user 3 users");
        assert_eq!(page.finish(), "5 \u{b5}s 41.2\u{b5}s, a user 3 users\n");
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_asked_and_no_word_is_lost(
            words in prop::collection::vec("[a-z0-9%,]{1,40}", 0..40),
            first_width in 1_usize..60,
            width in 10_usize..60,
        ) {
            let text = words.join(" ");
            let lines = wrap(&text, first_width, width);
            for (index, line) in lines.iter().enumerate() {
                let room = if index == 0 { first_width } else { width };
                prop_assert!(line.chars().count() <= room, "{lines:?}");
            }
            let joined: String = lines.concat().split_whitespace().collect();
            prop_assert_eq!(joined, words.concat());
        }
    }
}
