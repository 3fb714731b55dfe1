//! Whatever listens where a server should be: a message in bounded time and memory, no panic.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use common::{Finished, finish, lockscope_itself};

/// Address space for lockscope: a reservation for a message of 2 GiB would end it.
const MEMORY_MAX: &str = "--as=1500000000";

/// What a listener does with a connection after it has read something.
type Behaviour = fn(&mut TcpStream, &mut fastrand::Rng) -> std::io::Result<()>;

/// Asks a listener that behaves like this for tables; plain or with a request for TLS first.
fn meet(behave: Behaviour, seed: u64, sslmode: &str) -> Finished {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(seed);
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            // The other side may have gone.
            let _ = behave(&mut stream, &mut random);
        }
    });
    let lockscope = lockscope_itself();
    let mut command = Command::new("prlimit");
    command.arg(MEMORY_MAX).arg(lockscope.get_program());
    let dsn = format!("host=127.0.0.1 port={port} user=u connect_timeout=1 sslmode={sslmode}");
    command.args(["init", "--dsn", &dsn]).env_clear().env("HOME", "/nonexistent");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let done = finish(command.spawn().unwrap());
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(!done.stderr.contains("panicked"), "{done:?}");
    assert!(done.stderr.contains(&format!("127.0.0.1 port {port}")), "{done:?}");
    done
}

fn says(done: &Finished, words: &str) {
    assert!(done.stderr.contains(words), "no `{words}`: {}", done.stderr);
}

#[test]
fn another_protocol_is_recognized() {
    let http: Behaviour = |stream, _| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    for mode in ["disable", "prefer", "require"] {
        says(&meet(http, 0, mode), "no Postgres server: it answered `HTTP/1.1 400");
    }
}

#[test]
fn silence_ends_in_time() {
    let silent: Behaviour = |_, _| {
        std::thread::sleep(Duration::from_secs(30));
        Ok(())
    };
    for mode in ["disable", "require"] {
        says(&meet(silent, 0, mode), "did not complete the start of a connection within 1 s");
    }
}

#[test]
fn a_closed_connection_is_called_so() {
    for mode in ["disable", "require"] {
        says(&meet(|_, _| Ok(()), 0, mode), "closed the connection during its start");
    }
}

#[test]
fn a_huge_message_is_refused_before_it_is_read() {
    says(
        &meet(|stream, _| stream.write_all(b"R\x7f\xff\xff\xff"), 0, "disable"),
        "no Postgres server",
    );
}

#[test]
fn endless_words_end_in_time() {
    let parameters: Behaviour = |stream, _| {
        stream.write_all(b"R\0\0\0\x08\0\0\0\0")?;
        loop {
            stream.write_all(b"S\0\0\0\x08a\0b\0")?;
        }
    };
    let drip: Behaviour = |stream, _| loop {
        stream.write_all(b"N")?;
        std::thread::sleep(Duration::from_millis(100));
    };
    says(&meet(parameters, 0, "disable"), "within 1 s");
    meet(drip, 0, "disable");
}

#[test]
fn garbage_under_tls_is_a_failed_handshake() {
    let garbage: Behaviour = |stream, random| {
        stream.write_all(b"S")?;
        let _ = stream.read(&mut [0; 1024]);
        let bytes: Vec<u8> = (0..2000).map(|_| random.u8(..)).collect();
        stream.write_all(&bytes)
    };
    for seed in 0..5 {
        says(&meet(garbage, seed, "require"), "TLS with the server");
    }
}

/// Messages with believable heads and random contents, which reach deeper than plain noise.
fn almost_messages(stream: &mut TcpStream, random: &mut fastrand::Rng) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    for _ in 0..random.usize(1..8) {
        let tags = b"RSKZENATDCIv";
        bytes.push(tags[random.usize(..tags.len())]);
        let length = random.usize(0..40);
        bytes.extend_from_slice(&(length as u32 + 4).to_be_bytes());
        // The kinds of authentication are small numbers.
        if random.bool() && length >= 4 {
            bytes.extend_from_slice(&random.u32(0..14).to_be_bytes());
            bytes.extend((4..length).map(|_| random.u8(..)));
        } else {
            bytes.extend((0..length).map(|_| random.u8(..)));
        }
    }
    stream.write_all(&bytes)
}

#[test]
fn noise_is_never_more_than_an_error() {
    let noise: Behaviour = |stream, random| {
        let bytes: Vec<u8> = (0..random.usize(1..200)).map(|_| random.u8(..)).collect();
        stream.write_all(&bytes)
    };
    for seed in 0..30 {
        meet(noise, seed, "disable");
        meet(almost_messages, seed, "disable");
    }
}
