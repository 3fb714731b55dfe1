//! Expressions to values, against what pgbench 15 answers.

use std::sync::Arc;

use super::*;

/// Evaluates as `\set` would, with a few variables defined.
fn evaluate(text: &str) -> Result<Value, String> {
    let tree = expression::parse(text).map_err(|error| error.problem)?;
    let mut names = Names::default();
    let tree = tree.map(&mut |name| names.index(name));
    let texts =
        [("seven", "7"), ("half", "0.5"), ("yes", "y"), ("nothing", "NULL"), ("word", "abc")];
    let indices: Vec<_> = texts.iter().map(|(name, _)| names.index(name)).collect();
    let seed = names.index("default_seed");
    let mut variables = Variables::new(Arc::new(names));
    for (index, (_, text)) in indices.into_iter().zip(texts) {
        variables.set_text(index, text.as_bytes());
    }
    variables.set(seed, Value::Int(DEFAULT_SEED));
    let mut scope = Scope { random: &mut Random::new(1), script: 0, command: 0 };
    tree.evaluate(&variables, &mut scope).map_err(|error| error.to_string())
}

fn text(expression: &str) -> String {
    match evaluate(expression) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[track_caller]
fn all(cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        assert_eq!(text(expression), *expected, "{expression}");
    }
}

#[test]
fn precedence_is_that_of_sql() {
    all(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 4 - 3", "3"),
        ("100 / 5 / 2", "10"),
        ("7 % 4 * 2", "6"),
        ("- 2 + 5", "3"),
        ("-2 * -3", "6"),
        ("- - 5", "5"),
        ("+ 5", "5"),
        ("1 + 1 << 3", "16"),
        ("1 << 2 + 1", "8"),
        ("1 | 2 & 3", "3"),
        ("~ 1 + 1", "-3"),
        ("~1 | 4", "-2"),
        ("5 # 3 = 6", "true"),
        ("1 + 1 = 2 and 2 * 2 = 4", "true"),
        ("not 1 = 2", "true"),
        ("not true or true", "true"),
        ("not (true or true)", "false"),
        ("true or false and false", "true"),
        ("1 = 1 is true", "true"),
        ("not null is null", "false"),
        ("1 isnull or 1 notnull", "true"),
        ("1 + null is null", "true"),
        ("true is not false", "true"),
        ("null is null is not null", "true"),
        ("1 <> 2 and 1 != 2 and 2 >= 2 and 1 <= 2 and 2 > 1", "true"),
        ("true and not false or false", "true"),
    ]);
}

#[test]
fn integers_do_not_wrap() {
    all(&[
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775807 + 1", "error: bigint add out of range"),
        ("-9223372036854775808 - 1", "error: bigint sub out of range"),
        ("- (-9223372036854775807 - 1)", "error: bigint sub out of range"),
        ("3037000500 * 3037000500", "error: bigint mul out of range"),
        ("-9223372036854775808 / -1", "error: bigint div out of range"),
        ("-9223372036854775808 % -1", "0"),
        ("-7 / 2", "-3"),
        ("-7 % 2", "-1"),
        ("1 / 0", "error: division by zero"),
        ("1 % 0", "error: division by zero"),
        ("true / 0", "error: cannot coerce boolean to int"),
        ("1 << 64", "1"),
        ("1 << 63", "-9223372036854775808"),
        ("-16 >> 2", "-4"),
        ("9223372036854775808", "error: bigint constant overflow: 9223372036854775808"),
        ("-9223372036854775809", "error: bigint constant overflow: 9223372036854775809"),
        ("1e999", "error: double constant overflow: 1e999"),
    ]);
}

#[test]
fn a_double_makes_doubles() {
    all(&[
        ("1 / 2.0", "0.5"),
        ("1.5 + 1", "2.5"),
        ("2.0 * 3", "6"),
        ("1 = 1.0", "true"),
        ("1.0 / 0", "Infinity"),
        ("-1 / 0.0", "-Infinity"),
        ("5.5 % 2", "0"),
        ("2.5 << 1.4", "4"),
        ("int(2.5)", "2"),
        ("int(-3.5)", "-4"),
        ("double(5) / 2", "2.5"),
        ("int(1e19)", "error: double to int overflow for 10000000000000000000.000000"),
        ("true + 1.0", "error: cannot coerce boolean to double"),
        ("- 0.0", "0"),
    ]);
}

