//! Requests that are wrong in every way we know: each is refused with the right status and by name, and
//! the next request is answered as if nothing had happened.

mod framing;
mod routes;
mod smuggling;

use crate::support::{Client, Form, Repository, Server, Tensor};

const INFER: &str = "/v2/models/copy/infer";
const LENGTH: &str = "inference-header-content-length";

/// A server with the model `copy`, `INPUT0` → `OUTPUT0` of `[-1,4]` FP32, and how it is asked.
struct Target {
    server: Server,
    _repository: Repository,
}

impl Target {
    fn new(flags: &[&str]) -> Target {
        let repository = Repository::identity("copy", &[]);
        Target { server: Server::start(&repository, flags), _repository: repository }
    }

    /// What must be answered right after whatever has been sent.
    #[track_caller]
    fn still_serves(&self, client: &mut Client) {
        let row = Tensor::fp32("INPUT0", &[1, 4], &[1.0, 2.0, 3.0, 4.0]);
        let reply = client.infer("copy", std::slice::from_ref(&row), Form::Binary, "");
        assert_eq!(reply.output().raw, row.raw);
    }

    /// A body that is refused with 400 and a text with all of `parts`; the connection goes on.
    #[track_caller]
    fn refuses(&self, headers: &[(&str, &str)], body: impl AsRef<[u8]>, parts: &[&str]) {
        let mut client = self.server.client();
        let body = body.as_ref();
        let error = client.post(INFER, headers, body).error(400);
        let start = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        for part in parts {
            assert!(error.contains(part), "no {part} in: {error}\nrequest: {start}");
        }
        self.still_serves(&mut client);
    }

    /// The same for JSON whose only input is `input`.
    #[track_caller]
    fn refuses_input(&self, input: &str, parts: &[&str]) {
        self.refuses(&[], format!("{{\"inputs\":[{input}]}}"), parts);
    }
}

const GOOD: &str = r#"{"name":"INPUT0","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}"#;

