use std::str::FromStr as _;

use super::*;
use crate::load::engine::FailureRules;
use crate::load::script::{Definitions, ParseOptions, Streams, parse};
use crate::load::workload::{Protocol, Workload};

const READY: &[u8] = b"Z\0\0\0\x05I";
const IN_TRANSACTION: &[u8] = b"Z\0\0\0\x05T";
const FAILED: &[u8] = b"Z\0\0\0\x05E";
const PARSED: &[u8] = b"1\0\0\0\x04";
const RULES: FailureRules = FailureRules { max_tries: 1, continue_on_error: false, tolerated: &[] };

fn client_with(texts: &[(&str, u32)], protocol: Protocol, rules: FailureRules) -> Client {
    let options = ParseOptions { allow_shell: true };
    let scripts =
        texts.iter().map(|(text, weight)| (parse(text, "t.sql", options).unwrap(), *weight));
    let scripts = Scripts::compile(scripts.collect(), protocol, rules).unwrap();
    let streams = Streams::new(7, 1, false).clients.remove(0);
    let variables = scripts.variables(3, &Definitions { scale: 1, ..Definitions::default() });
    Client::new(Arc::new(scripts), streams, variables)
}

fn client(text: &str, protocol: Protocol) -> Client {
    client_with(&[(text, 1)], protocol, RULES)
}

fn workload(name: &str) -> Client {
    let workload = <&Workload>::from_str(name).unwrap();
    client(workload.script, workload.protocol(None).unwrap())
}

fn begin(client: &mut Client) -> Progress {
    client.choose();
    client.begin(&mut ()).unwrap()
}

fn receive(client: &mut Client, bytes: &[u8]) -> Progress {
    client.receive(bytes, &mut ()).unwrap()
}

fn sent(client: &Client) -> String {
    client.request().escape_ascii().to_string()
}

/// The text of a Query message.
fn query(client: &Client) -> String {
    let request = client.request();
    assert_eq!(request[0], b'Q');
    String::from_utf8(request[5..request.len() - 1].to_vec()).unwrap()
}

fn frame(tag: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 4).unwrap();
    [&[tag], &length.to_be_bytes()[..], payload].concat()
}

fn error(sqlstate: &str) -> Vec<u8> {
    frame(b'E', format!("SERROR\0VERROR\0C{sqlstate}\0Mno\0\0").as_bytes())
}

fn rows(columns: &[&str], rows: &[&[Option<&str>]]) -> Vec<u8> {
    let count = u16::try_from(columns.len()).unwrap().to_be_bytes();
    let mut description = count.to_vec();
    for column in columns {
        description.extend_from_slice(column.as_bytes());
        description.extend_from_slice(&[0; 19]);
    }
    let mut reply = frame(b'T', &description);
    for row in rows {
        let mut payload = count.to_vec();
        for value in *row {
            match value {
                None => payload.extend_from_slice(&(-1_i32).to_be_bytes()),
                Some(text) => {
                    payload.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
                    payload.extend_from_slice(text.as_bytes());
                }
            }
        }
        reply.extend(frame(b'D', &payload));
    }
    [reply, frame(b'C', b"SELECT\0")].concat()
}

fn over(outcome: Outcome, tries_count: u32) -> Progress {
    Progress::Over(End { outcome, tries_count, sent_anything: true })
}

#[test]
fn a_select_is_one_request_and_is_prepared_once() {
    let mut client = workload("select-prepared");
    assert_eq!(begin(&mut client), Progress::Send);
    assert!(sent(&client).starts_with("P"), "{}", sent(&client));
    assert_eq!(receive(&mut client, PARSED), Progress::Waiting);
    assert_eq!(receive(&mut client, &READY[..3]), Progress::Waiting);
    assert_eq!(receive(&mut client, &READY[3..]), over(Outcome::Committed, 1));
    begin(&mut client);
    assert!(sent(&client).starts_with("B"), "{}", sent(&client));
    receive(&mut client, READY);
    client.reconnected();
    begin(&mut client);
    assert!(sent(&client).starts_with("P"), "{}", sent(&client));
}

