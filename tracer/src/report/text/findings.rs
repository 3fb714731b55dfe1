//! The findings in words, and which warnings to read first.

use super::page::Page;
use super::verdict;
use crate::analyse::words;
use crate::model::Run;

pub(super) fn render(run: &Run, page: &mut Page) {
    page.heading("Findings", "");
    verdict::render(run, page);
    for finding in words::findings(run) {
        page.labelled(finding.topic, &finding.text);
    }
    let codes: Vec<&str> = run.warnings.iter().map(|warning| warning.code.as_str()).collect();
    if !codes.is_empty() {
        page.labelled("warnings", &format!("{} (in full at the end)", codes.join(", ")));
    }
}
