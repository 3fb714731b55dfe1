//! Who was on a CPU, and in which functions.

use super::page::Page;
use super::table::{Column, Table, share, shortened};
use crate::analyse::profile_table::{SideProfile, sides};
use crate::analyse::units::{count, percent, plural};
use crate::model::{Profile, Run};

/// Rows of the server's table, and of each other side's.
const SERVER_ROWS: usize = 12;
const OTHER_ROWS: usize = 5;
/// Longer names are cut: those of Rust and C++ fill a line.
const OBJECT_WIDTH: usize = 20;
const SYMBOL_WIDTH: usize = 50;
/// What the columns beside the symbol take at most, the command excepted, which gives way.
const OTHER_COLUMNS: usize = 48;
/// Functions below this share are not listed.
const WORTH_A_ROW: f64 = 0.005;
/// From this share on it is said what has no name or no callers.
const WORTH_SAYING: f64 = 0.05;

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(profile) = &run.profile else { return };
    page.heading("Profile", &remark(profile));
    let sides = sides(profile);
    if sides.is_empty() {
        page.line("  no task was seen on a CPU");
        return;
    }
    for side in &sides {
        notes(side, page);
        page.table(&table(side, page.options().width));
    }
}

fn remark(profile: &Profile) -> String {
    let mut text = format!(
        "{} at {} Hz a CPU: {}",
        profile.event,
        profile.frequency_hz,
        plural(profile.samples_count, "sample")
    );
    if let Some(why) = &profile.no_cycles {
        text += &format!("; no cycles: {why}");
    }
    if profile.lost_count > 0 {
        text += &format!("; {} lost", count(profile.lost_count));
    }
    if profile.throttled_count > 0 {
        text += &format!("; paused by the kernel {}", plural(profile.throttled_count, "time"));
    }
    if profile.shortened_count > 0 {
        text +=
            &format!("; {} without their callers", plural(profile.shortened_count, "rare sample"));
    }
    text + "; overheads are shares of the side's own time"
}

fn table(side: &SideProfile<'_>, width: usize) -> Table {
    let mut table = Table::new(vec![
        Column::right("overhead"),
        Column::right("children"),
        Column::left("command").expendable(1),
        Column::left("object"),
        Column::left("symbol"),
    ]);
    let most = if side.side == "server" { SERVER_ROWS } else { OTHER_ROWS };
    let listed = side.rows.iter().filter(|row| row.own_share >= WORTH_A_ROW).take(most);
    for row in listed {
        let mark = if row.frame.is_kernel() { "[k]" } else { "[.]" };
        table.row(vec![
            share(row.own_share),
            share(row.children_share),
            row.command.to_owned(),
            shortened(&row.frame.object, OBJECT_WIDTH),
            format!(
                "{mark} {}",
                shortened(&row.frame.symbol, SYMBOL_WIDTH.min(width - OTHER_COLUMNS))
            ),
        ]);
    }
    table
}

fn notes(side: &SideProfile<'_>, page: &mut Page) {
    let mut text = format!(
        "{} of all samples ({}), {} of them in the kernel",
        percent(side.share),
        count(side.samples_count),
        percent(side.kernel_share)
    );
    let unknown: f64 = side.unknown_shares.values().sum();
    if unknown >= WORTH_SAYING {
        let reasons = side.unknown_shares.iter();
        let reasons: Vec<String> =
            reasons.map(|(why, share)| format!("{} {}", percent(*share), reason(why))).collect();
        text += &format!("; {} without a name: {}", percent(unknown), reasons.join(", "));
    }
    if side.stackless_share >= WORTH_SAYING {
        text += &format!(
            "; {} of its user samples without callers (built without frame pointers)",
            percent(side.stackless_share)
        );
    }
    page.labelled(side.side, &text);
}

fn reason(why: &str) -> &str {
    match why {
        "no_symbol" => "in stripped files (install their debug symbols)",
        "no_file" => "in files that could not be read",
        "jit" => "in code made at run time (no /tmp/perf-PID.map)",
        "process_gone" => "of processes that were gone before they were looked at",
        "not_mapped" => "at addresses where nothing is mapped",
        "no_kallsyms" => "in the kernel (kallsyms does not tell)",
        other => other,
    }
}