#[test]
fn nulls_spread_and_booleans_are_not_numbers() {
    all(&[
        ("null + 1", "NULL"),
        ("abs(null)", "NULL"),
        ("null and false", "NULL"),
        ("false and null", "false"),
        ("true and null", "NULL"),
        ("null or true", "NULL"),
        ("true or null", "true"),
        ("false or null", "NULL"),
        ("not null", "NULL"),
        ("false and 1 / 0 = 1", "false"),
        ("true or 1 / 0 = 1", "true"),
        ("1 and true", "error: cannot coerce int to boolean"),
        ("not 1", "error: cannot coerce int to boolean"),
        ("true + 1", "error: cannot coerce boolean to int"),
        ("true = true", "error: cannot coerce boolean to int"),
        ("1 is true", "false"),
        ("null is true", "false"),
        ("null is not true", "true"),
    ]);
}

#[test]
fn case_takes_the_first_true_branch_and_evaluates_no_other() {
    all(&[
        ("case when 1 = 2 then 1 / 0 when 2 then 5 else 1 / 0 end", "5"),
        ("case when false then 1 end", "NULL"),
        ("case when null then 1 when 0 then 2 when 0.0 then 3 else 4 end", "4"),
        ("case when true then case when false then 1 else 2 end end + 1", "3"),
        ("case when 1 then 2 else 3", "error: syntax error: the expression ends too early"),
        ("case else 3 end", "error: syntax error: unexpected `else`"),
        ("case 1 when 1 then 2 end", "error: syntax error: unexpected `1`"),
    ]);
}

#[test]
fn functions_have_names_and_numbers_of_arguments() {
    all(&[
        ("abs(-5)", "5"),
        ("ABS(-5.5)", "5.5"),
        ("greatest(1, 2.5, 2)", "2.5"),
        ("least(3, 1, 2)", "1"),
        ("greatest(7)", "7"),
        ("exp(0)", "1"),
        ("ln(exp(1))", "1"),
        ("sqrt(2)", "1.4142135623731"),
        ("pi()", "3.14159265358979"),
        ("pow(2, 10)", "1024"),
        ("power(2, -1)", "0.5"),
        ("mod(-7, 2)", "-1"),
        ("abs()", "error: unexpected number of arguments (`abs`)"),
        ("pi(1)", "error: unexpected number of arguments (`pi`)"),
        ("least()", "error: at least one argument expected (`least`)"),
        ("hash()", "error: unexpected number of arguments (`hash`)"),
        ("hash(1, 2, 3)", "error: unexpected number of arguments (`hash`)"),
        ("nofunc(1)", "error: unexpected function name `nofunc`"),
        ("abs 1", "error: syntax error: unexpected `1`"),
        ("abs(1", "error: syntax error: the expression ends too early"),
        ("abs(1,)", "error: syntax error: unexpected `)`"),
        ("1 2", "error: syntax error: unexpected `2`"),
        ("1 < 2 < 3", "error: syntax error: unexpected `<`"),
        ("", "error: syntax error: the expression ends too early"),
        ("1 +", "error: syntax error: the expression ends too early"),
        ("is null", "error: syntax error: unexpected `is`"),
        ("1 is 2", "error: syntax error: unexpected `2`"),
        ("1 is not", "error: syntax error: the expression ends too early"),
        ("random(2, 1)", "error: empty range given to random"),
        ("random(-9223372036854775808, 0)", "error: random range is too large"),
        ("random(0, 9223372036854775807)", "error: random range is too large"),
        ("random(5, 5)", "5"),
    ]);
    let many = (0..17).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    assert!(text(&format!("least({many})")).contains("maximum is 16"));
    assert_eq!(text(&format!("least({})", &many[2..])), "1");
}

#[test]
fn parameters_of_distributions_have_limits() {
    for (call, word) in [
        ("random_gaussian(1, 10, 1.9)", "at least 2.000000 (not 1.900000)"),
        ("random_exponential(1, 10, 0)", "greater than zero (not 0.000000)"),
        ("random_zipfian(1, 10, 1.0)", "in range [1.001, 1000] (not 1.000000)"),
        ("random_zipfian(1, 10, 1001)", "in range [1.001, 1000] (not 1001.000000)"),
        ("permute(1, 0, 1)", "greater than zero"),
    ] {
        assert!(text(call).contains(word), "{}", text(call));
    }
}

#[test]
fn texts_become_values_when_expressions_use_them() {
    all(&[
        (":seven + 1", "8"),
        (":half * 2", "1"),
        (":yes and true", "true"),
        (":nothing is null", "true"),
        (":nobody", "error: undefined variable \"nobody\""),
    ]);
    assert!(text(":word").contains("malformed variable \"word\""), "{}", text(":word"));
}

