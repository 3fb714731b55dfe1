//! `lockscope init` makes the tables that `pgbench -i` makes with the same options.

use std::os::unix::fs::chown;
use std::process::Command;
use std::time::Duration;

use lockscope_tests::command::{Running, finish, lockscope, wait_until};
use lockscope_tests::postgres::{Postgres, unprivileged_user};
use nix::sys::signal::Signal;

/// Every row of every table, the number of pages, and for the accounts how many of them are known to
/// be all visible: since pgbench 17 the two small tables are frozen too, as lockscope's are.
const CONTENT: &str = "
    select 'branches', count(*), md5(string_agg(t::text, ',' order by bid)) from pgbench_branches t
    union all
    select 'tellers', count(*), md5(string_agg(t::text, ',' order by tid)) from pgbench_tellers t
    union all
    select 'accounts', count(*), md5(string_agg(t::text, ',' order by aid)) from pgbench_accounts t
    union all
    select relname, relpages,
           reltuples || case when relname like 'pgbench_accounts%' then ' ' || relallvisible else '' end
      from pg_class
      where relname like 'pgbench%' order by 1";

fn output(command: &mut Command) -> String {
    let done = finish(command).expect("it ends");
    assert_eq!(done.code, Some(0), "{command:?}: {}", done.stderr);
    done.stdout
}

fn query(server: &Postgres, sql: &str) -> String {
    output(server.client("psql").args(["-X", "-A", "-t", "-c", sql]))
}

/// Definitions, comments and rights included, and contents. The password-like token that newer
/// versions of `pg_dump` write differs from call to call.
fn state(server: &Postgres) -> String {
    let dump = output(server.client("pg_dump").args(["--schema-only", "--table=pgbench_*"]));
    let lines = dump.lines().filter(|line| !line.contains("restrict "));
    lines.collect::<Vec<_>>().join("\n") + &query(server, CONTENT)
}

fn init(server: &Postgres, options: &[&str]) -> String {
    let dsn = server.dsn();
    let words = [&["init", "--dsn", &dsn], options].concat();
    let done = finish(&mut lockscope(&words)).expect("it ends");
    assert_eq!(done.code, Some(0), "{options:?}: {}", done.stderr);
    done.stderr
}

/// Both programs with the same options, one after the other; the results must be the same.
fn same(server: &Postgres, options: &[&str]) {
    output(server.client("pgbench").arg("-i").args(options));
    let theirs = state(server);
    init(server, options);
    let ours = state(server);
    assert!(theirs.contains("CREATE"), "{options:?}: {theirs}");
    assert_eq!(theirs, ours, "{options:?}");
}

#[test]
fn the_tables_are_pgbench_s() {
    let server = Postgres::start(&[("autovacuum", "off")]).expect("a server");
    same(&server, &[]);
    same(&server, &["-s", "3", "-F", "75"]);
    same(&server, &["-I", "dtGvp", "-s", "2"]);
    same(&server, &["-I", "dtg"]);
    same(&server, &["-n", "--foreign-keys"]);
    same(&server, &["-I", "dtgvpf", "--foreign-keys", "--unlogged-tables"]);
    same(&server, &["--partitions", "3", "-s", "2"]);
    same(&server, &["--partitions=4", "--partition-method=hash", "-F", "90", "-q"]);
    same(&server, &["--partitions", "2", "--unlogged-tables", "--foreign-keys"]);
}

#[test]
fn tablespaces_are_used() {
    let server = Postgres::start(&[("autovacuum", "off")]).expect("a server");
    let user = unprivileged_user().expect("a user");
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    for (dir, name) in dirs.iter().zip(["for tables", "for indexes"]) {
        chown(dir.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("given away");
        query(
            &server,
            &format!("create tablespace \"{name}\" location '{}'", dir.path().display()),
        );
    }
    same(&server, &["--tablespace=for tables", "--index-tablespace", "for indexes"]);
    query(
        &server,
        "drop table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
    );
}

#[test]
fn steps_can_be_taken_one_by_one_and_touch_nothing_else() {
    let server = Postgres::start(&[]).expect("a server");
    query(&server, "create table pgbench_mine(a int); insert into pgbench_mine values (42)");
    init(&server, &["-I", "dt"]);
    assert_eq!(query(&server, "select count(*) from pgbench_accounts").trim(), "0");
    init(&server, &["-I", "g", "-s", "2"]);
    init(&server, &["-I", "vp"]);
    assert_eq!(query(&server, "select count(*) from pgbench_tellers").trim(), "20");
    assert_eq!(query(&server, "select a from pgbench_mine").trim(), "42");

    // The rows are there: a second creation fails and says what is there.
    let dsn = server.dsn();
    let done = finish(&mut lockscope(&["init", "-I", "tg", "--dsn", &dsn])).expect("it ends");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    for text in ["pgbench_history", "already exists", "create tables: nothing done", "not begun"] {
        assert!(done.stderr.contains(text), "no `{text}`: {}", done.stderr);
    }
    assert_eq!(query(&server, "select count(*) from pgbench_tellers").trim(), "20");
}

#[test]
fn tables_made_on_request_are_the_user_s_own() {
    let server = Postgres::start(&[]).expect("a server");
    let dsn = server.dsn();
    let run = |scale| {
        let words = ["run", "--no-trace", "-q", "-S", "-t", "1", "-s", scale, "--dsn", &dsn];
        finish(&mut lockscope(&words)).expect("it ends")
    };
    // A run's own tables become the user's when init fills them.
    assert_eq!(run("1").code, Some(0));
    init(&server, &["-I", "g", "-s", "2"]);
    assert_eq!(run("2").code, Some(0));
    let refused = run("3");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("--force-init"), "{}", refused.stderr);
    assert_eq!(query(&server, "select count(*) from pgbench_branches").trim(), "2");
}

#[test]
fn an_interrupted_init_says_what_is_there() {
    let server = Postgres::start(&[]).expect("a server");
    let dsn = server.dsn();
    let words = ["init", "-s", "500", "--dsn", &dsn];
    let running = Running::start(&mut lockscope(&words)).expect("started");
    wait_until(Duration::from_secs(60), || running.said().contains("tuples")).expect("rows");
    running.signal(Signal::SIGINT).expect("sent");
    let done = running.wait().expect("it ends");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    for text in [
        "interrupted while filling the tables",
        "Completed: drop tables, create tables",
        "client-side generate: rolled back",
        "not begun: vacuum, primary keys",
        "`-I gvp` goes on",
    ] {
        assert!(done.stderr.contains(text), "no `{text}`: {}", done.stderr);
    }
    let others = "select count(*) from pg_stat_activity \
                  where backend_type = 'client backend' and pid <> pg_backend_pid()";
    wait_until(Duration::from_secs(60), || query(&server, others).trim() == "0")
        .expect("the server has stopped working on it");
    assert_eq!(query(&server, "select count(*) from pgbench_branches").trim(), "0");
    init(&server, &["-I", "gvp"]);
    assert_eq!(query(&server, "select count(*) from pgbench_accounts").trim(), "100000");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (arguments, expected) in [
        ("init -I dtx", "`x` is no initialization step"),
        ("init -s 0", "at least 1"),
        ("init -F 9", "10..=100"),
        ("init --partition-method hash", "--partitions"),
        ("init --partitions 2 --partition-method list", "hash"),
        ("init -h /no/such/place", "/no/such/place"),
    ] {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let done = finish(&mut lockscope(&words)).expect("it ends");
        assert_eq!(done.code, Some(2), "{arguments}: {}", done.stderr);
        assert!(done.stderr.contains(expected), "{arguments}: {}", done.stderr);
    }
}
