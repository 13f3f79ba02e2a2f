//! Inference: data in each form, what is wrong with it, parameters, deadlines, compression.

use std::time::{Duration, Instant};

use frontend::grpc::proto::{
    InferTensorContents, ModelInferRequest, infer_parameter::ParameterChoice,
};
use tonic::{Code, Request};

use crate::support::{
    Page, Repository, Server,
    grpc::{Client, firsts, identity, input, map, output, refused},
    wait_for, wait_queued,
};

const INFER: &str = "inference.GRPCInferenceService/ModelInfer";

fn start(flags: &[&str]) -> (Server, Client) {
    let repository = Repository::of(&["two_outputs", "type_string", "type_int8", "type_fp16"])
        .with_identity("m", &[])
        .with_identity("slow", &[("execute_delay_ms", "3000")])
        .copy("digits", "model_repository/digits");
    let server = Server::start(&repository, flags);
    let client = Client::new(&server);
    (server, client)
}

/// The request with its data in a typed field.
fn typed(request: ModelInferRequest, contents: InferTensorContents) -> ModelInferRequest {
    let mut request = ModelInferRequest { raw_input_contents: Vec::new(), ..request };
    request.inputs[0].contents = Some(contents);
    request
}

fn fp32(values: &[f32]) -> InferTensorContents {
    InferTensorContents { fp32_contents: values.to_vec(), ..Default::default() }
}

#[test]
fn raw_and_typed_data_give_the_same() {
    let (_server, mut client) = start(&[]);
    let request = ModelInferRequest { id: "7".to_owned(), ..identity("m", &[1.5, -2.0]) };
    let raw = client.infer(request.clone()).unwrap();
    assert_eq!((&*raw.model_name, &*raw.model_version, &*raw.id), ("m", "1", "7"));
    assert_eq!(raw.outputs[0].name, "OUTPUT0");
    assert_eq!((&*raw.outputs[0].datatype, &*raw.outputs[0].shape), ("FP32", &[2, 4][..]));
    assert_eq!(firsts(&raw), [1.5, -2.0]);
    let contents = fp32(&[1.5, 0.0, 0.0, 0.0, -2.0, 0.0, 0.0, 0.0]);
    assert_eq!(client.infer(typed(request, contents)).unwrap(), raw);
}

#[test]
fn strings_come_raw_or_typed() {
    let (_server, mut client) = start(&[]);
    let strings: [&[u8]; 3] = [b"plain", b"", b"\xff\0"];
    let raw = backend::encode_strings(strings);
    let mut request = ModelInferRequest {
        model_name: "type_string".to_owned(),
        inputs: vec![input("input", "BYTES", &[1, 3])],
        raw_input_contents: vec![raw.clone()],
        ..Default::default()
    };
    let answer = client.infer(request.clone()).unwrap();
    assert_eq!(answer.raw_output_contents, std::slice::from_ref(&raw));
    let contents = InferTensorContents {
        bytes_contents: strings.iter().map(|it| it.to_vec().into()).collect(),
        ..Default::default()
    };
    let answer = client.infer(typed(request.clone(), contents)).unwrap();
    assert_eq!(answer.raw_output_contents, std::slice::from_ref(&raw));
    request.raw_input_contents = vec![raw.slice(..raw.len() - 1)];
    let text = client.refused(request, Code::InvalidArgument);
    assert!(text.contains("element 2") && text.contains("model 'type_string'"), "{text}");
}

#[test]
fn a_large_tensor_crosses_in_many_frames_and_comes_back_whole() {
    let repository = Repository::new().model(
        "wide",
        "backend: \"identity\"\n\
         input { name: \"INPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }\n\
         output { name: \"OUTPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }\n",
    );
    let server = Server::start(&repository, &[]);
    let mut client = Client::new(&server);
    let data: Vec<u8> = (0..20_000_003u32).map(|it| (it % 251) as u8).collect();
    let request = ModelInferRequest {
        model_name: "wide".to_owned(),
        inputs: vec![input("INPUT0", "UINT8", &[data.len() as i64])],
        raw_input_contents: vec![data.clone().into()],
        ..Default::default()
    };
    let answer = client.infer(request.clone()).unwrap();
    assert!(answer.raw_output_contents[0] == data);
    // Typed it is much larger on the wire and in between, and the same in the end.
    let values = data.iter().take(3_000_000).map(|&it| it.into()).collect();
    let contents = InferTensorContents { uint_contents: values, ..Default::default() };
    let mut request = typed(request, contents);
    request.inputs[0].shape = vec![3_000_000];
    assert!(client.infer(request).unwrap().raw_output_contents[0] == data[..3_000_000]);
}

