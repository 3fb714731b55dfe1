use std::io::Write as _;
use std::net::Shutdown;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::str::FromStr as _;

use super::*;
use crate::load::engine::{FailureRules, record_channel};
use crate::load::script::{ParseOptions, Streams, parse};
use crate::load::workload::Workload;

/// A worker with one client whose server is the test.
fn hot_loop(transport: Transport) -> HotLoop {
    let workload = <&Workload>::from_str("select-simple").unwrap();
    let script = parse(workload.script, workload.name, ParseOptions::default()).unwrap();
    let protocol = workload.protocol(None).unwrap();
    let scripts = Scripts::compile(vec![(script, 1)], protocol, FailureRules::default()).unwrap();
    let streams = Streams::new(7, 1, false).clients.remove(0);
    let variables = scripts.variables(0, &Definitions { scale: 1, ..Definitions::default() });
    transport.set_nonblocking().unwrap();
    let connection = Connection {
        client: Client::new(Arc::new(scripts), streams, variables),
        transport,
        number: 0,
        backend_pid: 1,
        sequence: 0,
        sent_ns: 0,
        active: true,
    };
    let shared = Shared::new(1);
    // A client that hangs is then told as stuck, and the test ends.
    shared.stop();
    HotLoop {
        connections: vec![connection],
        active: 1,
        records: record_channel().0,
        shared: Arc::new(shared),
        transaction_limit: None,
        buffer: vec![0; RECEIVE_BYTES],
        aborted: Vec::new(),
        handed_over_ns: 0,
        now_ns: 0,
    }
}

/// What a backend sends when another one crashed, before it leaves.
const LAST_WORDS: &[u8] = b"N\0\0\0\x0fSWARNING\0\0\0";

fn notices_the_end(transport: Transport) {
    let mut hot = hot_loop(transport);
    hot.run();
    let reasons: Vec<_> = hot.aborted.iter().map(|client| &client.reason).collect();
    assert!(matches!(reasons[..], [AbortReason::Closed]), "{reasons:?}");
}

#[test]
fn an_end_that_comes_together_with_the_last_bytes_is_noticed() {
    let (near, mut far) = UnixStream::pair().unwrap();
    far.write_all(LAST_WORDS).unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    notices_the_end(near.into());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(LAST_WORDS).unwrap();
    far.shutdown(Shutdown::Write).unwrap();
    notices_the_end(near.into());
}
