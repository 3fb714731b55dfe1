//! What a server process does, read from the title that Postgres gives it.

/// The role of a session of a client's.
pub const CLIENT_BACKEND: &str = "client backend";

/// A title's activity begins like this → the role. More specific beginnings come first.
const ROLES: &[(&str, &str)] = &[
    ("archiver", "archiver"),
    ("autovacuum launcher", "autovacuum launcher"),
    ("autovacuum worker", "autovacuum worker"),
    ("background writer", "background writer"),
    ("bgworker: logical replication launcher", "logical replication launcher"),
    ("bgworker: ", "background worker"),
    ("checkpointer", "checkpointer"),
    ("io worker", "io worker"),
    ("logger", "logger"),
    ("logical replication launcher", "logical replication launcher"),
    ("logical replication", "logical replication worker"),
    ("parallel worker for PID", "parallel worker"),
    ("slotsync worker", "slotsync worker"),
    ("startup", "startup"),
    ("stats collector", "stats collector"),
    ("wal writer", "walwriter"),
    ("walreceiver", "walreceiver"),
    ("walsender", "walsender"),
    ("walsummarizer", "walsummarizer"),
    ("walwriter", "walwriter"),
    ("writer process", "background writer"),
];

/// The role of a server process with this title. The postmaster itself, whose title is its
/// command line, is told apart by its pid, not here.
pub fn role_of_title(title: &str) -> &'static str {
    let Some(activity) = title.strip_prefix("postgres: ") else {
        // Just forked: the title is still the postmaster's command line.
        return "starting";
    };
    // `cluster_name` may stand before the activity, and may hold anything.
    let starts = activity.match_indices(": ").map(|(at, separator)| at + separator.len());
    let candidates = || std::iter::once(0).chain(starts.clone()).map(|start| &activity[start..]);
    if let Some(client) = candidates().find(|text| is_client(text)) {
        return if client.starts_with("walsender ") { "walsender" } else { CLIENT_BACKEND };
    }
    let known = candidates().find_map(|text| {
        ROLES.iter().find(|(beginning, _)| begins_with(text, beginning)).map(|(_, role)| *role)
    });
    known.unwrap_or("background worker")
}

/// `user database host activity`, where the host is `[local]` or `address(port)`.
fn is_client(text: &str) -> bool {
    let mut words = text.split(' ').skip(2);
    words.any(|word| word == "[local]" || is_address_with_port(word))
}

fn is_address_with_port(word: &str) -> bool {
    let inner = word.strip_suffix(')').and_then(|rest| rest.split_once('('));
    inner.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// Whole words only: a worker called `startup_check` is not the startup process.
fn begins_with(text: &str, beginning: &str) -> bool {
    text.strip_prefix(beginning).is_some_and(|rest| {
        beginning.ends_with(' ') || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_real_titles() {
        for (title, role) in [
            ("postgres: checkpointer ", "checkpointer"),
            ("postgres: checkpointer process", "checkpointer"),
            ("postgres: background writer ", "background writer"),
            ("postgres: writer process", "background writer"),
            ("postgres: walwriter ", "walwriter"),
            ("postgres: wal writer process", "walwriter"),
            ("postgres: autovacuum launcher ", "autovacuum launcher"),
            ("postgres: autovacuum worker bench", "autovacuum worker"),
            ("postgres: logical replication launcher ", "logical replication launcher"),
            (
                "postgres: logical replication apply worker for subscription 16390 ",
                "logical replication worker",
            ),
            ("postgres: parallel worker for PID 4242 ", "parallel worker"),
            ("postgres: stats collector ", "stats collector"),
            ("postgres: io worker 2", "io worker"),
            ("postgres: startup recovering 000000010000000000000003", "startup"),
            ("postgres: walsender rep 10.0.0.7(51234) streaming 0/3000148", "walsender"),
            ("postgres: walreceiver streaming 0/3000148", "walreceiver"),
            ("postgres: bench bench [local] idle", "client backend"),
            ("postgres: bench bench 127.0.0.1(40512) SELECT", "client backend"),
            ("postgres: bench bench ::1(40512) idle in transaction", "client backend"),
            ("postgres: pg_cron launcher ", "background worker"),
            ("/usr/lib/postgresql/15/bin/postgres -D /tmp/data", "starting"),
        ] {
            assert_eq!(role_of_title(title), role, "{title}");
        }
    }

    #[test]
    fn a_cluster_name_before_the_activity_is_passed_over() {
        assert_eq!(role_of_title("postgres: 15/main: checkpointer "), "checkpointer");
        assert_eq!(role_of_title("postgres: 15/main: u d [local] idle"), "client backend");
        assert_eq!(role_of_title("postgres: a: b: walwriter "), "walwriter");
    }

    #[test]
    fn names_that_look_like_roles_do_not_mislead() {
        assert_eq!(role_of_title("postgres: startup mydb [local] idle"), "client backend");
        assert_eq!(role_of_title("postgres: checkpointer db 10.1.1.1(99) BIND"), "client backend");
        assert_eq!(role_of_title("postgres: my user my db [local] idle"), "client backend");
        assert_eq!(role_of_title("postgres: startup_check "), "background worker");
    }
}