#[test]
fn what_is_wrong_with_the_data_is_told_by_name() {
    let (_server, mut client) = start(&[]);
    let request = || identity("m", &[1.0]);
    let mut check = |request: ModelInferRequest, expected: &[&str]| {
        let text = client.refused(request, Code::InvalidArgument);
        for part in expected {
            assert!(text.contains(part), "no '{part}' in: {text}");
        }
    };
    let mut both = typed(request(), fp32(&[1.0; 4]));
    both.raw_input_contents = request().raw_input_contents;
    check(both, &["model 'm'", "'INPUT0'", "contents field must not be specified"]);
    let none = ModelInferRequest { raw_input_contents: vec![], ..request() };
    check(none, &["model 'm'", "input 'INPUT0'", "no data", "given none"]);
    let other = InferTensorContents { int_contents: vec![1; 4], ..Default::default() };
    check(typed(request(), other), &["expected fp32_contents for FP32, given int_contents"]);
    check(typed(request(), fp32(&[1.0; 3])), &["[1,4] has 4 elements, fp32_contents has 3"]);
    let mut short = request();
    short.raw_input_contents[0].truncate(15);
    check(short, &["model 'm'", "input 'INPUT0'", "Expected 16, got 15"]);
    let mut more = request();
    more.raw_input_contents.push(vec![0].into());
    check(more, &["model 'm'", "raw_input_contents has 2 entries, expected 1"]);
    let with = |change: fn(&mut ModelInferRequest)| {
        let mut it = request();
        change(&mut it);
        it
    };
    check(
        with(|it| it.inputs[0].name = "INPUT".to_owned()),
        &["unexpected inference input 'INPUT'", "'INPUT0'"],
    );
    check(with(|it| it.inputs[0].datatype = "FP33".to_owned()), &["'FP33'", "mean 'FP32'?"]);
    check(
        with(|it| it.inputs[0].datatype = "INT32".to_owned()),
        &["inference input 'INPUT0' data-type is 'INT32'", "expects 'FP32'"],
    );
    check(with(|it| it.inputs[0].shape = vec![-1, 4]), &["expected shape [-1,4], given [-1, 4]"]);
    check(with(|it| it.inputs[0].shape = vec![1 << 62, 1 << 62]), &["input 'INPUT0'"]);
    check(with(|it| it.inputs[0].shape = vec![4]), &["input 'INPUT0'", "model 'm'"]);
    check(
        with(|it| it.inputs.push(it.inputs[0].clone())),
        &["input 'INPUT0' already exists in request"],
    );
    check(with(|it| it.inputs.clear()), &["raw_input_contents has 1 entries, expected 0"]);
    check(
        with(|it| it.outputs = vec![output("OUTPUT", &[])]),
        &["unexpected inference output 'OUTPUT' for model", "OUTPUT0"],
    );
    check(
        with(|it| it.outputs = vec![output("OUTPUT0", &[]); 2]),
        &["output 'OUTPUT0' already exists in request"],
    );
    check(with(|it| it.model_version = "one".to_owned()), &["version: expected", "'one'"]);
    let named = ModelInferRequest { id: "abc".to_owned(), ..none_of(request()) };
    check(named, &["(request id: abc)"]);
    let text = client.refused(identity("n", &[1.0]), Code::NotFound);
    assert!(text.contains("Request for unknown model: 'n' is not found"), "{text}");
}

fn none_of(request: ModelInferRequest) -> ModelInferRequest {
    ModelInferRequest { raw_input_contents: vec![], ..request }
}

