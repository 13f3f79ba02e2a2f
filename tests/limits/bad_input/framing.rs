//! Lengths that lie: of binary tensors, of the JSON in front of them, of strings, shapes and bodies, and
//! bytes that are no HTTP at all.

use super::{GOOD, INFER, LENGTH, Target};
use crate::support::{Form, Reply, Repository, Server, Tensor, infer_body, post_head};

/// JSON that announces `size` bytes for `INPUT0`, which has this shape.
fn binary(shape: &str, size: &str) -> String {
    format!(
        "{{\"inputs\":[{{\"name\":\"INPUT0\",\"datatype\":\"FP32\",\"shape\":{shape},\
         \"parameters\":{{\"binary_data_size\":{size}}}}}]}}"
    )
}

#[test]
fn binary_lengths_that_lie_are_refused() {
    let target = Target::new(&[]);
    let send = |shape: &str, size: &str, data: &[u8], parts: &[&str]| {
        let json = binary(shape, size);
        let length = json.len().to_string();
        let body = [json.as_bytes(), data].concat();
        target.refuses(&[(LENGTH, &length)], body, parts);
    };
    send("[1,4]", "16", &[0; 15], &["'INPUT0'", "16", "15"]);
    send("[1,4]", "16", &[0; 17], &["1 bytes are left"]);
    send("[1,4]", "12", &[0; 12], &["'INPUT0'", "16", "12"]);
    send("[1,4]", "20", &[0; 20], &["'INPUT0'", "16", "20"]);
    send("[1,4]", "0", &[], &["'INPUT0'", "16"]);
    for size in ["-1", "1e3", "1.5", "\"16\"", "18446744073709551615", "18446744073709551616"] {
        send("[1,4]", size, &[0; 16], &["binary_data_size"]);
    }
    // Without the header there is nothing behind the JSON.
    target.refuses(&[], binary("[1,4]", "16"), &["'INPUT0'", "16"]);
    // Both, or a length with data.
    let both = GOOD.replace("\"data\"", "\"parameters\":{\"binary_data_size\":16},\"data\"");
    target.refuses_input(&both, &["'INPUT0'", "data, binary_data_size"]);
}

#[test]
fn the_length_of_the_json_part_must_be_a_number_inside_the_body() {
    let target = Target::new(&[]);
    let body = format!("{{\"inputs\":[{GOOD}]}}");
    let beyond = (body.len() + 1).to_string();
    for length in [
        "-1",
        &beyond,
        "2147483648",
        "4294967296",
        "18446744073709551615",
        "18446744073709551616",
        "x",
        "",
        "1 2",
        "0x10",
        "+5",
        "1.0",
    ] {
        target.refuses(&[(LENGTH, length)], &body, &["inference-header-content-length"]);
    }
    let short = (body.len() - 1).to_string();
    target.refuses(&[(LENGTH, &short)], &body, &[]);
    // Zero says that the body is the tensor and nothing else.
    target.refuses(&[(LENGTH, "0")], &body, &["'INPUT0'", "16 bytes"]);
    target.refuses(&[(LENGTH, "0")], "", &[]);
    // A second, different length: whoever believes the other one reads another request.
    let length = body.len().to_string();
    target.refuses(
        &[(LENGTH, &length), (LENGTH, "0")],
        &body,
        &["inference-header-content-length"],
    );
}

#[test]
fn shapes_that_overflow_are_refused_before_memory_is_asked_for() {
    let target = Target::new(&[]);
    const HUGE: &str = "[4294967296,4294967296]";
    for shape in [
        HUGE,
        "[18446744073709551615,18446744073709551615]",
        "[9223372036854775807,4]",
        "[1,4611686018427387904]",
        "[1000000000000,4]",
    ] {
        target.refuses_input(&GOOD.replace("[1,4]", shape), &["INPUT0"]);
        let json = binary(shape, "16");
        let length = json.len().to_string();
        let body = [json.as_bytes(), &[0; 16]].concat();
        target.refuses(&[(LENGTH, &length)], body, &["INPUT0"]);
    }
    target.refuses_input(&GOOD.replace("[1,4]", "[18446744073709551616]"), &["inputs[0].shape"]);
    let many = format!("[{}]", vec!["1"; 100_000].join(","));
    target.refuses_input(&GOOD.replace("[1,4]", &many), &["inputs[0].shape", "64 dimensions"]);
}

