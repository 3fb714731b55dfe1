//! Two tracers would measure each other: the second is refused, whoever measures only is not.

use lockscope_tests::command::{finish, lockscope};
use lockscope_tests::traced::{BRIEF, Turn};

#[test]
fn the_second_is_refused_at_once_and_may_measure_alone() {
    let Some(turn) = Turn::take("the_second_is_refused_at_once_and_may_measure_alone") else {
        return;
    };
    let long = ["--workload", "select-prepared", "-T", "100", "--warmup", "0"];
    let first = turn.start(&long).expect("it traces");

    // No server answers there: the order shows that none is made or asked for nothing.
    let nowhere = ["run", "--dsn", "host=/no/such/place"];
    let second = finish(&mut lockscope(&nowhere)).expect("it ends");
    assert_eq!(second.code, Some(2), "{}", second.stderr);
    for text in ["another lockscope", &format!("(pid {})", first.pid()), "--no-trace"] {
        assert!(second.stderr.contains(text), "{text}: {}", second.stderr);
    }

    let third =
        finish(&mut lockscope(&[&["run", "--no-trace"], &BRIEF[..]].concat())).expect("it ends");
    assert_eq!(third.code, Some(0), "{}", third.stderr);
    assert!(third.stdout.contains("tps = "), "{}", third.stdout);
}
