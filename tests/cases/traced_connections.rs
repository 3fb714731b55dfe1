//! However the clients connect, the server's side is found, and its replies are told.

use lockscope_tests::postgres::{Postgres, unprivileged_user};
use lockscope_tests::traced::{BRIEF, Run, Turn};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

const CLIENTS: usize = 2;

fn traced(turn: &Turn, dsn: &str) -> Run {
    let done = turn.run(&[&BRIEF[..], &["--json", "-c", "2", "--dsn", dsn]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(!done.stdout.contains(Postgres::PASSWORD), "the password is in the report");
    Run::of(&done).expect("JSON")
}

/// The clients' backends are known as such, and the server's other processes too.
fn server_is_found(run: &Run) {
    assert!(!run.warnings().contains(&"client-side-only"), "{:?}", run.warnings());
    let roles: Vec<_> =
        run.list("backends").iter().filter_map(|task| task["role"].as_str()).collect();
    let count = |role| roles.iter().filter(|found| **found == role).count();
    assert_eq!((count("client backend"), count("postmaster")), (CLIENTS, 1), "{roles:?}");
    assert!(count("checkpointer") == 1, "{roles:?}");
    assert_eq!(run.count("/ledger/server/tasks_count"), CLIENTS as u64);
}

/// The kernel side saw all transactions that the load made, but for those that were cut at the ends of
/// the measured time, and split all of their latency.
fn replies_are_read(run: &Run) {
    assert!(!run.warnings().contains(&"requests-differ"), "{:?}", run.warnings());
    let load = run.count("/throughput/traced_transactions_count");
    let told = run.backends_transactions();
    let slack = 2 * CLIENTS as u64;
    assert!(load > 0 && load.abs_diff(told) <= slack, "{load} and {told}");
    // The first of each backend began before the replies were looked at.
    let split = run.count("/ledger/server/transactions_count");
    assert!(split <= told && told - split <= slack, "{told} and {split}");
}

/// A port that nobody has; somebody else may take it before the server does, but hardly.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port().to_string()
}

#[test]
fn by_socket_and_by_tcp() {
    let Some(turn) = Turn::take("by_socket_and_by_tcp") else { return };
    let port = free_port();
    let settings = [("listen_addresses", "127.0.0.1"), ("port", port.as_str())];
    let server = Postgres::start(&settings).expect("a server");
    for dsn in [server.dsn(), server.tcp_dsn()] {
        let run = traced(&turn, &dsn);
        server_is_found(&run);
        replies_are_read(&run);
    }
}

/// A certificate and its key that the server may read.
fn certificate(dir: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let user = unprivileged_user().expect("a user");
    let write = |name: &str, content: String| {
        let path = dir.join(name);
        std::fs::write(&path, content).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("private");
        chown(&path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("given away");
        path
    };
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).expect("open");
    (write("cert.pem", made.cert.pem()), write("key.pem", made.signing_key.serialize_pem()))
}

/// The bytes tell nothing; what the backend says of itself does.
#[test]
fn by_tls() {
    let Some(turn) = Turn::take("by_tls") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = certificate(dir.path());
    let (cert, key) = (cert.to_str().expect("plain"), key.to_str().expect("plain"));
    let port = free_port();
    let settings = [
        ("listen_addresses", "127.0.0.1"),
        ("port", port.as_str()),
        ("ssl", "on"),
        ("ssl_cert_file", cert),
        ("ssl_key_file", key),
    ];
    let server = Postgres::start(&settings).expect("a server");
    let run = traced(&turn, &format!("{} sslmode=require", server.tcp_dsn()));
    server_is_found(&run);
    replies_are_read(&run);
}
