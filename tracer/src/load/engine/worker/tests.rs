use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::str::FromStr as _;
use std::time::Duration;

use super::*;
use crate::load::connect::ServerOptions;
use crate::load::engine::FailureRules;
use crate::load::engine::record::{Outcome, RecordReader, TransactionRecord, record_channel};
use crate::load::script::{ParseOptions, Streams, parse};
use crate::load::workload::Workload;

/// A client that hangs is given up after this time, and the test ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// A worker with one client whose server is the test.
fn work<D: Driver>(driver: io::Result<D>, rules: Rules) -> (Work<D>, RecordReader) {
    let workload = <&Workload>::from_str("select-simple").unwrap();
    let script = parse(workload.script, workload.name, ParseOptions::default()).unwrap();
    let protocol = workload.protocol(None).unwrap();
    let scripts = Scripts::compile(vec![(script, 1)], protocol, FailureRules::default()).unwrap();
    let streams = Streams::new(7, 1, false).clients.remove(0);
    let variables = scripts.variables(0, &Definitions { scale: 1, ..Definitions::default() });
    let commands = scripts.command_sums();
    let client = Client::new(Arc::new(scripts), streams, variables);
    let shared = Arc::new(Shared::new(1));
    let watched = Arc::clone(&shared);
    std::thread::spawn(move || {
        std::thread::sleep(PATIENCE);
        watched.cut();
    });
    let member = Member::new(client, 0);
    let (records, reader) = record_channel();
    let crew = Crew::new(vec![member], rules, commands, records, Arc::clone(&shared));
    let options = ServerOptions { host: Some("/nonexistent".to_owned()), ..Default::default() };
    let target = Arc::new(Target::resolve(&options).unwrap());
    (Work { crew, driver: driver.unwrap(), target, shared }, reader)
}

const KEY: CancelKey = CancelKey { backend_pid: 1, secret: 2 };

fn once() -> Rules {
    Rules { transaction_limit: Some(1), clients: 1, ..Rules::default() }
}

/// Runs `work` over `near` to its end; the reasons why its client gave up, and the records.
fn run<D: Driver>(
    (mut work, mut reader): (Work<D>, RecordReader),
    near: Transport,
) -> (Vec<AbortReason>, Vec<TransactionRecord>) {
    near.set_nonblocking().unwrap();
    work.run(vec![(KEY, near)], Random::new(1));
    let reasons = work.crew.finish().aborted.into_iter().map(|client| client.reason).collect();
    let mut records = Vec::new();
    reader.drain(&mut |record| records.push(*record));
    (reasons, records)
}

/// What a backend sends when another one crashed, before it leaves.
const LAST_WORDS: &[u8] = b"N\0\0\0\x0fSWARNING\0\0\0";
const READY: &[u8] = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

