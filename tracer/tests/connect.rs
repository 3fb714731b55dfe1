//! Connections as libpq makes them: proofs of identity, TLS, lists of servers, what errors say.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod common;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Cluster, Finished, finish, lockscope_itself};
use tempfile::TempDir;

/// `lockscope init -I dt` needs the control connection and, before it, a client's own start-up.
fn connect(dsn: &str) -> Finished {
    connect_with(dsn, &[])
}

fn connect_with(dsn: &str, variables: &[(&str, &str)]) -> Finished {
    let mut command = lockscope_itself();
    command.args(["init", "-q", "-I", "dt", "--dsn", dsn]).env("HOME", "/nonexistent");
    finish(command.envs(variables.iter().copied()).spawn().unwrap())
}

fn works(dsn: &str) {
    let done = connect(dsn);
    assert_eq!(done.code, Some(0), "{dsn}: {}", done.stderr);
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server on a TCP port and a socket.
struct Server {
    cluster: Cluster,
    port: u16,
    files: TempDir,
}

impl Server {
    fn start(settings: &[&str], hba: &str, prepare: &dyn Fn(&Path)) -> Self {
        let (port, files) = (free_port(), tempfile::tempdir().unwrap());
        let port_setting = format!("port={port}");
        let mut all = vec!["listen_addresses=127.0.0.1", &port_setting];
        all.extend(settings);
        let local = "local all all trust\n";
        let cluster = Cluster::with_settings(&all, &|data| {
            fs::write(data.join("pg_hba.conf"), format!("{local}{hba}\n")).unwrap();
            prepare(data);
        });
        Self { cluster, port, files }
    }

    fn execute(&self, sql: &str) -> String {
        let mut psql = self.cluster.psql(sql);
        let output = psql.env("PGPORT", self.port.to_string()).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn dsn(&self, more: &str) -> String {
        format!("host=localhost hostaddr=127.0.0.1 port={} dbname=postgres {more}", self.port)
    }

    fn role(&self, name: &str, encryption: &str) {
        let sql = format!(
            "set password_encryption = '{encryption}'; create role {name} superuser login password 'sesame'"
        );
        self.execute(&sql);
    }
}

#[test]
fn every_kind_of_password_is_accepted_and_no_other() {
    let hba =
        "host all in_clear all password\nhost all hashed all md5\nhost all all all scram-sha-256";
    let server = Server::start(&[], hba, &|_| {});
    for (role, encryption) in
        [("in_clear", "scram-sha-256"), ("hashed", "md5"), ("modern", "scram-sha-256")]
    {
        server.role(role, encryption);
        works(&server.dsn(&format!("user={role} password=sesame")));
        let done = connect(&server.dsn(&format!("user={role} password=parsley")));
        done.refused(&["password authentication failed", role]);
        assert!(!done.stderr.contains("parsley"), "{}", done.stderr);
        connect(&server.dsn(&format!("user={role}"))).refused(&["asks user", "PGPASSWORD"]);
    }
    let bound = "user=modern password=sesame channel_binding=require";
    connect(&server.dsn(bound)).refused(&["channel_binding=require", "does not use TLS"]);
    let no_database =
        format!("host=localhost port={} user=modern password=sesame dbname=x", server.port);
    connect(&no_database).refused(&["database \"x\" does not exist", "createdb"]);

    // A password file has an entry for each server.
    let file = server.files.path().join("pgpass");
    fs::write(&file, format!("localhost:{}:postgres:modern:sesame\n", server.port)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    works(&server.dsn(&format!("user=modern passfile={}", file.display())));
}

/// An authority, and certificates by it for the server and for a client.
struct Certificates {
    authority: String,
    server: (String, String),
    client: (String, String),
}

impl Certificates {
    fn new(client: &str) -> Self {
        use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
        };
        Self { authority: authority.pem(), server: signed("localhost"), client: signed(client) }
    }

    fn settings() -> [&'static str; 4] {
        ["ssl=on", "ssl_ca_file=ca.crt", "ssl_cert_file=server.crt", "ssl_key_file=server.key"]
    }

    fn install(&self, data: &Path) {
        use std::os::unix::fs::MetadataExt as _;
        let owner = fs::metadata(data).unwrap();
        for (name, content) in [
            ("ca.crt", &self.authority),
            ("server.crt", &self.server.0),
            ("server.key", &self.server.1),
        ] {
            private(&data.join(name), content);
            chown(data.join(name), Some(owner.uid()), Some(owner.gid())).unwrap();
        }
    }
}

fn private(path: &Path, content: &str) -> PathBuf {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_owned()
}

#[test]
fn tls_is_used_checked_and_bound_as_asked() {
    let certificates = Certificates::new("bearer");
    let hba = "hostssl all bearer all cert\nhostnossl all in_clear all trust\n\
               hostssl all modern all scram-sha-256\nhost all anyhow all trust";
    let server = Server::start(&Certificates::settings(), hba, &|data| certificates.install(data));
    for role in ["bearer", "in_clear", "modern", "anyhow"] {
        server.role(role, "scram-sha-256");
    }
    let file = |name: &str, content: &str| {
        private(&server.files.path().join(name), content).display().to_string()
    };
    let authority = file("ca", &certificates.authority);
    let stranger = file("stranger", &Certificates::new("x").authority);

    // pg_hba.conf lets each in with TLS, or without, only.
    for mode in ["disable", "allow", "prefer"] {
        works(&server.dsn(&format!("user=in_clear sslmode={mode}")));
    }
    for mode in ["allow", "prefer", "require"] {
        works(&server.dsn(&format!("user=modern password=sesame sslmode={mode}")));
    }
    connect(&server.dsn("user=modern password=sesame sslmode=disable")).refused(&["no encryption"]);
    connect(&server.dsn("user=in_clear sslmode=require")).refused(&["pg_hba.conf"]);

    let checked = |mode: &str, root: &str| format!("user=anyhow sslmode={mode} sslrootcert={root}");
    for mode in ["require", "verify-ca", "verify-full"] {
        works(&server.dsn(&checked(mode, &authority)));
        connect(&server.dsn(&checked(mode, &stranger))).refused(&["TLS with the server"]);
    }
    let by_address = |mode: &str| {
        format!("host=127.0.0.1 port={} dbname=postgres {}", server.port, checked(mode, &authority))
    };
    works(&by_address("verify-ca"));
    connect(&by_address("verify-full")).refused(&["TLS with the server", "name"]);

    for binding in ["disable", "prefer", "require"] {
        let modern = format!("user=modern password=sesame channel_binding={binding}");
        works(&server.dsn(&modern));
    }
    let trusted = "user=anyhow channel_binding=require";
    connect(&server.dsn(trusted)).refused(&["does not ask for SCRAM"]);

    let (cert, key) =
        (file("c.crt", &certificates.client.0), file("c.key", &certificates.client.1));
    works(&server.dsn(&format!("user=bearer sslcert={cert} sslkey={key}")));
    connect(&server.dsn("user=bearer")).refused(&["valid client certificate", "sslcert"]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let open = server.dsn(&format!("user=bearer sslcert={cert} sslkey={key}"));
    connect(&open).refused(&["c.key", "chmod 0600"]);
}

#[test]
fn of_several_servers_the_one_of_the_asked_kind_is_used() {
    let primary = Server::start(&[], "host all all all trust", &|_| {});
    let standby = Server::start(&[], "host all all all trust", &|data| {
        private(&data.join("standby.signal"), "");
        use std::os::unix::fs::MetadataExt as _;
        let owner = fs::metadata(data).unwrap();
        chown(data.join("standby.signal"), Some(owner.uid()), Some(owner.gid())).unwrap();
    });
    let closed = free_port();
    let dsn = |ports: &[u16], more: &str| {
        let hosts = vec!["localhost"; ports.len()].join(",");
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        format!("host={hosts} port={} user=postgres {more}", ports.join(","))
    };
    // The standby creates no table, so its words tell that it was the one.
    let standby_answers = |dsn: &str| connect(dsn).refused(&["read-only transaction"]);
    let both = [standby.port, primary.port];
    for kind in ["read-write", "primary"] {
        works(&dsn(&both, &format!("target_session_attrs={kind}")));
    }
    let turned = [closed, primary.port, standby.port];
    for kind in ["read-only", "standby", "prefer-standby"] {
        standby_answers(&dsn(&turned, &format!("target_session_attrs={kind}")));
    }
    works(&dsn(&[closed, primary.port], "target_session_attrs=prefer-standby"));
    works(&dsn(&[closed, primary.port], ""));
    works(&dsn(&[closed, closed, primary.port], "load_balance_hosts=random"));
    connect(&dsn(&[primary.port, closed], "target_session_attrs=standby")).refused(&[
        "none of the servers will do",
        "is not a standby",
        &format!("port {closed}: Connection refused"),
    ]);
    connect(&dsn(&[primary.port], "target_session_attrs=read-only")).refused(&["is not read-only"]);
    let by_variables = connect_with(
        "host=localhost user=postgres",
        &[("PGPORT", &primary.port.to_string()), ("PGTARGETSESSIONATTRS", "standby")],
    );
    by_variables.refused(&["is not a standby", "target_session_attrs"]);
}

#[test]
fn sessions_get_their_settings_and_name() {
    let server = Server::start(&["log_line_prefix=%a:"], "host all all all trust", &|_| {});
    let user = "user=postgres";
    let slow = "options='-c statement_timeout=100ms'";
    let mut command = lockscope_itself();
    let dsn = server.dsn(&format!("{user} {slow}"));
    command.args(["init", "-q", "-s", "20", "--dsn", &dsn]);
    finish(command.spawn().unwrap()).refused(&["statement timeout", "Completed:"]);
    let mut command = lockscope_itself();
    command.args(["init", "-q", "-s", "20", "--dsn", &server.dsn(user)]);
    command.env("PGOPTIONS", "-c statement_timeout=100ms");
    finish(command.spawn().unwrap()).refused(&["statement timeout"]);

    works(&server.dsn(&format!("{user} application_name=mine options='-c log_statement=all'")));
    let log = server.cluster.log();
    assert!(log.contains("mine:LOG:  statement: create table"), "{log}");
    connect(&server.dsn(&format!("{user} options='-c no_such=1'"))).refused(&["no_such"]);
}

#[test]
fn a_server_that_stands_still_is_given_up_in_time() {
    let server = Server::start(&[], "host all all all trust", &|_| {});
    server.cluster.signal(nix::sys::signal::Signal::SIGSTOP);
    let began = std::time::Instant::now();
    let done = connect_with(&server.dsn("user=postgres"), &[("PGCONNECT_TIMEOUT", "1")]);
    server.cluster.signal(nix::sys::signal::Signal::SIGCONT);
    done.refused(&["within 1 s", "PGCONNECT_TIMEOUT"]);
    assert!(began.elapsed() < Duration::from_secs(30), "the default, not the limit, ended it");
}

#[test]
fn a_variable_that_chose_the_place_is_named() {
    let mut command = lockscope_itself();
    command.args(["run", "--no-trace", "-S"]).env("PGPASSWORD", "sesame");
    command.env("PGPORT", free_port().to_string());
    let done = finish(command.spawn().unwrap());
    done.refused(&["PGPASSWORD", "is it running"]);
    assert!(!done.stderr.contains("sesame"), "{}", done.stderr);
}
