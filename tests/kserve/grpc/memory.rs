//! What a small request can make the server hold: inputs and outputs in shared memory, typed contents.

use std::{fs, fs::OpenOptions};

use frontend::grpc::proto::{
    InferTensorContents, ModelInferRequest, ModelRepositoryParameter, RepositoryModelLoadRequest,
    RepositoryModelLoadResponse, SystemSharedMemoryRegisterRequest,
    SystemSharedMemoryRegisterResponse, infer_parameter::ParameterChoice,
    model_repository_parameter::ParameterChoice as ParameterOfLoad,
};
use tonic::Code;

use crate::support::{
    Process, Repository, Server,
    grpc::{Client, identity, input, map, output},
    shared_memory::Object,
};

const SHARED: &str = "--allow-client-shm=true";

fn models() -> Repository {
    let port = |put: &str, name: &str, kind: &str| {
        format!("{put} {{ name: \"{name}\" data_type: {kind} dims: [ -1 ] }}\n")
    };
    let config = |kind: &str| {
        let (input, output) = (port("input", "INPUT0", kind), port("output", "OUTPUT0", kind));
        format!("backend: \"identity\"\n{input}{output}")
    };
    Repository::identity("m", &[])
        .model("wide", &config("TYPE_UINT8"))
        .model("texts", &config("TYPE_STRING"))
}

fn start(flags: &[&str]) -> (Server, Client) {
    let server = Server::start(&models(), flags);
    let client = Client::new(&server);
    (server, client)
}

/// A server with a memory of its own to look at.
fn start_apart(flags: &[&str]) -> (Process, Client) {
    let repository = models();
    let mut server = Process::start(&repository, flags, &[]);
    server.wait_ready();
    let client = Client::connect(server.address("grpc"));
    (server, client)
}

fn register(client: &mut Client, name: &str, object: &Object, byte_size: u64) {
    let request = SystemSharedMemoryRegisterRequest {
        name: name.to_owned(),
        key: object.key().to_owned(),
        offset: 0,
        byte_size,
    };
    let _: SystemSharedMemoryRegisterResponse =
        client.call("SystemSharedMemoryRegister", request).unwrap();
}

fn part(region: &str, offset: i64, size: i64) -> Vec<(&str, ParameterChoice)> {
    vec![
        ("shared_memory_region", ParameterChoice::StringParam(region.to_owned())),
        ("shared_memory_offset", ParameterChoice::Int64Param(offset)),
        ("shared_memory_byte_size", ParameterChoice::Int64Param(size)),
    ]
}

