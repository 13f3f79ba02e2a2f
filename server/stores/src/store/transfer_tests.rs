//! What does not arrive as it should, from a server of a few lines that speaks just enough S3.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use md5::{Digest, Md5};

use super::*;
use crate::store_settings::Variables;

const CONTENT: &str = "right";

/// How one request for the object is answered.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// The connection ends in the middle.
    Cut,
    /// So many bytes, but these ones.
    Other(&'static str),
    /// As it should be.
    Right,
}

/// A store of the one object `m/1/x`. Each request for it takes the next answer; the last one stays.
fn serve(mut answers: Vec<Answer>) -> (String, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("s3://{}/bucket", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head: Vec<String> = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map_while(|it| it.ok().filter(|it| !it.is_empty()))
                .map(|it| it.to_ascii_lowercase())
                .collect();
            let is_listing = head.first().is_some_and(|it| it.contains("list-type=2"));
            if is_listing {
                let tag = tag();
                let text = format!(
                    "<ListBucketResult><Contents><Key>m/1/x</Key><LastModified>2026-01-01T00:00:00.000Z\
                     </LastModified><ETag>\"{tag}\"</ETag><Size>{}</Size></Contents></ListBucketResult>",
                    CONTENT.len()
                );
                answer(&mut stream, &text, text.len());
            } else if head.iter().any(|it| it.starts_with("range:")) {
                // The rest of what was cut off cannot be had.
                let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
            } else {
                *count.lock().unwrap() += 1;
                let next = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
                match next {
                    Answer::Cut => answer(&mut stream, "ri", CONTENT.len()),
                    Answer::Other(text) => answer(&mut stream, text, CONTENT.len()),
                    Answer::Right => answer(&mut stream, CONTENT, CONTENT.len()),
                }
            }
        }
    });
    (address, asked)
}

fn tag() -> String {
    crate::listing::hex(&Md5::digest(CONTENT))
}

fn answer(stream: &mut TcpStream, text: &str, length: usize) {
    let tag = tag();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\netag: \"{tag}\"\r\n\
         last-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nconnection: close\r\n\r\n"
    );
    // Who has gone has heard enough.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(text.as_bytes());
}

/// Fetches the model `m` from such a store: its content or the error, how often it was asked for, and how many objects
/// are here then.
fn fetch(name: &str, answers: &[Answer]) -> (Result<String, String>, usize, usize) {
    let dir = std::env::temp_dir().join(format!("muster-transfer-{}-{name}", std::process::id()));
    let (address, asked) = serve(answers.to_vec());
    let settings =
        StoreSettings { cache_dir: dir.clone(), anonymous: true, variables: Variables::default() };
    let store = Store::open(&StoreUrl::parse(&address).unwrap(), &settings).unwrap();
    let fetched = store.fetch("m").map_err(|it| it.to_string());
    let content = fetched.map(|it| fs::read_to_string(it.join("1/x")).unwrap());
    let here = store.cache.stored().unwrap().len();
    drop(store);
    fs::remove_dir_all(&dir).unwrap();
    let asked = *asked.lock().unwrap();
    (content, asked, here)
}

#[test]
fn what_breaks_off_or_arrives_wrong_is_asked_for_again() {
    let (content, asked, _) = fetch("again", &[Answer::Cut, Answer::Other("wrong"), Answer::Right]);
    assert_eq!(content.as_deref(), Ok(CONTENT));
    assert_eq!(asked, 3);
}

#[test]
fn what_never_arrives_whole_is_an_error_and_nothing_of_it_is_kept() {
    let (content, asked, here) = fetch("never", &[Answer::Cut]);
    let told = content.unwrap_err();
    assert!(told.contains("bucket/m/1/x") && told.contains("broke off"), "{told}");
    assert_eq!((asked, here), (4, 0));
    let others = ["a....", "b....", "c....", "d...."].map(Answer::Other);
    let (content, _, here) = fetch("others", &others);
    assert!(content.unwrap_err().contains("never one with the MD5 of its ETag"));
    assert_eq!(here, 0);
}

#[test]
fn an_etag_that_is_no_digest_is_found_out_by_asking_twice() {
    let (content, asked, _) = fetch("encrypted", &[Answer::Other("plain")]);
    assert_eq!(content.as_deref(), Ok("plain"));
    assert_eq!(asked, 2);
}