#[test]
fn numbers_beyond_their_type_are_refused_and_halves_come_only_raw() {
    let (_server, mut client) = start(&[]);
    let request = |model: &str, datatype: &str, contents| {
        typed(
            ModelInferRequest {
                model_name: model.to_owned(),
                inputs: vec![input("input", datatype, &[1, 3])],
                ..Default::default()
            },
            contents,
        )
    };
    let ints = |values: &[i32]| InferTensorContents {
        int_contents: values.to_vec(),
        ..Default::default()
    };
    let fits = client.infer(request("type_int8", "INT8", ints(&[-128, 0, 127]))).unwrap();
    assert_eq!(*fits.raw_output_contents[0], [0x80, 0, 0x7f]);
    let wrong = request("type_int8", "INT8", ints(&[0, 128, 0]));
    let text = client.refused(wrong, Code::InvalidArgument);
    assert!(text.contains("element 1 is 128, which INT8 cannot hold"), "{text}");
    let wrong = request("type_fp16", "FP16", fp32(&[1.0; 3]));
    let text = client.refused(wrong, Code::InvalidArgument);
    assert!(text.contains("FP16 has no typed contents; expected raw_input_contents"), "{text}");
}

#[test]
fn parameters_are_heeded_and_those_of_a_wrong_type_are_named() {
    use ParameterChoice::*;
    let (_server, mut client) = start(&[]);
    let mut ask = |key: &str, value: ParameterChoice| {
        let parameters = map(&[(key, value)]);
        client.infer(ModelInferRequest { parameters, ..identity("m", &[1.0]) })
    };
    for (key, value) in [
        ("sequence_id", Int64Param(7)),
        ("sequence_id", Uint64Param(7)),
        ("sequence_id", StringParam("s".to_owned())),
        ("sequence_start", BoolParam(false)),
        ("priority", Uint64Param(0)),
        ("timeout", Int64Param(1_000_000)),
        ("triton_enable_empty_final_response", BoolParam(true)),
        ("mine", DoubleParam(0.5)),
        ("mine", Uint64Param(u64::MAX)),
    ] {
        ask(key, value.clone()).unwrap_or_else(|error| panic!("{key} {value:?}: {error}"));
    }
    for (key, value, given) in [
        ("sequence_id", BoolParam(true), "given bool_param true"),
        ("sequence_id", Int64Param(-1), "given int64_param -1"),
        ("sequence_end", Int64Param(1), "expected bool_param"),
        ("priority", StringParam("1".to_owned()), "expected int64_param or uint64_param"),
        ("timeout", DoubleParam(1.0), "given double_param 1"),
        ("triton_enable_empty_final_response", Int64Param(1), "expected bool_param"),
        ("triton_anything", BoolParam(true), "reserved"),
    ] {
        let text = refused(ask(key, value), Code::InvalidArgument);
        assert!(text.contains(&format!("parameter '{key}'")) && text.contains(given), "{text}");
    }
}

#[test]
fn outputs_become_classes_and_regions_must_be_known() {
    use ParameterChoice::*;
    let (_server, mut client) = start(&[]);
    let mut ask = |parameters: &[(&str, ParameterChoice)]| {
        client.infer(ModelInferRequest {
            model_name: "digits".to_owned(),
            inputs: vec![input("image", "FP32", &[2, 1, 8, 8])],
            outputs: vec![output("probabilities", parameters)],
            raw_input_contents: vec![vec![0; 512].into()],
            ..Default::default()
        })
    };
    let answer = ask(&[("classification", Int64Param(3))]).unwrap();
    assert_eq!((&*answer.outputs[0].datatype, &*answer.outputs[0].shape), ("BYTES", &[2, 3][..]));
    let first = &answer.raw_output_contents[0];
    let first = std::str::from_utf8(&first[4..4 + usize::from(first[0])]).unwrap();
    assert_eq!(first.split(':').count(), 3, "{first}");
    for wrong in [Int64Param(0), Int64Param(-1), StringParam("1".to_owned())] {
        let text = refused(ask(&[("classification", wrong)]), Code::InvalidArgument);
        assert!(text.contains("parameter 'classification'"), "{text}");
    }
    let region = ("shared_memory_region", StringParam("r".to_owned()));
    let size = ("shared_memory_byte_size", Int64Param(80));
    refused(ask(&[region.clone(), size.clone()]), Code::NotFound);
    let text = refused(ask(&[region]), Code::InvalidArgument);
    assert!(text.contains("parameter 'shared_memory_byte_size': expected"), "{text}");
    let text = refused(ask(&[size]), Code::InvalidArgument);
    assert!(text.contains("parameter 'shared_memory_region': expected"), "{text}");
}