fn notices_the_end<D: Driver>(driver: impl Fn() -> io::Result<D>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    far.write_all(LAST_WORDS).unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    let (reasons, _) = run(work(driver(), once()), near.into());
    assert!(matches!(reasons[..], [AbortReason::Closed]), "{reasons:?}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(LAST_WORDS).unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    let (reasons, _) = run(work(driver(), once()), near.into());
    assert!(matches!(reasons[..], [AbortReason::Closed]), "{reasons:?}");
}

#[test]
fn an_end_that_comes_together_with_the_last_bytes_is_noticed() {
    notices_the_end(|| EpollDriver::new(1));
    notices_the_end(|| UringDriver::new(1));
}

/// A server that is gone before the request is sent, and has said why.
fn hears_why<D: Driver>(driver: impl Fn() -> io::Result<D>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    let fields = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0";
    let length = (fields.len() as u32 + 4).to_be_bytes();
    far.write_all(&[b"E", &length[..], fields].concat()).unwrap();
    drop(far);
    let (reasons, _) = run(work(driver(), once()), near.into());
    assert!(matches!(reasons[..], [AbortReason::Terminated(_)]), "{reasons:?}");
}

#[test]
fn a_server_that_has_left_is_heard() {
    hears_why(|| EpollDriver::new(1));
    hears_why(|| UringDriver::new(1));
}

/// A server that answers each request, byte by byte at first, and counts them.
fn serve(mut far: UnixStream) -> std::thread::JoinHandle<u32> {
    std::thread::spawn(move || {
        let mut request = [0; 4096];
        let mut served = 0;
        while let Ok(count) = far.read(&mut request)
            && request[0] == b'Q'
            && count > 0
        {
            let chunk = if served < 3 { 1 } else { READY.len() };
            READY.chunks(chunk).for_each(|bytes| far.write_all(bytes).unwrap());
            served += 1;
        }
        served
    })
}

fn runs_its_number<D: Driver>(driver: impl Fn() -> io::Result<D>) {
    let (near, far) = UnixStream::pair().unwrap();
    let server = serve(far);
    let rules = Rules { transaction_limit: Some(500), clients: 1, ..Rules::default() };
    let (mut work, mut reader) = work(driver(), rules);
    let near = Transport::from(near);
    near.set_nonblocking().unwrap();
    work.run(vec![(KEY, near)], Random::new(1));
    work.driver.close(0);
    assert_eq!(server.join().unwrap(), 500);
    drop(work);
    let mut records = Vec::new();
    reader.drain(&mut |record| records.push(*record));
    assert_eq!(records.len(), 500);
    assert!(records.iter().all(|record| record.outcome == Outcome::Committed));
    for two in records.windows(2) {
        assert!(two[0].received_ns <= two[1].sent_ns && two[1].sent_ns <= two[1].received_ns);
        assert_eq!(two[0].sequence + 1, two[1].sequence);
    }
}

#[test]
fn both_drivers_run_as_many_transactions_as_asked_for() {
    runs_its_number(|| EpollDriver::new(1));
    runs_its_number(|| UringDriver::new(1));
}

fn keeps_to_the_schedule<D: Driver>(driver: impl Fn() -> io::Result<D>) {
    let (near, far) = UnixStream::pair().unwrap();
    let server = serve(far);
    let pace_ns = Some(500_000.0);
    let rules = Rules { transaction_limit: Some(40), clients: 1, pace_ns, ..Rules::default() };
    let (mut work, mut reader) = work(driver(), rules);
    let near = Transport::from(near);
    near.set_nonblocking().unwrap();
    work.run(vec![(KEY, near)], Random::new(1));
    work.driver.close(0);
    assert_eq!(server.join().unwrap(), 40);
    drop(work);
    let mut records = Vec::new();
    reader.drain(&mut |record| records.push(*record));
    for record in &records {
        assert!(record.scheduled_ns <= record.sent_ns, "it began before it was due: {record:?}");
    }
    let span_ns = records[39].scheduled_ns - records[0].scheduled_ns;
    assert!(span_ns > 39 * 100_000, "{span_ns}");
}

#[test]
fn transactions_wait_until_they_are_due() {
    keeps_to_the_schedule(|| EpollDriver::new(1));
    keeps_to_the_schedule(|| UringDriver::new(1));
}

#[test]
fn what_is_too_late_already_is_skipped() {
    let (near, far) = UnixStream::pair().unwrap();
    let server = serve(far);
    // Due a million times a second, and skipped as soon as it is late at all.
    let rules = Rules {
        transaction_limit: Some(5000),
        clients: 1,
        pace_ns: Some(1000.0),
        skip_after_ns: Some(1),
        ..Rules::default()
    };
    let (mut work, mut reader) = work(EpollDriver::new(1), rules);
    let near = Transport::from(near);
    near.set_nonblocking().unwrap();
    work.run(vec![(KEY, near)], Random::new(1));
    work.driver.close(0);
    let served = server.join().unwrap();
    drop(work);
    let (mut skipped, mut done) = (0, 0);
    reader.drain(&mut |record| match record.outcome {
        Outcome::Skipped => skipped += 1,
        _ => done += 1,
    });
    assert_eq!((skipped + done, done), (5000, served), "skipped ones count as the client's");
    assert!(skipped > 0);
}