/// Values that pgbench 15 printed.
#[test]
fn hashes_and_permutations_are_pgbench_s() {
    all(&[
        ("hash(10, 5432)", "-5817877081768721676"),
        ("hash_murmur2(9223372036854775807, 1)", "-422191570849047500"),
        ("hash_fnv1a(10, 5432)", "-7793829335365542153"),
        ("hash_fnv1a(-1, -2)", "-6231262725192820045"),
        ("permute(7, 1000003, 42)", "744102"),
        ("permute(-5, 9223372036854775807, 0)", "6730089421883709111"),
        ("permute(5, 2, 9)", "0"),
        ("permute(5, 1, 9)", "0"),
        // With the default seed that pgbench drew from --random-seed=12345.
        ("hash(0)", "-3057681969598993118"),
        ("permute(0, 4)", "3"),
        ("permute(1, 4)", "1"),
    ]);
}

/// Values that two clients of pgbench 15 drew with --random-seed=12345.
#[test]
fn random_values_are_pgbench_s() {
    let calls = [
        "random(1, 1000000)",
        "random(-5, 5)",
        "random_gaussian(1, 1000000, 2.5)",
        "random_exponential(1, 1000000, 3.5)",
        "random_zipfian(1, 1000000, 1.07)",
        "random_zipfian(1, 100, 2.5)",
    ];
    let drawn = [[453_054, 2, 488_825, 1409, 13, 1], [287_770, 2, 22_204, 713_172, 125, 2]];
    let mut streams = Streams::new(12_345, 2, false);
    assert_eq!(streams.default_seed, DEFAULT_SEED);
    for (client, values) in streams.clients.iter_mut().zip(drawn) {
        let variables = Variables::new(Arc::new(Names::default()));
        for (call, value) in calls.iter().zip(values) {
            let tree = expression::parse(call).unwrap().map(&mut |_| 0);
            let mut scope = Scope { random: &mut client.functions, script: 0, command: 0 };
            assert_eq!(tree.evaluate(&variables, &mut scope), Ok(Value::Int(value)), "{call}");
        }
    }
}

const DEFAULT_SEED: i64 = -2_238_700_299_075_589_035;

#[test]
fn deep_expressions_are_refused_not_overflowed() {
    let nested = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(text(&nested(100)), "1");
    assert_eq!(text(&format!("{}1", "- ".repeat(100))), "1");
    assert!(text(&nested(100_000)).contains("tokens"));
    assert!(text(&nested(500)).contains("deep"));
    assert!(text(&format!("{}1", "-".repeat(1000))).contains("deep"));
    assert!(text(&format!("{}true", "not ".repeat(1000))).contains("deep"));
    assert!(text(&"-(".repeat(150)).contains("deep"));
    assert!(text(&"case when ".repeat(150)).contains("deep"));
    assert!(text(&"abs(".repeat(150)).contains("deep"));
}

#[test]
fn long_expressions_are_refused_not_overflowed() {
    let sum = |n: usize| vec!["1"; n].join(" + ");
    assert_eq!(text(&sum(TERMS)), TERMS.to_string());
    assert!(text(&sum(3 * TERMS)).contains("tokens"));
}

const TERMS: usize = 900;

#[test]
fn the_stream_is_reproducible_and_within_the_range() {
    for distribution in ["random(3, 9", "random_gaussian(3, 9, 2.5", "random_exponential(3, 9, 5"] {
        let value = evaluate(&format!("{distribution})")).unwrap();
        assert!(matches!(value, Value::Int(3..=9)), "{value}");
        assert_eq!(evaluate(&format!("{distribution})")).unwrap(), value);
    }
}

mod fuzz {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,60}") {
            let _ = parse(&text, "f", ParseOptions { allow_shell: true });
        }

        #[test]
        fn any_command_is_parsed_or_refused(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "\\", "\\set", "\\if", "\\elif", "\\else", "\\endif", "\\gset", "\\sleep", "x",
                    ":x", "1", "2.5", "(", ")", "+", "-", "*", "=", "'", "\"", "$$", "$a$", "/*",
                    "*/", "--", ";", "\\;", "\n", "\\\n", "begin", "create", "function", "end", "é",
                    "case", "when", "then", "not", "is", "null", "random", ",", "E'", "SELECT",
                ]),
                0..40,
            ),
        ) {
            let text = words.join(" ");
            if let Err(error) = parse(&text, "f", ParseOptions::default()) {
                let shown = error.to_string();
                prop_assert!(shown.ends_with('^'), "{}", shown);
            }
        }

        #[test]
        fn statements_lose_nothing(text in "[a-z;:'\"$ \n/*()-]{0,60}") {
            let mut at = 0;
            loop {
                let statement = sql::read_statement(&text, at);
                prop_assert!(statement.next >= at && statement.from >= at);
                let end = statement.from + statement.text.len();
                prop_assert_eq!(&text[statement.from..end], &statement.text);
                prop_assert_eq!(statement.next, end);
                at = statement.next;
                if statement.stop == sql::Stop::EndOfScript {
                    break;
                }
            }
            prop_assert_eq!(at, text.len());
        }
    }
}