#[test]
fn a_deadline_that_passes_ends_the_wait() {
    let (_server, mut client) = start(&["--max-queue-wait-ms=0"]);
    let asked = Instant::now();
    let mut late = Request::new(identity("slow", &[1.0]));
    late.metadata_mut().insert("x-request-timeout-ms", "20".parse().unwrap());
    let answer = client.call_with::<_, frontend::grpc::proto::ModelInferResponse>(INFER, late);
    refused(answer, Code::DeadlineExceeded);
    // Sooner than its run can have ended.
    assert!(asked.elapsed() < Duration::from_millis(2500), "{:?}", asked.elapsed());
    let mut wrong = Request::new(identity("slow", &[1.0]));
    wrong.metadata_mut().insert("x-request-timeout-ms", "soon".parse().unwrap());
    let answer = client.call_with::<_, frontend::grpc::proto::ModelInferResponse>(INFER, wrong);
    let text = refused(answer, Code::InvalidArgument);
    assert!(text.contains("metadata x-request-timeout-ms"), "{text}");
}

#[test]
fn a_call_that_is_given_up_leaves_the_queue() {
    let repository = Repository::identity("m", &[("execute_delay_ms", "200")]);
    let server = Server::start(&repository, &["--default-instance-count=1"]);
    let Client { runtime, grpc } = Client::new(&server);
    let ask = |first: f32| {
        let mut grpc = grpc.clone();
        runtime.spawn(async move {
            grpc.ready().await.unwrap();
            let path = format!("/{INFER}").parse().unwrap();
            let codec =
                tonic_prost::ProstCodec::<_, frontend::grpc::proto::ModelInferResponse>::default();
            grpc.unary(Request::new(identity("m", &[first])), path, codec).await
        })
    };
    let (first, second) = (ask(1.0), ask(2.0));
    let address = server.http();
    let waited = runtime.spawn_blocking(move || wait_queued(address, "m", 1));
    runtime.block_on(waited).unwrap();
    second.abort();
    runtime.block_on(first).unwrap().unwrap();
    wait_for("the request to be counted as cancelled", || {
        (Page::read(address).failures("m", "CANCELED") == 1.0).then_some(())
    });
}

#[test]
fn messages_are_compressed_where_both_sides_want_it() {
    let flags = ["--grpc-infer-response-compression-level=high", "--max-inflight-bytes=256MiB"];
    let (_server, client) = start(&flags);
    let Client { runtime, grpc } = client;
    let grpc = grpc.send_compressed(tonic::codegen::CompressionEncoding::Gzip);
    let mut client = Client { runtime, grpc };
    assert_eq!(firsts(&client.infer(identity("m", &[3.0; 8])).unwrap()), [3.0; 8]);
    // A bomb: 80 MiB of nothing in 80 KiB, more than a quarter of what all may take.
    let mut bomb = identity("m", &[1.0]);
    bomb.raw_input_contents = vec![vec![0; 80 << 20].into()];
    let text = client.refused(bomb, Code::ResourceExhausted);
    assert!(text.contains("send it without compression"), "{text}");
}

#[test]
fn a_message_above_the_limit_is_refused_before_it_is_read() {
    let (_server, mut client) = start(&["--max-inflight-bytes=1MiB"]);
    let mut large = identity("m", &[1.0]);
    large.raw_input_contents = vec![vec![0; 4 << 20].into()];
    let text = client.refused(large, Code::ResourceExhausted);
    assert!(text.contains("1048576"), "{text}");
    client.infer(identity("m", &[1.0])).unwrap();
}

#[test]
fn a_million_names_are_refused_before_they_are_looked_at() {
    let (_server, mut client) = start(&[]);
    let mut many = identity("m", &[1.0]);
    many.outputs = vec![output("OUTPUT0", &[]); 1_000_000];
    let text = client.refused(many, Code::InvalidArgument);
    assert!(text.contains("expected at most 16384"), "{text}");
}
