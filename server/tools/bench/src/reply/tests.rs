//! Facts about the reader of replies, each over the whole reply at once and over every way to cut it in
//! two.

use super::*;

/// The head, the body and the bytes that were left over.
type Read = (u16, bool, Vec<u8>, usize);

fn read(pieces: &[&[u8]]) -> Result<Option<Read>, Malformed> {
    let mut parser = Parser::new();
    let mut body = Vec::new();
    let mut pieces = pieces.iter();
    while let Some(piece) = pieces.next() {
        if let Fed::Done { head, used } =
            parser.feed(piece, &mut |it| body.extend_from_slice(it))?
        {
            let left = piece.len() - used + pieces.map(|it| it.len()).sum::<usize>();
            return Ok(Some((head.status, head.keep_alive, body, left)));
        }
    }
    Ok(parser.end_of_stream().map(|head| (head.status, head.keep_alive, body, 0)))
}

#[track_caller]
fn check(reply: &str, status: u16, keep_alive: bool, body: &str, left: usize) {
    let expect = Ok(Some((status, keep_alive, body.as_bytes().to_vec(), left)));
    assert_eq!(read(&[reply.as_bytes()]), expect);
    for cut in 0..reply.len() {
        let (a, b) = reply.as_bytes().split_at(cut);
        assert_eq!(read(&[a, b]), expect, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = reply.as_bytes().chunks(1).collect();
    assert_eq!(read(&bytes), expect, "byte by byte");
}

#[test]
fn a_body_of_a_given_length_ends_there() {
    check("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", 200, true, "hello", 0);
    check("HTTP/1.1 503 X\r\nDate: x\r\nCONTENT-LENGTH:2\r\n\r\nhix", 503, true, "hi", 1);
    check("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, true, "", 0);
}

#[test]
fn chunks_are_joined_and_trailers_skipped() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(
        &format!("{head}5\r\nhello\r\nA;x=1\r\n, world!!!\r\n0\r\n\r\n"),
        200,
        true,
        "hello, world!!!",
        0,
    );
    check(&format!("{head}1\r\nx\r\n0\r\nDigest: y\r\n\r\nz"), 200, true, "x", 1);
}

#[test]
fn the_connection_header_and_the_version_say_whether_it_stays_open() {
    check("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx", 200, false, "x", 0);
    check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, false, "x", 0);
    check(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        200,
        true,
        "x",
        0,
    );
}

#[test]
fn a_body_without_a_length_ends_with_the_stream() {
    check("HTTP/1.1 200 OK\r\nServer: x\r\n\r\nall of it", 200, false, "all of it", 0);
}

#[test]
fn an_interim_reply_is_not_the_reply() {
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", 204, true, "", 0);
}

#[test]
fn a_reply_that_is_cut_off_is_none() {
    for cut in ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "HTTP/1.1 200", ""] {
        assert_eq!(read(&[cut.as_bytes()]), Ok(None), "{cut}");
    }
}

#[test]
fn what_is_not_http_is_malformed() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(LONGEST_HEAD));
    for wrong in [
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
        &long,
    ] {
        assert_eq!(read(&[wrong.as_bytes()]), Err(Malformed), "{}", &wrong[..wrong.len().min(60)]);
    }
}

#[test]
fn the_type_of_a_refusal_is_kept_however_it_is_cut() {
    let reply =
        b"HTTP/1.1 503 X\r\nX: y\r\ncontent-TYPE:  text/html; a=b \r\nContent-Length: 0\r\n\r\n";
    for cut in 1..reply.len() {
        let (a, b) = reply.split_at(cut);
        let mut parser = Parser::new();
        parser.feed(a, &mut |_| ()).unwrap();
        parser.feed(b, &mut |_| ()).unwrap();
        assert_eq!(parser.content_type(), "text/html; a=b", "cut at {cut}");
    }
}
