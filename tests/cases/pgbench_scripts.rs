//! Scripts do with lockscope what they do with pgbench: the server sees the same statements with the
//! same values, `debug()` prints the same, as many transactions succeed and fail, and the run ends
//! alike.

use lockscope_tests::command::Finished;
use lockscope_tests::conformance::{Bench, Ending, Outcome};

/// Sessions that run a script of these tests send this.
const MARK: &str = "SELECT 'begin';\n";

struct Case {
    bench: Bench,
}

impl Case {
    fn new() -> Self {
        Self { bench: Bench::start().expect("a server with pgbench's tables") }
    }

    /// Runs one script by both; what lockscope did, which is what pgbench did.
    #[track_caller]
    fn alike(&self, script: &str, arguments: &str) -> (Outcome, Finished) {
        self.alike_with(&[script], &format!("-n -f {{0}} {arguments}"), "")
    }

    #[track_caller]
    fn alike_with(&self, scripts: &[&str], arguments: &str, extra: &str) -> (Outcome, Finished) {
        let marked: Vec<String> = scripts.iter().map(|script| format!("{MARK}{script}")).collect();
        let marked: Vec<&str> = marked.iter().map(String::as_str).collect();
        self.compare(&marked, arguments, extra, "begin")
    }

    #[track_caller]
    fn compare(
        &self,
        scripts: &[&str],
        arguments: &str,
        extra: &str,
        needle: &str,
    ) -> (Outcome, Finished) {
        let ran = self.bench.run(scripts, arguments, extra, needle).expect("both programs run");
        let [(theirs, their_words), (ours, our_words)] = ran;
        assert_eq!(
            theirs, ours,
            "left pgbench, right lockscope: {arguments}\n{scripts:?}\npgbench: {}\nlockscope: {}",
            their_words.stderr, our_words.stderr
        );
        (ours, our_words)
    }

    /// Both end so, whatever each says.
    #[track_caller]
    fn ends(&self, script: &str, arguments: &str, ending: Ending, words: &str) {
        let (outcome, said) = self.alike(script, arguments);
        assert_eq!(outcome.ending, ending, "{script}\n{}", said.stderr);
        assert!(said.stderr.contains(words), "`{words}` is missing: {}", said.stderr);
    }
}

const PROTOCOLS: [&str; 3] = ["-M simple", "-M extended", "-M prepared"];

#[test]
fn built_ins_send_the_same_values_for_the_same_seed() {
    let case = Case::new();
    for protocol in PROTOCOLS {
        for script in ["-S", "-N", "-b tpcb-like"] {
            let arguments = format!("-n {script} {protocol} -c 2 -t 25 --random-seed=4711");
            let (outcome, _) = case.compare(&[], &arguments, "", "abalance");
            assert_eq!(outcome.sessions.len(), 2);
        }
    }
}

#[test]
fn values_reach_the_server_alike() {
    let case = Case::new();
    let script = r#"
\set i 40 + 2
\set d 1 / 3.0
\set big pow(10, 20)
\set small 1.0 / 300000
\set b :i > 5
\set n null
\set z :zero
SELECT :i + 1, '42'::text, ':i', $$ :i $$; -- :i
SELECT :i AS ":i" /* :i */ ;
\set text debug(:t || '')
"#;
    // The last line is wrong, for `||` is no operator: both refuse the script.
    case.ends(script, "-t 1 -D zero=00", Ending::Refused, "unexpected");
    let script = script.lines().filter(|line| !line.contains("debug")).collect::<Vec<_>>();
    let script = format!(
        "{}\nSELECT ':d', ':big', ':small', ':b', ':n', ':z', ':undefined';\n",
        script.join("\n")
    );
    for protocol in PROTOCOLS {
        case.alike(&script, &format!("-t 2 {protocol} -D zero=00"));
    }
    let typed = "\\set d 1 / 3.0\n\\set n null\n\\set b 1 = 1\n\
        SELECT :d::float8, :n::text, :b::bool, :client_id::int, :scale::int, :zero::text;\n\
        SELECT :undefined::text;\n";
    for protocol in PROTOCOLS {
        case.alike(typed, &format!("-t 2 -c 3 -s 7 {protocol} -D zero=00"));
    }
}

#[test]
fn statements_are_split_alike() {
    let case = Case::new();
    let script = "-- a comment; \\set no 1\n\
        SELECT ';', E'\\';', \"?column?\" FROM (SELECT 1) AS s;\nSELECT 'it''s;'\n;;\n\
        /* ; /* ; */ ; */ SELECT (1);   \n\
        SELECT $$;$$, $a$;$$;$a$;\tSELECT 1\n  -- inside;\n  + 2;\n\
        CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; END;\n\
        SELECT E'a'\n  'b\\';';\r\nSELECT 1 \\; SELECT 2;\n\
        \\set x 5 \\\n  + 2\nSELECT :x\n\\set y 3\nSELECT :y AS last";
    case.alike(script, "-t 2");
    case.alike(&script.replace("SELECT 1 \\; SELECT 2;", ""), "-t 2 -M prepared");
}

