//! Whether it is a kernel lock, and if not, what.

use super::page::Page;
use crate::model::Run;

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(verdict) = &run.verdict else { return };
    page.labelled("verdict", &verdict.text);
    let evidence: Vec<&str> = verdict.evidence.iter().map(|item| item.text.as_str()).collect();
    if !evidence.is_empty() {
        page.labelled("", &format!("({})", evidence.join("; ")));
    }
}