#[test]
fn broken_json_is_refused_with_the_place() {
    let target = Target::new(&[]);
    for (body, part) in [
        ("", "expected"),
        ("x", "byte 0"),
        ("[]", "object"),
        ("null", "object"),
        ("{", "byte 1"),
        (r#"{"inputs""#, "byte"),
        (r#"{"inputs":["#, "inputs"),
        (r#"{"inputs":[{"name":"INPUT0","#, "byte"),
        (r#"{"inputs":{}}"#, "inputs"),
        (r#"{"inputs":[]} x"#, "byte 14"),
        (r#"{"inputs":[],}"#, "byte 13"),
        (r#"{'inputs':[]}"#, "byte 1"),
        (r#"{"outputs":[]}"#, "'inputs'"),
        (r#"{"inputs":[],"input":[]}"#, "did you mean 'inputs'"),
        (r#"{"inputs":[7]}"#, "inputs[0]"),
        (r#"{"id":7,"inputs":[]}"#, "id"),
    ] {
        target.refuses(&[], body, &[part]);
    }
    for (values, part) in
        [("1,2,3,01", "data"), ("1,2,3,+4", "data"), ("1,2,3,.5", "data"), ("1,2,3,4,", "data")]
    {
        target.refuses(&[], body_with(values), &[part]);
    }
}

/// A request with these values.
fn body_with(values: &str) -> String {
    format!(
        "{{\"inputs\":[{{\"name\":\"INPUT0\",\"datatype\":\"FP32\",\"shape\":[1,4],\"data\":[{values}]}}]}}"
    )
}

#[test]
fn an_error_carries_the_name_that_the_client_gave_its_request() {
    let target = Target::new(&[]);
    let mut client = target.server.client();
    let mut named = |headers: &[(&str, &str)], body: &str| {
        let reply = client.post(INFER, headers, body);
        reply.error(400);
        reply.json()["request_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(named(&[], r#"{"id":"call-7","inputs":[]}"#), "call-7");
    assert_eq!(named(&[], r#"{"id":"call-7","inputs":[7]}"#), "call-7");
    assert_eq!(named(&[("x-request-id", "header-8")], r#"{"inputs":[]}"#), "header-8");
    let own = named(&[], r#"{"inputs":[]}"#);
    assert_ne!(own, named(&[], r#"{"inputs":[]}"#), "each has its own");
}

#[test]
fn text_that_is_not_utf8_is_refused_and_nul_is_only_a_character() {
    let target = Target::new(&[]);
    let name = |bytes: &[u8]| {
        let (before, behind) = GOOD.split_once("INPUT0").unwrap();
        [b"{\"inputs\":[", before.as_bytes(), bytes, behind.as_bytes(), b"]}"].concat()
    };
    target.refuses(&[], name(b"\xff\xfe"), &["UTF-8"]);
    target.refuses(&[], name(b"IN\0PUT"), &["inputs[0].name"]);
    target.refuses(&[], name(b"IN\\u0000PUT"), &["unexpected inference input", "INPUT0"]);
    target.refuses(&[], name(b"\\ud800"), &["inputs[0].name"]);
    target.refuses(&[], b"\0\0\0\0", &["byte 0"]);
    target.refuses(&[], [b"{\"inputs\":[]}", &[0u8; 16][..]].concat(), &["byte"]);
}

#[test]
fn types_names_and_shapes_that_do_not_fit_are_named() {
    let target = Target::new(&[]);
    let with = |from: &str, to: &str| GOOD.replace(from, to);
    for (input, parts) in [
        (with("FP32", "FP64"), &["'INPUT0'", "FP32", "FP64"][..]),
        (with("FP32", "FP33"), &["FP33", "did you mean 'FP32'"]),
        (with(r#""FP32""#, "7"), &["inputs[0].datatype"]),
        (with("INPUT0", "INPUT1"), &["'INPUT1'", "did you mean 'INPUT0'"]),
        (with("[1,4]", "[4]"), &["'INPUT0'", "[-1,4]", "[4]"]),
        (with("[1,4]", "[2,2]"), &["'INPUT0'", "[-1,4]", "[2,2]"]),
        (with("[1,4]", "[1,5]"), &["'INPUT0'", "5 elements", "4"]),
        (with("[1,4]", "[]"), &["'INPUT0'"]),
        (with("[1,4]", "[-1,4]"), &["inputs[0].shape"]),
        (with("[1,4]", "[1.5,4]"), &["inputs[0].shape"]),
        (with("[1,4]", "\"1,4\""), &["inputs[0].shape"]),
        (with("[1,2,3,4]", "[1,2,3,\"4\"]"), &["inputs[0].data"]),
        (with("[1,2,3,4]", "[1,2,3,null]"), &["inputs[0].data"]),
        (with("[1,2,3,4]", "[1,2,3,{}]"), &["inputs[0].data"]),
        (with("[1,2,3,4]", "7"), &["'INPUT0'", "4 elements", "1"]),
        (with(r#""name":"INPUT0","#, ""), &["inputs[0]", "'name'"]),
        (with(r#""shape":[1,4],"#, ""), &["'INPUT0'", "'shape'"]),
        (with(r#""datatype":"FP32","#, ""), &["'INPUT0'", "'datatype'"]),
        (with(r#","data":[1,2,3,4]"#, ""), &["'INPUT0'", "data"]),
    ] {
        target.refuses_input(&input, parts);
    }
    let nine = format!("[{}]", vec!["0"; 36].join(","));
    let too_many = with("[1,4]", "[9,4]").replace("[1,2,3,4]", &nine);
    let strict = Target::new(&["--strict-max-batch-size=true"]);
    strict.refuses_input(&too_many, &["'INPUT0'", "9 rows", "batch-size must be <= 8 for 'copy'"]);
}

#[test]
fn missing_unknown_and_repeated_inputs_and_outputs_are_named() {
    let target = Target::new(&[]);
    target.refuses(&[], r#"{"inputs":[]}"#, &["'copy'", "missing required input(s) ['INPUT0']"]);
    target.refuses_input(&format!("{GOOD},{GOOD}"), &["input 'INPUT0' already exists in request"]);
    let other = GOOD.replace("INPUT0", "b");
    target.refuses_input(&format!("{GOOD},{other}"), &["'copy'", "'b'"]);
    let outputs = |list: &str| format!("{{\"inputs\":[{GOOD}],\"outputs\":[{list}]}}");
    target.refuses(&[], outputs(r#"{"name":"y"}"#), &["'y'", "'OUTPUT0'"]);
    let twice = r#"{"name":"OUTPUT0"},{"name":"OUTPUT0"}"#;
    target.refuses(&[], outputs(twice), &["output 'OUTPUT0' already exists in request"]);
    target.refuses(&[], outputs("{}"), &["outputs[0]", "'name'"]);
    let negative = r#"{"name":"OUTPUT0","parameters":{"classification":-1}}"#;
    target.refuses(&[], outputs(negative), &["outputs[0].parameters.classification"]);
}

#[test]
fn numbers_that_are_too_large_or_no_numbers_are_refused() {
    let repository =
        Repository::of(&["type_int32", "type_uint8", "type_bool"]).with_identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    let target = Target { server, _repository: repository };
    for (model, datatype, value) in [
        ("type_int32", "INT32", "2147483648"),
        ("type_int32", "INT32", "1.5"),
        ("type_int32", "INT32", "99999999999999999999999999"),
        ("type_int32", "INT32", "NaN"),
        ("type_uint8", "UINT8", "256"),
        ("type_uint8", "UINT8", "-1"),
        ("type_bool", "BOOL", "2"),
        ("type_bool", "BOOL", "\"true\""),
    ] {
        let body = format!(
            "{{\"inputs\":[{{\"name\":\"input\",\"datatype\":\"{datatype}\",\"shape\":[1,3],\
             \"data\":[0,0,{value}]}}]}}"
        );
        let mut client = target.server.client();
        let error = client.post(&format!("/v2/models/{model}/infer"), &[], body).error(400);
        assert!(error.contains("inputs[0].data"), "{datatype} {value}: {error}");
        target.still_serves(&mut client);
    }
    target.refuses(&[], body_with("1,2,3,1e39"), &["inputs[0].data"]);
    target.refuses(
        &[],
        body_with(&format!("1,2,3,{}", "9".repeat(1_000_000))),
        &["inputs[0].data"],
    );
    target.refuses(&[], body_with("1,2,3,1e999999999999999999999"), &["inputs[0].data"]);

    // A byte that is neither true nor false would be undefined behaviour in an engine.
    let input = Tensor::new("input", "BOOL", &[1, 3], [0, 1, 2]);
    let error = target.server.client().infer("type_bool", &[input], Form::Binary, "").error(400);
    assert!(error.contains("'input'") && error.contains("element 2"), "{error}");
}

#[test]
fn nesting_is_bounded() {
    let target = Target::new(&[]);
    for depth in [100, 1_000_000] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        target.refuses(&[], &open, &[]);
        target.refuses(&[], format!("{{\"inputs\":{open}{close}}}"), &[]);
        target.refuses(&[], format!("{{\"x\":{open}{close}}}"), &["'inputs'"]);
        target.refuses(&[], body_with(&format!("{open}{close}")), &["inputs[0].data"]);
        target.refuses(&[], "{\"a\":".repeat(depth), &[]);
        let mut client = Client::connect(target.server.sagemaker());
        client.post("/invocations", &[("content-type", "application/json")], &open).error(400);
        let path = "/v1/models/copy:predict";
        let body = format!("{{\"ignored\":{open}{close},\"instances\":[[1,2,3,4]]}}");
        let nested = target.server.post(path, body).error(400);
        assert!(nested.contains("nesting depth exceeds"), "{nested}");
    }
}

#[test]
fn unknown_addresses_models_and_versions_are_told_apart() {
    let target = Target::new(&[]);
    let mut client = target.server.client();
    let body = format!("{{\"inputs\":[{GOOD}]}}");
    for (path, parts) in [
        ("/v2/models/cpy/infer", &["'cpy'", "did you mean 'copy'"][..]),
        ("/v2/models/copy/versions/9/infer", &["'copy'", "9"]),
        ("/v2/models//infer", &["''"]),
        ("/v2/models/copy/infer/more", &["/v2/models/copy/infer/more"]),
        ("/v3", &["/v3"]),
        ("/x", &["'/x'"]),
    ] {
        let error = client.post(path, &[], &body).error(404);
        parts.iter().for_each(|it| assert!(error.contains(it), "{path}: {error}"));
    }
    for version in ["x", "-1", "1.5", "99999999999999999999"] {
        let path = format!("/v2/models/copy/versions/{version}/infer");
        let error = client.post(&path, &[], &body).error(400);
        assert!(error.contains(&format!("'{version}'")), "{error}");
    }
    client.get("/v2/models/%zz").error(400);
    client.get("/v2/models/..%2f..%2fetc").error(404);
    let reply = client.get(INFER);
    reply.error(405);
    assert_eq!(reply.header("allow"), Some("POST"));
    let long = format!("/v2/models/{}", "a".repeat(4000));
    assert!(client.get(&long).error(404).len() < 300);
    target.still_serves(&mut client);
}

#[test]
fn a_content_type_without_a_decoder_is_named_beside_those_that_have_one() {
    let target = Target::new(&[]);
    let mut client = Client::connect(target.server.sagemaker());
    for content_type in ["image/png", "application/x-parquet", "text/csvv"] {
        let headers = [("content-type", content_type)];
        let error = client.post("/invocations", &headers, "1,2,3,4").error(415);
        assert!(error.contains(content_type) && error.contains("text/csv,"), "{error}");
    }
    let error = client.post("/invocations", &[], [0u8, 1, 2]).error(415);
    assert!(error.contains("INPUT0"), "{error}");
    for (content_type, body, part) in [
        ("text/csv", &b"1,2,3\n"[..], "INPUT0"),
        ("text/csv", b"1,2,3,4\n1,2\n", "2"),
        ("text/csv", b"1,2,3,\"4\n", "quote"),
        ("application/x-npy", b"\x93NUMPY\x01\x00", "npy"),
        ("application/x-npy", b"PK\x03\x04", "npy"),
        ("application/jsonlines", b"[1,2,3,4]\n[1,2\n", "record 2"),
        ("application/json", b"\"text\"", "expected an object or an array"),
    ] {
        let error = client.post("/invocations", &[("content-type", content_type)], body).error(400);
        assert!(error.contains(part), "{content_type}: {error}");
    }
    let binary =
        "application/vnd.sagemaker-triton.binary+json;json-header-size=99999999999999999999";
    client.post("/invocations", &[("content-type", binary)], "{}").error(400);
    let binary = "application/vnd.sagemaker-triton.binary+json;json-header-size=3";
    client.post("/invocations", &[("content-type", binary)], "{}").error(400);
    target.still_serves(&mut client);
}