#[test]
fn results_become_the_same_variables() {
    let case = Case::new();
    let script = "SELECT 1 AS one, NULL AS nothing, 'te''xt' AS word, 2.50 AS number \\gset p_\n\
        SELECT ':p_one', ':p_nothing', :p_number;\nSELECT $$:p_word$$;\n\
        \\set sum debug(:p_one + :p_number)\n\
        SELECT generate_series(1, 3) AS many \\aset\nSELECT ':many';\n\
        SELECT 5 AS kept WHERE false \\aset\nSELECT ':kept';\n";
    case.alike(script, "-t 2");
    let typed = "SELECT 1 AS one, NULL AS nothing, 'te''xt' AS word, 2.50 AS number \\gset p_\n\
        SELECT :p_one::int, :p_number::numeric, :p_word::text;\n\
        \\set sum debug(:p_one + :p_number)\n\
        SELECT generate_series(1, 3) AS many \\aset\nSELECT :many::int;\n";
    for protocol in PROTOCOLS {
        let (outcome, _) = case.alike(&typed.replace("te''xt", "77"), &format!("-t 2 {protocol}"));
        assert_eq!(outcome.debug.len(), 2, "it did not get there");
    }
    let combined = "SELECT 1 AS a \\; SELECT 2 AS a, 3 AS b \\gset\nSELECT ':a', ':b';\n\
        SELECT 4 AS a \\; UPDATE pgbench_tellers SET tbalance = 0 WHERE tid = 1 \\; SELECT 5 AS b \\aset x\n\
        SELECT ':xa', ':xb';\n";
    case.alike(combined, "-t 2");
}

#[test]
fn conditions_and_random_choices_agree() {
    let case = Case::new();
    let script = r"
\set r random(1, 6)
\set g random_gaussian(-100, 100, 2.5)
\set e random_exponential(1, 50, 3.0)
\set z random_zipfian(1, 1000, 1.3)
\set h hash(:r) % 1000
\set p permute(:r, 6)
\if :r <= 2
SELECT 'low', :r::int;
  \if :g > 0
SELECT 'nested', :g::int, :e::int;
  \elif :g > -50
SELECT 'nested elif', :z::int;
  \else
SELECT 'nested else';
  \endif
\elif :r = 3
SELECT 'three';
\elif :r = 4
\set r :r * 10
SELECT :r::int;
\else
SELECT 'high', :h::int, :p::int;
\endif
SELECT :g::int, :e::int, :z::int, :default_seed::bigint, :random_seed::int;
";
    for protocol in PROTOCOLS {
        let (outcome, _) = case.alike(script, &format!("-t 40 -c 2 {protocol} --random-seed=99"));
        assert_eq!(outcome.ending, Ending::Done);
        assert!(outcome.sessions[0].iter().any(|entry| entry.contains("nested")));
    }
}

#[test]
fn several_scripts_are_chosen_alike() {
    let case = Case::new();
    let scripts =
        ["SELECT 'first';", "\\set x random(1, 9)\nSELECT 'second :x';", "SELECT 'never';"];
    let arguments = "-n -f {0}@5 -f {1}@2 -f {2}@0 -b select-only@1 -t 60 --random-seed=8";
    let (outcome, _) = case.alike_with(&scripts, arguments, "");
    let sent = outcome.sessions.concat().join("\n");
    assert!(sent.contains("second") && sent.contains("abalance") && !sent.contains("never"));
}

#[test]
fn pipelines_send_the_same() {
    let case = Case::new();
    let script = "\\set x random(1, 100)\n\\startpipeline\nBEGIN;\nSELECT :x::int;\n\\set y :x + 1\nSELECT :y::int;\nEND;\n\\endpipeline\nSELECT 'after';\n";
    for protocol in ["-M extended", "-M prepared"] {
        case.alike(script, &format!("-t 3 -c 2 {protocol} --random-seed=1"));
    }
    case.ends(script, "-t 1", Ending::Aborted, "pipeline");
    let open = "\\startpipeline\nSELECT 1;\n";
    case.bench_ending(open, "-M extended", Ending::Aborted, "pipeline open");
}