/// The request with its input, and perhaps its output, in shared memory.
fn shared(
    request: ModelInferRequest,
    input: &[(&str, ParameterChoice)],
    into: Option<&[(&str, ParameterChoice)]>,
) -> ModelInferRequest {
    let mut request = ModelInferRequest { raw_input_contents: Vec::new(), ..request };
    request.inputs[0].parameters = map(input);
    request.outputs = into.map(|it| output("OUTPUT0", it)).into_iter().collect();
    request
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Bytes of memory that the process has had at the most.
fn most_resident(server: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn tensors_are_read_from_one_region_and_written_into_another() {
    let (_server, mut client) = start(&[SHARED]);
    let inputs = Object::new(&floats((0..12).map(|it| it as f32)));
    let outputs = Object::new(&[0; 64]);
    register(&mut client, "in", &inputs, 48);
    register(&mut client, "out", &outputs, 64);
    let into = part("out", 8, 32);
    let request = shared(identity("m", &[0.0; 2]), &part("in", 16, 32), Some(&into));
    let answer = client.infer(request).unwrap();
    let expected = floats((4..12).map(|it| it as f32));
    assert_eq!(outputs.content(), [&[0; 8][..], &expected, &[0; 24]].concat());
    assert_eq!(answer.outputs[0].shape, [2, 4]);
    assert!(answer.raw_output_contents.iter().all(|it| it.is_empty()), "{answer:?}");
    let text = &answer.outputs[0].parameters["shared_memory_region"].parameter_choice;
    assert_eq!(*text, Some(ParameterChoice::StringParam("out".to_owned())));
    // Without a place its output is sent.
    let request = shared(identity("m", &[0.0; 2]), &part("in", 16, 32), None);
    assert_eq!(client.infer(request).unwrap().raw_output_contents[0], expected);
}

#[test]
fn large_tensors_go_the_same_way() {
    let (_server, mut client) = start(&[SHARED]);
    let data: Vec<u8> = (0..3_000_000u32).map(|it| (it % 251) as u8).collect();
    let (inputs, outputs) = (Object::new(&data), Object::new(&vec![0; data.len()]));
    let size = data.len() as i64;
    register(&mut client, "in", &inputs, data.len() as u64);
    register(&mut client, "out", &outputs, data.len() as u64);
    let request = ModelInferRequest {
        model_name: "wide".to_owned(),
        inputs: vec![input("INPUT0", "UINT8", &[size])],
        ..Default::default()
    };
    client.infer(shared(request, &part("in", 0, size), Some(&part("out", 0, size)))).unwrap();
    assert!(outputs.content() == data);
}

#[test]
fn a_request_that_names_memory_wrongly_is_refused_by_tensor_and_region() {
    let (_server, mut client) = start(&[SHARED]);
    let object = Object::new(&[0; 16]);
    register(&mut client, "r", &object, 16);
    let whole = part("r", 0, 16);
    let request = |given: &[_], into: Option<&[_]>| shared(identity("m", &[1.0]), given, into);
    let mut check = |request: ModelInferRequest, code: Code, expected: &[&str]| {
        let text = client.refused(request, code);
        for part in expected {
            assert!(text.contains(part), "no '{part}' in: {text}");
        }
    };
    let wrong = Code::InvalidArgument;
    check(
        request(&part("s", 0, 16), None),
        Code::NotFound,
        &["'INPUT0'", "Unable to find shared memory region: 's'"],
    );
    check(request(&part("r", 8, 16), None), wrong, &["'INPUT0'", "not inside the region"]);
    check(request(&part("r", 0, 12), None), wrong, &["'INPUT0'", "Expected 16, got 12"]);
    check(
        request(&whole, Some(&part("s", 0, 16))),
        Code::NotFound,
        &["'OUTPUT0'", "Unable to find shared memory region: 's'"],
    );
    check(request(&whole, Some(&part("r", 0, 8))), wrong, &["'OUTPUT0' takes 16 bytes", "8"]);
    let both = [whole.clone(), vec![("classification", ParameterChoice::Int64Param(1))]].concat();
    check(request(&whole, Some(&both)), wrong, &["'OUTPUT0'", "given both"]);
    let mut twice = request(&whole, None);
    twice.inputs.push(twice.inputs[0].clone());
    check(twice, wrong, &["input 'INPUT0' already exists in request"]);
}

#[test]
fn a_part_larger_than_a_request_may_be_is_refused_before_it_takes_memory() {
    let (server, mut client) = start_apart(&[SHARED, "--max-inflight-bytes=64MiB"]);
    let object = Object::new(&[]);
    // Takes no memory: nothing has been written to it.
    let resize = |size: u64| {
        OpenOptions::new().write(true).open(object.path()).unwrap().set_len(size).unwrap();
    };
    resize(1 << 40);
    register(&mut client, "r", &object, 1 << 40);
    let before = most_resident(&server);
    let request = |size: i64| {
        let request = ModelInferRequest {
            model_name: "wide".to_owned(),
            inputs: vec![input("INPUT0", "UINT8", &[size])],
            ..Default::default()
        };
        shared(request, &part("r", 0, size), None)
    };
    let text = client.refused(request(1 << 40), Code::InvalidArgument);
    assert!(text.contains("--max-inflight-bytes"), "{text}");
    assert!(!text.contains("--http"), "{text}");
    let more = most_resident(&server) - before;
    assert!(more < 16 << 20, "{more} bytes more");
    assert_eq!(client.infer(request(1 << 10)).unwrap().raw_output_contents[0].len(), 1 << 10);
}

#[test]
fn contents_that_grow_while_they_are_read_need_room_for_that_first() {
    let (server, mut client) = start_apart(&["--max-inflight-bytes=64MiB"]);
    let texts = |count: usize| ModelInferRequest {
        model_name: "texts".to_owned(),
        inputs: vec![frontend::grpc::proto::model_infer_request::InferInputTensor {
            contents: Some(InferTensorContents {
                bytes_contents: vec![Default::default(); count],
                ..Default::default()
            }),
            ..input("INPUT0", "BYTES", &[count as i64])
        }],
        ..Default::default()
    };
    let before = most_resident(&server);
    // Eight million empty texts are 16 MB on the wire, and half a gigabyte when they are decoded.
    let text = client.refused(texts(8 << 20), Code::InvalidArgument);
    assert!(text.contains("--max-inflight-bytes") && text.contains("'texts'"), "{text}");
    let more = most_resident(&server) - before;
    assert!(more < 64 << 20, "{more} bytes more");
    let answer = client.infer(texts(100_000)).unwrap();
    assert_eq!(answer.raw_output_contents[0].len(), 400_000);
}

#[test]
fn a_load_of_many_parameters_needs_room_for_them_first() {
    let (server, mut client) = start_apart(&["--max-inflight-bytes=64MiB"]);
    let mut load = |count: usize| {
        let parameter = |at: usize| {
            let choice = Some(ParameterOfLoad::BoolParam(true));
            (format!("{at:x}"), ModelRepositoryParameter { parameter_choice: choice })
        };
        let request = RepositoryModelLoadRequest {
            model_name: "m".to_owned(),
            parameters: (0..count).map(parameter).collect(),
            ..Default::default()
        };
        client.call::<_, RepositoryModelLoadResponse>("RepositoryModelLoad", request).unwrap_err()
    };
    let before = most_resident(&server);
    // 6 MB on the wire, and more than the budget when they are decoded.
    let refused = load(500_000);
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("--max-inflight-bytes"), "{refused}");
    let more = most_resident(&server) - before;
    assert!(more < 64 << 20, "{more} bytes more");
    assert_eq!(load(1).code(), Code::InvalidArgument);
}