#[test]
fn tpcb_like_is_seven_requests() {
    let mut client = workload("tpcb-like");
    begin(&mut client);
    let mut statements = vec![query(&client)];
    for _ in 0..6 {
        assert_eq!(receive(&mut client, IN_TRANSACTION), Progress::Send);
        statements.push(query(&client));
    }
    assert_eq!(receive(&mut client, READY), over(Outcome::Committed, 1));
    let verbs = ["BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "END"];
    for (statement, verb) in statements.iter().zip(verbs) {
        assert!(statement.starts_with(verb), "{statement}");
    }
}

#[test]
fn a_deadlock_rolls_back_and_is_a_failed_transaction() {
    let mut client = workload("tpcb-like");
    begin(&mut client);
    receive(&mut client, IN_TRANSACTION);
    assert_eq!(receive(&mut client, &[&error("40P01"), FAILED].concat()), Progress::Send);
    assert_eq!(query(&client), "ROLLBACK");
    assert_eq!(receive(&mut client, READY), over(Outcome::Deadlock, 1));
    begin(&mut client);
    assert_eq!(query(&client), "BEGIN;");
}

#[test]
fn a_serialization_failure_outside_a_transaction_needs_no_rollback() {
    let mut client = workload("select-simple");
    begin(&mut client);
    let ended = receive(&mut client, &[&error("40001"), READY].concat());
    assert_eq!(ended, over(Outcome::SerializationFailure, 1));
}

#[test]
fn any_other_error_ends_the_client_and_says_where_and_why() {
    let mut client = client("\\set x 1\n\nSELECT :x;\n", Protocol::Simple);
    begin(&mut client);
    // Not before the reply has ended, so that the server loses no connection in the middle of it.
    assert_eq!(receive(&mut client, &error("42P01")), Progress::Waiting);
    let reason = client.receive(READY, &mut ()).unwrap_err().to_string();
    assert!(reason.starts_with("t.sql:3: "), "{reason}");
    assert!(reason.contains("ERROR: no (SQLSTATE 42P01)"), "{reason}");
}

#[test]
fn a_fatal_error_ends_the_connection_even_between_transactions() {
    let fatal = frame(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0");
    let mut client = workload("select-simple");
    let reason = client.receive(&fatal, &mut ()).unwrap_err();
    assert!(matches!(reason, AbortReason::Terminated(_)), "{reason}");
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let (mut one, mut two) = (workload("tpcb-like"), workload("tpcb-like"));
    begin(&mut one);
    begin(&mut two);
    for _ in 0..6 {
        receive(&mut one, IN_TRANSACTION);
        receive(&mut two, IN_TRANSACTION);
        assert_eq!(one.request(), two.request());
    }
}

#[test]
fn the_rollback_is_well_formed() {
    let mut bytes = bytes::BytesMut::new();
    postgres_protocol::message::frontend::query("ROLLBACK", &mut bytes).unwrap();
    assert_eq!(&bytes[..], b"Q\0\0\0\x0dROLLBACK\0");
}

/// Counts what it is told.
#[derive(Default)]
struct Listener {
    begun: Vec<usize>,
    ended: Vec<usize>,
    failed: Vec<(usize, bool)>,
    out_of_time: bool,
}

impl Host for Listener {
    fn may_retry(&mut self) -> bool {
        !self.out_of_time
    }
    fn begun(&mut self, at: CommandIndex) {
        self.begun.push(at.command);
    }
    fn ended(&mut self, at: CommandIndex) {
        self.ended.push(at.command);
    }
    fn failed(&mut self, at: CommandIndex, retried: bool) {
        self.failed.push((at.command, retried));
    }
}

#[test]
fn a_retry_repeats_the_random_values_up_to_the_limit_of_tries() {
    let text = "\\set x random(1, 1000000)\nBEGIN;\nSELECT :x;\nEND;\n";
    let rules = FailureRules { max_tries: 3, ..RULES };
    let mut client = client_with(&[(text, 1)], Protocol::Simple, rules);
    let mut listener = Listener::default();
    client.choose();
    client.begin(&mut listener).unwrap();
    let mut selects = Vec::new();
    for attempt in 1..=3 {
        assert_eq!(query(&client), "BEGIN;");
        client.receive(IN_TRANSACTION, &mut listener).unwrap();
        selects.push(query(&client));
        client.receive(&[&error("40001"), FAILED].concat(), &mut listener).unwrap();
        assert_eq!(query(&client), "ROLLBACK");
        let progress = client.receive(READY, &mut listener).unwrap();
        let expected =
            if attempt < 3 { Progress::Send } else { over(Outcome::SerializationFailure, 3) };
        assert_eq!(progress, expected);
    }
    assert!(selects.iter().all(|select| *select == selects[0]), "{selects:?}");
    assert_eq!(listener.failed, [(2, true), (2, true), (2, false)]);
    begin(&mut client);
    receive(&mut client, IN_TRANSACTION);
    assert_ne!(query(&client), selects[0]);
}

#[test]
fn without_time_nothing_is_tried_again() {
    let rules = FailureRules { max_tries: 0, ..RULES };
    let mut client = client_with(&[("SELECT 1;", 1)], Protocol::Simple, rules);
    let mut listener = Listener::default();
    client.begin(&mut listener).unwrap();
    let reply = [&error("40P01"), READY].concat();
    assert_eq!(client.receive(&reply, &mut listener).unwrap(), Progress::Send);
    listener.out_of_time = true;
    assert_eq!(client.receive(&reply, &mut listener).unwrap(), over(Outcome::Deadlock, 2));
}

#[test]
fn clients_survive_other_errors_where_the_user_wants_it() {
    let rules = FailureRules { continue_on_error: true, max_tries: 5, ..RULES };
    let mut client = client_with(&[("BEGIN; SELECT 1; END;", 1)], Protocol::Simple, rules);
    begin(&mut client);
    receive(&mut client, IN_TRANSACTION);
    receive(&mut client, &[&error("22012"), FAILED].concat());
    assert_eq!(query(&client), "ROLLBACK");
    let Progress::Over(end) = receive(&mut client, READY) else { panic!() };
    assert_eq!(end.tries_count, 1);
    assert!(matches!(end.outcome, Outcome::OtherFailure(state) if state.as_str() == "22012"));
}

#[test]
fn conditions_choose_the_branch() {
    let text = "\\if :n = 0\nzero;\n\\if true\nnested;\n\\endif\n\\elif :n = 1\none;\n\
        \\elif :n = 2\ntwo;\n\\else\nmany;\n\\endif\nlast;\n";
    let branches = |n: i64| {
        let mut client = client(&format!("\\set n {n}\n{text}"), Protocol::Simple);
        let mut statements = Vec::new();
        let mut progress = begin(&mut client);
        while progress == Progress::Send {
            statements.push(query(&client));
            progress = receive(&mut client, READY);
        }
        statements.join(" ")
    };
    assert_eq!(branches(0), "zero; nested; last;");
    assert_eq!(branches(1), "one; last;");
    assert_eq!(branches(2), "two; last;");
    assert_eq!(branches(3), "many; last;");
}

#[test]
fn a_script_may_send_nothing() {
    let mut client = client("\\set x 1\n\\if :x > 1\nSELECT 1;\n\\endif\n", Protocol::Simple);
    let Progress::Over(end) = begin(&mut client) else { panic!() };
    assert_eq!((end.outcome, end.sent_anything), (Outcome::Committed, false));
}

#[test]
fn sleeps_have_units_and_end_with_wake() {
    let text = "\\set n 20\n\\sleep 5us\n\\sleep 7 ms\n\\sleep :n us\n\\sleep -1\n\\sleep 2\n";
    let mut client = client(text, Protocol::Simple);
    let mut times = Vec::new();
    let mut progress = begin(&mut client);
    while let Progress::Sleep(time) = progress {
        times.push(time.as_micros());
        progress = client.wake(&mut ()).unwrap();
    }
    assert!(matches!(progress, Progress::Over(_)));
    assert_eq!(times, [5, 7_000, 20, 0, 2_000_000]);
}

#[test]
fn one_row_becomes_variables() {
    let text = "SELECT 1 AS a, 2 AS b \\gset p_\nSELECT :p_a, :p_b;\n";
    let mut client = client(text, Protocol::Simple);
    begin(&mut client);
    let reply = [&rows(&["a", "b"], &[&[Some("x:y"), None]])[..], READY].concat();
    for byte in &reply[..reply.len() - 1] {
        assert_eq!(receive(&mut client, &[*byte]), Progress::Waiting);
    }
    receive(&mut client, &reply[reply.len() - 1..]);
    assert_eq!(query(&client), "SELECT x:y, ;");
}

#[test]
fn gset_wants_exactly_one_row_of_the_last_result() {
    let attempt = |results: &[Vec<u8>]| {
        let mut client = client("SELECT 1 AS a \\gset\nSELECT :a;\n", Protocol::Simple);
        begin(&mut client);
        let reply = [results.concat(), READY.to_vec()].concat();
        client.receive(&reply, &mut ()).map(|_| query(&client)).map_err(|error| error.to_string())
    };
    let (none, one) = (rows(&["a"], &[]), rows(&["a"], &[&[Some("1")]]));
    let two = rows(&["a"], &[&[Some("1")], &[Some("2")]]);
    let command = frame(b'C', b"UPDATE 1\0");
    assert_eq!(attempt(&[two.clone(), one.clone()]), Ok("SELECT 1;".to_owned()));
    for (results, count) in [(vec![one.clone(), none], 0), (vec![two], 2), (vec![one, command], 0)]
    {
        let problem = attempt(&results).unwrap_err();
        assert!(
            problem.contains(&format!("\\gset failed: expected one row, got {count}")),
            "{problem}"
        );
    }
    let unnamed = attempt(&[rows(&["?column?"], &[&[Some("1")]])]).unwrap_err();
    assert!(unnamed.contains("invalid variable name: \"?column?\""), "{unnamed}");
}

#[test]
fn aset_takes_the_last_row_of_every_result_that_has_one() {
    let text = "SELECT 1 AS a \\; SELECT 2 AS b \\; SELECT 3 AS a \\aset\nSELECT :a, :b;\n";
    let mut client = client(text, Protocol::Simple);
    begin(&mut client);
    assert_eq!(query(&client), "SELECT 1 AS a ; SELECT 2 AS b ; SELECT 3 AS a ");
    let results = [
        rows(&["a"], &[&[Some("1")], &[Some("2")]]),
        rows(&["b"], &[&[Some("3")]]),
        rows(&["a"], &[]),
    ];
    receive(&mut client, &[&results.concat()[..], READY].concat());
    assert_eq!(query(&client), "SELECT 2, 3;");
}

#[test]
fn a_pipeline_is_one_request_whose_end_takes_the_time() {
    let text = "\\startpipeline\nSELECT 1;\nSELECT :client_id;\n\\syncpipeline\nSELECT 3;\n\
        \\endpipeline\nSELECT 4;\n";
    let mut client = client(text, Protocol::Extended);
    let mut listener = Listener::default();
    client.choose();
    assert_eq!(client.begin(&mut listener).unwrap(), Progress::Send);
    let syncs = sent(&client).matches("S\\x00\\x00\\x00\\x04").count();
    assert_eq!(syncs, 2, "{}", sent(&client));
    assert_eq!(sent(&client).matches("SELECT").count(), 3);
    assert_eq!(client.receive(READY, &mut listener).unwrap(), Progress::Waiting);
    assert_eq!(listener.ended, [0, 1, 2, 3, 4]);
    assert_eq!(client.receive(READY, &mut listener).unwrap(), Progress::Send);
    assert_eq!(listener.ended, [0, 1, 2, 3, 4, 5]);
    assert!(sent(&client).contains("SELECT 4"));
}

#[test]
fn what_a_pipeline_needs_is_prepared_before_it() {
    let text = "\\startpipeline\nSELECT 1;\nSELECT 2;\n\\endpipeline\n";
    let mut client = client(text, Protocol::Prepared);
    assert_eq!(begin(&mut client), Progress::Send);
    assert!(!sent(&client).contains("E\\x00\\x00\\x00\\t"), "{}", sent(&client));
    assert_eq!(receive(&mut client, &[PARSED, READY].concat()), Progress::Waiting);
    assert_eq!(receive(&mut client, &[PARSED, READY].concat()), Progress::Send);
    assert!(sent(&client).starts_with("B"), "{}", sent(&client));
    assert_eq!(receive(&mut client, READY), over(Outcome::Committed, 1));
    begin(&mut client);
    assert!(sent(&client).starts_with("B"), "{}", sent(&client));
}

#[test]
fn a_failure_in_a_pipeline_waits_for_all_of_it() {
    let text = "\\startpipeline\nBEGIN;\nSELECT 1;\n\\syncpipeline\nEND;\n\\endpipeline\n";
    let mut client = client(text, Protocol::Extended);
    begin(&mut client);
    assert_eq!(receive(&mut client, &[&error("40001"), FAILED].concat()), Progress::Waiting);
    assert_eq!(receive(&mut client, READY), over(Outcome::SerializationFailure, 1));
}

/// How the client gives up when nothing but READY is answered.
fn gives_up(text: &str, protocol: Protocol) -> String {
    let mut client = client(text, protocol);
    client.choose();
    let mut progress = client.begin(&mut ());
    loop {
        match progress {
            Ok(Progress::Send) => progress = client.receive(READY, &mut ()),
            Ok(Progress::Sleep(_)) => progress = client.wake(&mut ()),
            Ok(other) => panic!("{other:?}"),
            Err(reason) => return reason.to_string(),
        }
    }
}

#[test]
fn what_a_script_may_not_do_is_told_with_its_line() {
    use Protocol::{Extended, Simple};
    let cases = [
        ("\\set x 1/0\n", Simple, "t.sql:1: \\set failed: division by zero"),
        ("\n\\if :y\n\\endif\n", Simple, "t.sql:2: \\if failed: undefined variable \"y\""),
        ("\\sleep :y\n", Simple, "t.sql:1: \\sleep failed: undefined variable \"y\""),
        ("\\shell exit 2\n", Simple, "t.sql:1: \\shell failed: `exit 2`"),
        ("\\setshell x echo a\n", Simple, "must print an integer, not \"a\""),
        ("\\startpipeline\n", Simple, "the simple protocol has no pipelines"),
        ("\\startpipeline\n\\startpipeline\n", Extended, "t.sql:2: \\startpipeline failed: a pip"),
        ("\\endpipeline\n", Extended, "no pipeline is open"),
        ("\\syncpipeline\n", Extended, "no pipeline is open"),
        ("\\startpipeline\nSELECT 1;\n", Extended, "reached with a pipeline open"),
        (
            "\\startpipeline\nSELECT 1 \\gset\n\\endpipeline\n",
            Extended,
            "2: \\gset failed: it is not",
        ),
    ];
    for (text, protocol, expected) in cases {
        let reason = gives_up(text, protocol);
        assert!(reason.contains(expected), "{text}: {reason}");
    }
}

#[test]
fn a_transaction_block_must_not_outlive_the_script() {
    let mut client = client("BEGIN;\n", Protocol::Simple);
    begin(&mut client);
    assert_eq!(receive(&mut client, IN_TRANSACTION), over(Outcome::Committed, 1));
    let reason = client.check_finished().unwrap_err().to_string();
    assert!(reason.contains("without completing the last transaction"), "{reason}");
    assert!(client.begin(&mut ()).is_err());
}

#[test]
fn weights_are_kept_and_zero_means_never() {
    let texts = [("SELECT 1;", 3), ("SELECT 2;", 0), ("SELECT 3;", 1)];
    let mut client = client_with(&texts, Protocol::Simple, RULES);
    let mut counts = [0_u32; 3];
    for _ in 0..4000 {
        counts[client.choose()] += 1;
    }
    assert_eq!(counts[1], 0);
    assert!((2800..3200).contains(&counts[0]), "{counts:?}");
}

#[test]
fn an_answer_to_no_question_is_refused() {
    let mut client = workload("select-simple");
    assert!(client.receive(READY, &mut ()).is_err());
    let mut client = workload("select-simple");
    begin(&mut client);
    assert!(client.receive(&[READY, READY].concat(), &mut ()).is_err());
}

#[test]
fn notices_and_the_like_change_nothing() {
    let aside =
        [frame(b'N', b"SNOTICE\0\0"), frame(b'S', b"a\0b\0"), frame(b'A', b"\0\0\0\x01c\0\0")];
    let mut client = workload("select-simple");
    assert_eq!(receive(&mut client, &aside.concat()), Progress::Waiting);
    begin(&mut client);
    let reply = [&aside.concat()[..], READY].concat();
    assert_eq!(receive(&mut client, &reply), over(Outcome::Committed, 1));
}

#[test]
fn a_copy_is_told() {
    for tag in [b'G', b'H', b'W'] {
        let mut client = client("COPY t FROM STDIN;", Protocol::Simple);
        begin(&mut client);
        let reason = client.receive(&frame(tag, b"\0\0\0"), &mut ()).unwrap_err().to_string();
        assert!(reason.contains("COPY"), "{reason}");
    }
}

mod garbage {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let tags = prop::sample::select(b"12TDCSNEZGAIntsK".to_vec());
        prop::collection::vec((tags, prop::collection::vec(any::<u8>(), 0..30)), 0..30).prop_map(
            |all| {
                let status = |payload: &[u8]| match payload.first() {
                    Some(byte) if byte % 3 == 0 => b"T".to_vec(),
                    _ => b"I".to_vec(),
                };
                all.iter()
                    .flat_map(|(tag, payload)| match tag {
                        b'Z' => frame(b'Z', &status(payload)),
                        tag => frame(*tag, payload),
                    })
                    .collect()
            },
        )
    }

    /// Drives a client with whatever comes; it must stay sane, whatever it decides.
    fn survive(text: &str, protocol: Protocol, bytes: &[u8], chunk: usize) {
        let rules = FailureRules { max_tries: 3, continue_on_error: true, ..RULES };
        let mut client = client_with(&[(text, 1)], protocol, rules);
        let mut progress = client.begin(&mut ());
        for chunk in bytes.chunks(chunk) {
            progress = match progress {
                Ok(Progress::Over(_)) => client.begin(&mut ()),
                Ok(Progress::Sleep(_)) => client.wake(&mut ()),
                Ok(Progress::Waiting | Progress::Send) => client.receive(chunk, &mut ()),
                Err(_) => return,
            };
            assert!(client.request().len() < 1 << 16, "{}", client.request().len());
        }
    }

    const TEXT: &str = "SELECT 1 AS a \\gset\nBEGIN;\nSELECT 1 AS b \\; SELECT 2 AS b \\aset\n\
        SELECT :a, :b;\n\\sleep 1us\nEND;\n";
    const PIPELINE: &str = "\\startpipeline\nSELECT :a;\n\\syncpipeline\nEND;\n\\endpipeline\n";

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), chunk in 1usize..50) {
            survive(TEXT, Protocol::Simple, &bytes, chunk);
            survive(PIPELINE, Protocol::Prepared, &bytes, chunk);
        }

        #[test]
        fn in_frames_never_panics(bytes in frames(), chunk in 1usize..200) {
            survive(TEXT, Protocol::Simple, &bytes, chunk);
            survive(TEXT, Protocol::Prepared, &bytes, chunk);
            survive(PIPELINE, Protocol::Prepared, &bytes, chunk);
        }
    }
}