impl Case {
    /// The statements may differ: a program that fails may have sent some or not.
    #[track_caller]
    fn bench_ending(&self, script: &str, arguments: &str, ending: Ending, words: &str) {
        let script = format!("{MARK}{script}");
        let arguments = format!("-n -t 2 -f {{0}} {arguments}");
        let ran = self.bench.run(&[&script], &arguments, "", "begin").expect("both programs run");
        for (outcome, said) in &ran {
            assert_eq!(outcome.ending, ending, "{script}\n{}", said.stderr);
        }
        let said = &ran[1].1.stderr;
        assert!(said.contains(words), "`{words}` is missing: {said}");
    }
}

#[test]
fn failures_are_retried_and_counted_alike() {
    let case = Case::new();
    let failing = |sqlstate: &str| {
        format!(
            "\\set x random(1, 1000000)\nBEGIN;\nSELECT :x::int;\n\
             DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{sqlstate}', MESSAGE = 'no'; END $$;\nEND;\n"
        )
    };
    for sqlstate in ["40001", "40P01"] {
        for protocol in PROTOCOLS {
            let arguments = format!("-t 3 --max-tries=3 {protocol} --random-seed=5");
            let (outcome, _) = case.alike(&failing(sqlstate), &arguments);
            assert!(outcome.counts.iter().any(|line| line.contains("3 (100.000%)")), "{outcome:?}");
        }
        case.alike(&failing(sqlstate), "-t 3 --random-seed=5");
    }
    case.ends(&failing("22012"), "-t 3 --max-tries=3 --random-seed=5", Ending::Aborted, "22012");
    // Half of the transactions fail, and each succeeds when it is tried again.
    let once = "SELECT nextval('turn') % 2 AS turn \\gset\nBEGIN;\n\\if :turn = 1\n\
        DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$;\n\\endif\nEND;\n";
    case.alike("CREATE SEQUENCE IF NOT EXISTS turn;", "-t 1");
    case.alike(once, "-t 5 --max-tries=2");
}

#[test]
fn what_goes_wrong_in_a_script_ends_the_client_alike() {
    let case = Case::new();
    let cases = [
        ("\\set x 1 / 0\n", "division by zero"),
        ("\\set x :nobody + 1\n", "undefined variable \"nobody\""),
        ("\\set x 9223372036854775807 + 1\n", "bigint add out of range"),
        ("SELECT 1 / 0;\n", "division by zero"),
        ("SELECT FROM nowhere;\n", "42P01"),
        ("SELECT 1 AS a UNION SELECT 2 \\gset\nSELECT :a;\n", "expected one row, got 2"),
        ("SELECT 1 AS a WHERE false \\gset\nSELECT :a;\n", "expected one row, got 0"),
        ("SELECT 1 \\gset\n", "invalid variable name"),
        ("BEGIN;\nSELECT 1;\n", "without completing the last transaction"),
        ("\\sleep :nobody ms\n", "undefined variable \"nobody\""),
    ];
    for (script, words) in cases {
        case.ends(script, "-t 2", Ending::Aborted, words);
    }
    case.bench_ending("COPY pgbench_tellers TO STDOUT;\n", "", Ending::Aborted, "COPY");
}

#[test]
fn wrong_scripts_are_refused_alike() {
    let case = Case::new();
    let cases = [
        "\\set\n",
        "\\set x\n",
        "\\set x 1 +\n",
        "\\set x (1\n",
        "\\set x nofunc(1)\n",
        "\\set x abs(1, 2)\n",
        "\\set x 1 $ 2\n",
        "\\set x 9223372036854775808\n",
        "\\sleep\n",
        "\\sleep 1 h\n",
        "\\sleep x\n",
        "\\foo\n",
        "\\if 1\n",
        "\\else\n",
        "\\if 1\n\\else\n\\else\n\\endif\n",
        "\\set x 1\n\\gset\n",
        "SELECT 1 \\gset a b\n",
    ];
    for script in cases {
        case.ends(script, "-t 1", Ending::Refused, "0.sql:");
    }
    let many = format!("SELECT {};\n", vec![":x::int"; 256].join(", "));
    case.ends(&format!("\\set x 1\n{many}"), "-t 1 -M extended", Ending::Refused, "255");
    case.alike(&format!("\\set x 1\n{many}"), "-t 1");
}

#[test]
fn sleeps_and_shell_commands_do_the_same() {
    let case = Case::new();
    let script = "\\set n 2\n\\sleep 1ms\n\\sleep :n us\n\\sleep 1 us\n\
        \\setshell x echo 4:n\n\\setshell y expr :n + 1\nSELECT ':y';\n\\shell true ::a :n\n";
    let script = script.replace("\\setshell x echo 4:n\n", "");
    let (outcome, _) = case.alike_with(&[&script], "-n -f {0} -t 2", "--allow-shell");
    assert_eq!(outcome.ending, Ending::Done);
}
