//! Requests that two servers could read in two ways: refused, and nothing that is hidden behind them is answered.

use super::{INFER, Target};

/// A request that must not be answered: it follows what is refused.
const HIDDEN: &str = "GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n";

/// Sends `bytes` and a hidden request. Returns the status of the only reply; `None` where the connection closes
/// without one.
#[track_caller]
fn only_status(target: &Target, bytes: &str) -> Option<u16> {
    let mut client = target.server.client();
    client.send(bytes.to_owned() + HIDDEN).unwrap();
    let status = client.try_reply().ok().flatten().map(|it| it.status);
    assert!(status.is_none() || client.is_closed(), "{bytes}");
    status
}

#[test]
fn a_request_has_one_host() {
    let target = Target::new(&[]);
    for hosts in ["", "host: x\r\nhost: x\r\n", "host: x\r\nHost: y\r\n"] {
        let bytes = format!("GET /v2/health/live HTTP/1.1\r\n{hosts}\r\n");
        assert_eq!(only_status(&target, &bytes), Some(400), "{hosts}");
    }
    // HTTP/1.0 knows no such header.
    let mut client = target.server.client();
    client.send("GET /v2/health/live HTTP/1.0\r\n\r\n").unwrap();
    client.reply().expect(200);
    target.still_serves(&mut target.server.client());
}

#[test]
fn heads_that_hide_a_length_are_refused() {
    let target = Target::new(&[]);
    for lengths in [
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding:\x0bchunked\r\n",
        "transfer-encoding : chunked\r\n",
        "x: y\r\n transfer-encoding: chunked\r\n",
        "content-length : 5\r\n",
        "content-length: 5\r\n 6\r\n",
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: +5\r\n",
        "content-length: 5 5\r\n",
        "content-length:\r\n",
    ] {
        let bytes = format!("POST {INFER} HTTP/1.1\r\nhost: x\r\n{lengths}\r\n0\r\n\r\n");
        assert_eq!(only_status(&target, &bytes), Some(400), "{lengths}");
    }
    // HTTP/1.0 has no chunks.
    let bytes = format!("POST {INFER} HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(only_status(&target, &bytes), Some(400));
    target.still_serves(&mut target.server.client());
}

#[test]
fn chunks_that_hide_a_length_end_the_connection() {
    let target = Target::new(&[]);
    for chunks in [
        "5\nhello\r\n0\r\n\r\n",
        "-1\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "\r\n0\r\n\r\n",
    ] {
        let head =
            format!("POST {INFER} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        let status = only_status(&target, &(head + chunks));
        assert!(status.is_none_or(|it| it == 400), "{status:?}: {chunks}");
    }
    target.still_serves(&mut target.server.client());
}
