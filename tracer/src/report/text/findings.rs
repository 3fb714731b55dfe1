//! The paragraph in words, and which warnings to read first.

use super::page::Page;
use crate::analyse::words;
use crate::model::Run;

pub(super) fn render(run: &Run, page: &mut Page) {
    page.heading("Findings", "");
    for paragraph in words::findings(run) {
        page.paragraph(2, &paragraph);
    }
    let codes: Vec<&str> = run.warnings.iter().map(|warning| warning.code.as_str()).collect();
    if !codes.is_empty() {
        page.paragraph(2, &format!("Warnings (text at the end): {}.", codes.join(", ")));
    }
}
