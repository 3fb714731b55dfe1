//! Counters and functions of the profile, compared.

use lockscope::analyse::compare::{Options, compare};
use lockscope::model::{
    Comparison, Counters, EventCount, Profile, ProfileFrame, ProfileStack, Run, SideCounters,
    SideLedger, Verdict,
};
use lockscope::report::text::{TextOptions, render_comparison};

use runs::{compared, run, side, verdict};

mod runs;

/// The same run with what the processor says: `misses` of 1000 loads, `copying` of 100 samples in memcpy, and
/// events counted for `turns` of the time.
fn with_processor(mut run: Run, misses: f64, copying: u64, turns: f64) -> Run {
    let transactions = run.throughput.transactions_count;
    let event = |per_cpu_ns: f64| EventCount {
        count: (per_cpu_ns * 1e9) as u64,
        per_cpu_ns,
        running_share: turns,
    };
    let cycles = 2.0;
    let server = SideCounters {
        tasks_count: 8,
        task_clock_ns: 180_000 * transactions,
        context_switches_count: 2 * transactions,
        involuntary_switches_count: transactions / 10,
        migrations_count: Some(transactions / 100),
        counted_ns: 1_000_000_000,
        events: [
            ("cycles", cycles),
            ("instructions", 2.4 - misses / 10.0),
            ("L1-dcache-loads", 0.5),
            ("L1-dcache-load-misses", misses / 2000.0),
        ]
        .map(|(name, rate)| (name.to_owned(), event(rate)))
        .into(),
        ..SideCounters::default()
    };
    let sides = [("server".to_owned(), server)].into();
    run.counters = Some(Counters { sides, ..Counters::default() });
    let frame = |symbol: &str, object: &str| ProfileFrame {
        symbol: symbol.to_owned(),
        object: object.to_owned(),
        unknown: None,
    };
    let stack = |side: &str, command: &str, weight, frame| ProfileStack {
        side: side.to_owned(),
        command: command.to_owned(),
        samples_count: weight,
        weight,
        frames: vec![frame],
    };
    run.profile = Some(Profile {
        event: "cycles".to_owned(),
        frames: vec![
            frame("memcpy", "libc.so.6"),
            frame("SearchCatCache1", "postgres"),
            frame("ep_poll", "[kernel]"),
        ],
        stacks: vec![
            stack("server", "postgres", copying, 0),
            stack("server", "postgres", 100 - copying, 1),
            stack("client", "lockscope", 40, 2),
        ],
        ..Profile::default()
    });
    let traced = run.throughput.traced_transactions_count;
    let side = |cpu_ns: u64| SideLedger {
        states_ns: [("cpu".to_owned(), cpu_ns * traced)].into(),
        ..SideLedger::default()
    };
    run.ledger.server.as_mut().expect("a server").states_ns = side(180_000).states_ns;
    run.ledger.client = Some(side(10_000));
    run
}

/// Five rounds a side: twice the misses, and three times the copying.
fn copying(conditions: &[&str]) -> Comparison {
    let rounds = |first: u64, misses: f64, copying: u64| -> Vec<Run> {
        let vary = |seed: u64| 1.0 + 0.01 * (seed % 5) as f64;
        (first..first + 5)
            .map(|seed| {
                with_processor(run(seed, 20, 1_000.0), misses * vary(seed), copying + seed % 3, 1.0)
            })
            .collect()
    };
    compared(rounds(10, 2.0, 10), rounds(20, 5.0, 30), conditions)
}

#[test]
fn golden_counters_and_functions() {
    let text = render_comparison(&copying(&[]), &TextOptions::default());
    let begin = text.find("Counters per transaction").expect("counters");
    let end = text.find("  ?: cannot tell").expect("notes");
    insta::assert_snapshot!("processor-100", &text[begin..end]);
}

#[test]
fn counters_and_functions_have_verdicts_and_conditions() {
    let comparison = copying(&[
        "counters.server.ipc < -5%",
        "counters.server.L1-dcache-load-misses > +50%",
        "counters.server.context-switches > +50%",
        "profile.server.memcpy > +20us",
        "overhead.server.memcpy > 20%",
        "profile.server.no_such_function > 1us",
    ]);
    let holds: Vec<Option<bool>> = comparison.conditions.iter().map(|c| c.holds).collect();
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(holds, [yes, yes, no, yes, yes, None], "{:#?}", comparison.conditions);
    assert_eq!(verdict(&comparison, "overhead.server.memcpy"), Some(Verdict::More));
    assert_eq!(verdict(&comparison, "profile.server.SearchCatCache1"), Some(Verdict::Less));
    let conditions = vec!["counters.server.instrutions > 5%".parse().unwrap()];
    let options = Options { conditions, ..Options::default() };
    let one = || side("r", vec![run(1, 20, 1.0)]);
    let error = compare(&one(), &one(), &options).unwrap_err().to_string();
    assert!(error.contains("instrutions`; did you mean counters.server."), "{error}");
}

#[test]
fn what_one_side_cannot_count_is_no_row_and_other_turns_are_flagged() {
    let counted = |turns| with_processor(run(1, 20, 1_000.0), 2.0, 10, turns);
    let groups = |comparison: &Comparison| -> Vec<String> {
        comparison.groups.iter().map(|group| group.name.clone()).collect()
    };
    let neither = groups(&compared(vec![run(1, 20, 1.0)], vec![counted(1.0)], &[]));
    assert!(
        !neither.iter().any(|name| ["counters", "profile", "overhead"].contains(&name.as_str()))
    );
    let comparison = compared(vec![counted(1.0)], vec![counted(0.5)], &[]);
    let rows = || comparison.groups.iter().flat_map(|group| &group.rows);
    let flagged: Vec<&str> = rows()
        .filter(|row| row.flags.contains(&"multiplexing".to_owned()))
        .map(|row| row.metric.trim_start_matches("counters.server."))
        .collect();
    let events = ["L1-dcache-load-misses", "L1-dcache-loads", "cycles", "instructions", "ipc"];
    assert_eq!(flagged, events);
    let warning = comparison.warnings.iter().find(|warning| warning.code == "multiplexing");
    let text = &warning.expect("a warning").text;
    assert!(text.contains("4 events") && text.contains("100.0 % of it in the base"), "{text}");
}
