use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use super::*;

#[test]
fn a_socket_that_is_not_postgres_names_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let address = ServerAddress::unix(directory.path(), 5432);
    let ServerAddress::Unix(path) = &address else { unreachable!("built as a path") };
    let _listener = UnixListener::bind(path).unwrap();
    let facts = ConnectionFacts { server: address, client: None, backend_pid: None };
    match find_postmaster(&facts).unwrap() {
        Located::OutOfSight(why) => {
            assert!(why.contains(&format!("pid {}", std::process::id())), "{why}");
        }
        found => panic!("{found:?}"),
    }
}

#[test]
fn a_socket_that_is_not_there_is_an_error() {
    let server = ServerAddress::unix(Path::new("/nonexistent"), 5432);
    let facts = ConnectionFacts { server, client: None, backend_pid: None };
    let message = find_postmaster(&facts).unwrap_err().to_string();
    assert!(message.contains("/nonexistent/.s.PGSQL.5432"), "{message}");
}

#[test]
fn a_local_listener_is_found_by_port_and_by_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let stream = TcpStream::connect(server).unwrap();
    let (_accepted, client) = listener.accept().unwrap();
    assert_eq!(stream.local_addr().unwrap(), client);
    for client in [None, Some(client)] {
        let server = ServerAddress::Tcp(server);
        let facts = ConnectionFacts { server, client, backend_pid: None };
        match find_postmaster(&facts).unwrap() {
            Located::OutOfSight(why) => assert!(why.contains("not to Postgres"), "{why}"),
            found => panic!("{found:?}"),
        }
    }
}

#[test]
fn another_machine_is_out_of_sight() {
    // Reserved for documentation: no machine has it.
    let server = ServerAddress::Tcp("192.0.2.1:5432".parse().unwrap());
    let facts = ConnectionFacts { server, client: None, backend_pid: Some(1) };
    let found = find_postmaster(&facts).unwrap();
    assert_eq!(found, Located::OutOfSight("192.0.2.1:5432 is another machine".into()));
}

#[test]
fn mapped_addresses_are_the_same() {
    let (mapped, plain) = ("[::ffff:127.0.0.1]:5432", "127.0.0.1:5432");
    assert!(same(mapped.parse().unwrap(), plain.parse().unwrap()));
    assert!(!same("[::1]:5432".parse().unwrap(), plain.parse().unwrap()));
}

/// A throw-away cluster; stopped and removed when dropped.
struct Cluster {
    directory: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
}

impl Cluster {
    /// Absent when Postgres is not installed.
    fn start() -> Option<Cluster> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let bin = versions
            .flatten()
            .map(|entry| entry.path().join("bin"))
            .find(|bin| bin.join("initdb").exists())?;
        let directory = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let cluster = Cluster { directory, bin, port };
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(cluster.directory.path(), mode).unwrap();
        let data = cluster.data();
        cluster.run("initdb", &["-A", "trust", "-U", "postgres", "-N", "-D", &data]);
        let socket = cluster.directory.path().display();
        let settings = format!(
            "-k {socket} -p {port} -c listen_addresses=127.0.0.1 -c cluster_name='a: b' -F"
        );
        let log = format!("{socket}/log");
        cluster.run("pg_ctl", &["start", "-w", "-D", &data, "-o", &settings, "-l", &log]);
        Some(cluster)
    }

    fn data(&self) -> String {
        self.directory.path().join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        assert!(self.succeeds(program, arguments), "{program} {arguments:?}");
    }

    /// Postgres refuses to run as root.
    fn succeeds(&self, program: &str, arguments: &[&str]) -> bool {
        let mut command = match nix::unistd::geteuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                let user = nix::unistd::User::from_name("postgres").unwrap();
                let (uid, gid) =
                    user.map_or((65534, 65534), |user| (user.uid.as_raw(), user.gid.as_raw()));
                command.args([format!("--reuid={uid}"), format!("--regid={gid}")]);
                command.arg("--clear-groups").arg(self.bin.join(program));
                command
            }
            false => Command::new(self.bin.join(program)),
        };
        let status = command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }

    fn postmaster(&self) -> u32 {
        let pid_file = self.directory.path().join("data/postmaster.pid");
        let text = std::fs::read_to_string(pid_file).unwrap();
        text.lines().next().unwrap().parse().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.data();
        if !self.succeeds("pg_ctl", &["stop", "-w", "-m", "immediate", "-D", &data]) {
            eprintln!("the test's server in {data} did not stop");
        }
    }
}

/// The children's roles once each has set its title.
fn settled_roles(postmaster: u32) -> Vec<&'static str> {
    loop {
        let table = ProcessTable::read();
        let found: Vec<&str> =
            table.children(postmaster).iter().map(|child| child.role()).collect();
        if !found.contains(&"starting") {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn finds_the_postmaster_of_a_real_server_and_its_children() {
    let Some(cluster) = Cluster::start() else {
        return eprintln!("skipped: no Postgres is installed");
    };
    let expected = Located::Postmaster(cluster.postmaster());

    let server = ServerAddress::unix(cluster.directory.path(), cluster.port);
    let by_socket = ConnectionFacts { server, client: None, backend_pid: None };
    assert_eq!(find_postmaster(&by_socket).unwrap(), expected);

    let roles = settled_roles(cluster.postmaster());
    for role in ["checkpointer", "background writer", "walwriter", "autovacuum launcher"] {
        assert!(roles.contains(&role), "{role} in {roles:?}");
    }
    let table = ProcessTable::read();
    assert!(table.postmasters().any(|pid| pid == cluster.postmaster()));
    let child = table.children(cluster.postmaster())[0].pid;
    assert_eq!(table.postmaster_of(child), Some(cluster.postmaster()));
    assert_eq!(table.children_by_own_pid(cluster.postmaster()).get(&child), Some(&child));

    let address = SocketAddr::from(([127, 0, 0, 1], cluster.port));
    // A connection that sends nothing is a backend that waits for the startup packet.
    let stream = TcpStream::connect(address).unwrap();
    for client in [None, Some(stream.local_addr().unwrap())] {
        let server = ServerAddress::Tcp(address);
        let by_tcp = ConnectionFacts { server, client, backend_pid: None };
        assert_eq!(find_postmaster(&by_tcp).unwrap(), expected);
    }
}