#[test]
fn strings_whose_lengths_lie_are_refused() {
    let repository = Repository::of(&["type_string"]);
    let server = Server::start(&repository, &[]);
    let whole = Tensor::strings("input", &[1, 3], &[b"a", b"bc", b""]);
    let mut client = server.client();
    let mut refuse = |raw: &[u8]| {
        let input = Tensor::new("input", "BYTES", &[1, 3], raw);
        let error = client.infer("type_string", &[input], Form::Binary, "").error(400);
        assert!(error.contains("'input'"), "{raw:?}: {error}");
    };
    for length in 0..whole.raw.len() {
        refuse(&whole.raw[..length]);
    }
    refuse(&[&*whole.raw, &[0]].concat());
    refuse(&[&[255; 4], &whole.raw[4..]].concat());
    refuse(&[0; 16]);
    assert_eq!(
        client.infer("type_string", std::slice::from_ref(&whole), Form::Binary, "").output().raw,
        whole.raw
    );
}

#[test]
fn a_body_above_the_limit_is_refused_with_413_whether_or_not_it_says_its_size() {
    let target = Target::new(&["--http-max-input-size=1000"]);
    let names = |reply: &Reply| {
        let error = reply.error(413);
        assert!(error.contains("1000 bytes") && error.contains("--http-max-input-size"), "{error}");
    };
    // Declared: refused although no byte of it is ever sent.
    for length in [1001, usize::MAX / 2] {
        let mut client = target.server.client();
        client.send(post_head(INFER, &[], length)).unwrap();
        names(&client.reply());
    }
    // Chunked: refused as soon as it is too much.
    let mut client = target.server.client();
    let head = format!("POST {INFER} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send(head).unwrap();
    client.send([b"3e9\r\n", &[b' '; 1001][..], b"\r\n"].concat()).unwrap();
    names(&client.reply());
    // On the other routes with a body too.
    for path in ["/invocations", "/v1/models/copy:predict", "/v2/repository/index"] {
        let mut client = target.server.client();
        client.send(post_head(path, &[], 1001)).unwrap();
        names(&client.reply());
    }
    let mut client = target.server.client();
    let spaces = " ".repeat(1000 - GOOD.len() - 13);
    client.post(INFER, &[], format!("{{\"inputs\":[{GOOD}]}}{spaces}")).expect(200);
    target.still_serves(&mut client);
}

#[test]
fn what_is_no_http_closes_its_own_connection_and_no_other() {
    let target = Target::new(&[]);
    let mut other = target.server.client();
    for bytes in [
        &b"\0\x01\x02\x03\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /v2 HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"POST /v2/models/copy/infer HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v2/models/copy/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST /v2/models/copy/infer HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
    ] {
        let mut client = target.server.client();
        client.send(bytes).unwrap();
        client.finish_sending();
        while let Ok(Some(reply)) = client.try_reply() {
            assert!((400..500).contains(&reply.status), "{}: {bytes:?}", reply.status);
        }
        target.still_serves(&mut other);
    }
}

#[test]
fn a_body_that_ends_early_is_nobodys_loss() {
    let target = Target::new(&[]);
    let row = Tensor::fp32("INPUT0", &[1, 4], &[1.0; 4]);
    let (json, raw) = infer_body(&[row], Form::Binary, "");
    let body = [json.as_bytes(), &raw].concat();
    for sent in [0, 1, json.len(), body.len() - 1] {
        let mut client = target.server.client();
        let length = json.len().to_string();
        client.send(post_head(INFER, &[(LENGTH, &length)], body.len())).unwrap();
        client.send(&body[..sent]).unwrap();
        drop(client);
        target.still_serves(&mut target.server.client());
    }
}
