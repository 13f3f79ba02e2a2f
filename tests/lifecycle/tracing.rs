//! Traces of requests: files as Triton writes them, spans for a collector of OpenTelemetry, lines of the log.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use frontend::grpc::proto::{
    ModelInferRequest, ModelStreamInferResponse, TraceSettingRequest, TraceSettingResponse,
    trace_setting_request,
};
use serde_json::Value;
use tonic::Code;

use crate::support::{
    Client, Collector, Page, Process, Repository, Server, Span, Start, ask, grpc, infer, row,
    wait_for,
};

const TIMESTAMPS: &str = "--trace-config=level=TIMESTAMPS";
const EVERY: &str = "--trace-config=rate=1";

/// What Triton stamps on a request over HTTP, in order.
const MOMENTS: [&str; 12] = [
    "HTTP_RECV_START",
    "HTTP_RECV_END",
    "REQUEST_START",
    "QUEUE_START",
    "COMPUTE_START",
    "COMPUTE_INPUT_END",
    "COMPUTE_OUTPUT_START",
    "COMPUTE_END",
    "INFER_RESPONSE_COMPLETE",
    "REQUEST_END",
    "HTTP_SEND_START",
    "HTTP_SEND_END",
];

/// A folder for trace files, the path of one, and the flag that names it.
fn trace_file() -> (Repository, PathBuf, String) {
    let folder = Repository::new();
    let path = PathBuf::from(folder.at("trace.json"));
    let flag = format!("--trace-config=triton,file={}", path.display());
    (folder, path, flag)
}

/// A request with an id, and its answer.
fn send(server: &Server, id: &str, number: i32) {
    let body = row(number).replacen('{', &format!("{{\"id\":{},", Value::from(id)), 1);
    server.post(&infer("m"), body).expect(200);
}

/// The objects of a trace file.
fn objects(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let all: Value = serde_json::from_str(&text).unwrap_or_else(|it| panic!("{it}: {text}"));
    all.as_array().unwrap().clone()
}

/// The objects, once there are those of so many traces.
#[track_caller]
fn wait_objects(path: &Path, traces: usize) -> Vec<Value> {
    wait_for("the traces to be written", || {
        let text = fs::read_to_string(path).ok()?;
        // The file may be seen while it is being written.
        let all: Value = serde_json::from_str(&text).ok()?;
        let all = all.as_array()?.clone();
        let heads = all.iter().filter(|it| !it["model_name"].is_null()).count();
        (heads == traces).then_some(all)
    })
}

#[test]
fn a_trace_file_is_an_array_of_objects_that_share_an_id() {
    let repository = Repository::identity("m", &[]);
    let (_folder, path, file) = trace_file();
    let server = Server::start(&repository, &[&file, TIMESTAMPS, EVERY]);
    send(&server, "first \"one\"", 1);
    send(&server, "second", 2);
    let objects = wait_objects(&path, 2);
    assert_eq!(objects.len(), 4, "{objects:#?}");
    for (number, id) in ["first \"one\"", "second"].into_iter().enumerate() {
        let [head, times] = &objects[2 * number..2 * number + 2] else { panic!() };
        assert_eq!(head["id"], number as u64 + 1);
        assert_eq!(head["model_name"], "m");
        assert_eq!(head["model_version"], 1);
        assert_eq!(head["request_id"], id);
        assert_eq!(times["id"], head["id"]);
        let times = times["timestamps"].as_array().unwrap();
        let names: Vec<&str> = times.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, MOMENTS);
        assert!(times.is_sorted_by_key(|it| it["ns"].as_u64().unwrap()), "{times:#?}");
    }
    server.stop().unwrap();
    assert_eq!(self::objects(&path).len(), 4);
}

#[test]
fn a_request_of_a_sequence_has_the_stamps_of_any_other() {
    let config = "max_batch_size: 2 sequence_batching { state {
        input_name: \"PAST\" output_name: \"NOW\" data_type: TYPE_INT32 dims: [ -1 ] } }";
    let repository = Repository::new()
        .copy("m", "tests/fixtures/batching/history")
        .file("m/config.pbtxt", config);
    let (_folder, path, file) = trace_file();
    let server = Server::start(&repository, &[&file, TIMESTAMPS, EVERY]);
    let body = r#"{"parameters":{"sequence_id":1,"sequence_start":true,"sequence_end":true},
        "inputs":[{"name":"INPUT","shape":[1,1],"datatype":"INT32","data":[5]}]}"#;
    server.post(&infer("m"), body).expect(200);
    let objects = wait_objects(&path, 1);
    let times = objects.iter().find_map(|it| it["timestamps"].as_array()).unwrap();
    let names: Vec<&str> = times.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, MOMENTS);
    assert!(times.is_sorted_by_key(|it| it["ns"].as_u64().unwrap()), "{times:#?}");
}

#[test]
fn tensors_are_written_as_text() {
    let repository = Repository::identity("m", &[]);
    let (_folder, path, file) = trace_file();
    let server = Server::start(&repository, &[&file, EVERY, "--trace-level=TENSORS"]);
    send(&server, "x", 3);
    let objects = wait_objects(&path, 1);
    let tensors: Vec<&Value> = objects.iter().filter(|it| !it["activity"].is_null()).collect();
    let activities: Vec<&str> = tensors.iter().map(|it| it["activity"].as_str().unwrap()).collect();
    let expect = ["TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_INPUT", "TENSOR_BACKEND_OUTPUT"];
    assert_eq!(activities, expect);
    for tensor in tensors {
        let tensor = &tensor["tensor"];
        assert_eq!(tensor["data"], "3,0,0,0");
        assert_eq!(tensor["shape"], "1,4");
        assert_eq!(tensor["dtype"], "FP32");
    }
    assert!(objects.iter().all(|it| it["timestamps"].is_null()), "{objects:#?}");
}

#[test]
fn a_frequency_makes_a_file_of_every_so_many_traces() {
    let repository = Repository::identity("m", &[]);
    let (_folder, path, file) = trace_file();
    let flags = [&*file, TIMESTAMPS, EVERY, "--trace-config=triton,log-frequency=2"];
    let server = Server::start(&repository, &flags);
    (0..5).for_each(|it| send(&server, "x", it));
    let numbered = |number: u32| PathBuf::from(format!("{}.{number}", path.display()));
    for (number, traces) in [(0, 2), (1, 2), (2, 1)] {
        wait_objects(&numbered(number), traces);
    }
    assert!(!path.exists() && !numbered(3).exists());
}

#[test]
fn one_request_in_so_many_is_traced_and_no_more_than_were_asked_for() {
    let repository = Repository::identity("m", &[]);
    let (_folder, path, file) = trace_file();
    let flags = [&*file, TIMESTAMPS, "--trace-config=rate=2", "--trace-config=count=2"];
    let server = Server::start(&repository, &flags);
    (1..=8).for_each(|it| send(&server, &it.to_string(), it));
    server.stop().unwrap();
    let objects = objects(&path);
    let ids = objects.iter().filter_map(|it| it["request_id"].as_str());
    assert_eq!(ids.collect::<Vec<_>>(), ["2", "4"]);
}

#[test]
fn a_request_that_fails_has_a_trace_too() {
    let config = "backend: \"identity\" max_batch_size: 8
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        parameters { key: \"fail_marked_rows\" value: { string_value: \"true\" } }
        parameters { key: \"fault_marker\" value: { string_value: \"13\" } }";
    let repository = Repository::new().model("m", config);
    let (_folder, path, file) = trace_file();
    let server = Server::start(&repository, &[&file, TIMESTAMPS, EVERY]);
    server.post(&infer("m"), row(13)).error(500);
    server.post(&infer("m"), "{").error(400);
    server.stop().unwrap();
    let objects = objects(&path);
    let times = objects.iter().filter_map(|it| it["timestamps"].as_array());
    let names = times.map(|it| it.iter().map(|it| it["name"].as_str().unwrap()).collect());
    let names: Vec<Vec<&str>> = names.collect();
    let [engine, decoding] = &names[..] else { panic!("{objects:#?}") };
    assert_eq!(engine.last(), Some(&"REQUEST_END"));
    assert!(!engine.contains(&"INFER_RESPONSE_COMPLETE"));
    assert_eq!(*decoding, ["HTTP_RECV_START", "HTTP_RECV_END"]);
}

#[test]
fn a_trace_file_that_cannot_be_made_keeps_the_server_from_starting() {
    let repository = Repository::identity("m", &[]);
    let file = repository.at("missing/t");
    let flags = [&*format!("--trace-config=triton,file={file}"), TIMESTAMPS];
    let process = Process::start(&repository, &flags, &[]);
    let finished = process.wait();
    assert_eq!(finished.status.code(), Some(1));
    let last = finished.last();
    assert!(last.contains(&format!("--trace-config triton,file='{file}'")), "{last}");
}

#[test]
fn requests_over_grpc_have_its_moments_and_a_stream_has_a_trace_for_each() {
    let (_folder, path, file) = trace_file();
    let server = Server::start(&Repository::identity("m", &[]), &[&file, TIMESTAMPS, EVERY]);
    let mut client = grpc::Client::new(&server);
    let request = |id: &str| ModelInferRequest { id: id.to_owned(), ..grpc::identity("m", &[1.0]) };
    client.infer(request("one")).unwrap();
    client.infer(ModelInferRequest { inputs: vec![], ..request("wrong") }).unwrap_err();
    let requests = vec![request("two"), request("three")];
    let path_of_call = "inference.GRPCInferenceService/ModelStreamInfer";
    let (answers, _) = client.stream::<_, ModelStreamInferResponse>(path_of_call, requests, &[]);
    assert_eq!(answers.len(), 2);
    let objects = wait_objects(&path, 4);
    let times = objects.iter().filter_map(|it| it["timestamps"].as_array());
    let mut traces: Vec<Vec<&str>> =
        times.map(|it| it.iter().map(|it| it["name"].as_str().unwrap()).collect()).collect();
    let expect = MOMENTS.map(|it| it.replace("HTTP_RECV", "GRPC_WAITREAD").replace("HTTP", "GRPC"));
    traces.sort_by_key(Vec::len);
    assert!(traces[1..].iter().all(|it| *it == expect), "{traces:#?}");
    let mut ids: Vec<&str> = objects.iter().filter_map(|it| it["request_id"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["one", "three", "two", "wrong"]);
}

#[test]
fn clients_turn_tracing_on_and_off() {
    let (_folder, path, file) = trace_file();
    let server = Server::start(&Repository::identity("m", &[]), &[&file]);
    let mut client = grpc::Client::new(&server);
    let mut set = |model: &str, changes: &[(&str, &[&str])]| {
        let setting = |(name, value): &(&str, &[&str])| {
            let value = value.iter().map(|it| (*it).to_owned()).collect();
            ((*name).to_owned(), trace_setting_request::SettingValue { value })
        };
        let settings = changes.iter().map(setting).collect();
        let request = TraceSettingRequest { settings, model_name: model.to_owned() };
        client.call::<_, TraceSettingResponse>("TraceSetting", request)
    };
    send(&server, "before", 1);
    let now = set("m", &[("trace_level", &["TIMESTAMPS"]), ("trace_rate", &["1"])]).unwrap();
    assert_eq!(now.settings["trace_level"].value, ["TIMESTAMPS"]);
    assert_eq!(now.settings["trace_file"].value, [path.display().to_string()]);
    send(&server, "while", 2);
    let now = set("m", &[("trace_level", &[]), ("trace_rate", &[])]).unwrap();
    assert_eq!(now.settings["trace_rate"].value, ["1000"]);
    send(&server, "after", 3);
    let refused = set("", &[("trace_file", &["/etc/passwd"])]).unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    server.stop().unwrap();
    let objects = objects(&path);
    let ids: Vec<&str> = objects.iter().filter_map(|it| it["request_id"].as_str()).collect();
    assert_eq!(ids, ["while"]);
}

/// A server that sends its spans to `collector` as soon as there are some.
fn exporting(repository: &Repository, collector: &Collector, flags: &[&str]) -> Server {
    let url = format!("--trace-config=opentelemetry,url={}", collector.url());
    Start::new(repository)
        .flags(&["--trace-config=mode=opentelemetry", TIMESTAMPS, &url])
        .flags(&["--trace-config=opentelemetry,bsp_schedule_delay=1"])
        .flags(flags)
        .variable("OTEL_RESOURCE_ATTRIBUTES", "zone=here")
        .variable("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b")
        .run()
}

#[test]
fn a_request_becomes_spans_inside_each_other() {
    let collector = Collector::start();
    let server = exporting(&Repository::identity("m", &[]), &collector, &[EVERY]);
    send(&server, "me", 1);
    let spans = collector.wait_spans(7);
    let by_name: BTreeMap<&str, &Span> = spans.iter().map(|it| (&*it.name, it)).collect();
    let inside = [
        ("m", "InferRequest"),
        ("queue", "m"),
        ("compute", "m"),
        ("compute_input", "compute"),
        ("compute_infer", "compute"),
        ("compute_output", "compute"),
    ];
    for (name, parent) in inside {
        let (span, parent) = (by_name[name], by_name[parent]);
        assert_eq!(span.parent, parent.id, "{name}");
        assert_eq!(span.trace, parent.trace, "{name}");
        assert!(parent.start <= span.start && span.end <= parent.end, "{name}");
        assert!(span.start <= span.end, "{name}");
    }
    let root = by_name["InferRequest"];
    assert!(root.parent.is_empty());
    assert_eq!((root.trace.len(), root.id.len()), (16, 8));
    for span in [root, by_name["m"]] {
        assert_eq!(span.attributes["triton.model_name"], "m");
        assert_eq!(span.attributes["triton.model_version"], "1");
        assert_eq!(span.attributes["triton.trace_id"], "1");
        assert_eq!(span.attributes["triton.trace_parent_id"], "0");
        assert_eq!(span.attributes["triton.request_id"], "me");
    }
    assert_eq!(root.attributes["http.response.status_code"], "200");
    let events: Vec<&str> = spans.iter().flat_map(|it| &it.events).map(|it| &**it).collect();
    for moment in MOMENTS {
        assert!(events.contains(&moment), "{moment} is not in {events:?}");
    }
    let resource = collector.resource();
    assert_eq!(resource["service.name"], "triton-inference-server");
    assert_eq!(resource["zone"], "here");
    let head = &collector.requests()[0];
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
    assert!(head.contains("\r\napi-key: a b"), "{head}");
    let age = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 - root.start;
    assert!(age < 600_000_000_000, "{age} ns");
}

#[cfg(feature = "isolation")]
#[test]
fn the_run_of_a_model_in_a_process_of_its_own_names_that_process_and_what_the_way_there_took() {
    let collector = Collector::start();
    let repository = Repository::identity("m", &[("ISOLATION", "process")]);
    let server = exporting(&repository, &collector, &[EVERY]);
    send(&server, "me", 1);
    let spans = collector.wait_spans(7);
    let compute = spans.iter().find(|it| it.name == "compute").unwrap();
    let pid = crate::support::workers::of_worker(&Page::read(server.http()), "m", "pid", "");
    assert_eq!(compute.attributes["muster.worker_pid"], pid.to_string());
    let overhead: u64 = compute.attributes["muster.overhead_us"].parse().unwrap();
    assert!(1000 * overhead <= compute.end - compute.start, "{overhead} us");
}

#[test]
fn a_client_that_traces_gets_its_request_traced_whatever_the_rate() {
    let collector = Collector::start();
    let server = exporting(&Repository::identity("m", &[]), &collector, &["--trace-config=rate=0"]);
    let post = |parent: &str| {
        let headers = [("content-type", "application/json"), ("traceparent", parent)];
        Client::connect(server.http()).post(&infer("m"), &headers, row(1)).expect(200);
    };
    post("nonsense");
    post("00-11111111111111111111111111111111-2222222222222222-00");
    post("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let spans = collector.wait_spans(7);
    server.stop().unwrap();
    let root = spans.iter().find(|it| it.name == "InferRequest").unwrap();
    assert_eq!(root.parent, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
    assert!(spans.iter().all(|it| it.trace.starts_with(&[0x0a, 0xf7, 0x65])));
    assert_eq!(collector.wait_spans(7).len(), 7, "the others were not to be traced");
}

#[test]
fn an_error_is_the_status_of_the_spans() {
    let collector = Collector::start();
    let server = exporting(&Repository::identity("m", &[]), &collector, &[EVERY]);
    server.post(&infer("m"), r#"{"inputs":[]}"#).error(400);
    let spans = collector.wait_spans(1);
    let root = spans.iter().find(|it| it.name == "InferRequest").unwrap();
    assert!(root.error.as_deref().is_some_and(|it| it.contains("INPUT0")), "{root:?}");
    assert_eq!(root.attributes["http.response.status_code"], "400");
}

#[test]
fn spans_wait_for_a_collector_that_is_busy_and_requests_do_not() {
    let collector = Collector::answering(&["503 Busy"]);
    let server = exporting(&Repository::identity("m", &[]), &collector, &[EVERY]);
    send(&server, "a", 1);
    assert_eq!(collector.wait_spans(7).len(), 7);
}

#[test]
fn a_collector_that_is_not_there_costs_traces_and_no_request() {
    let repository = Repository::identity("m", &[]);
    // Nobody listens on port 1.
    let flags = [
        "--trace-config=mode=opentelemetry",
        "--trace-config=opentelemetry,url=http://127.0.0.1:1/v1/traces",
        "--trace-config=opentelemetry,bsp_schedule_delay=1",
        "--trace-config=opentelemetry,bsp_max_queue_size=7",
        TIMESTAMPS,
        EVERY,
    ];
    let mut process = Process::start(&repository, &flags, &[]);
    process.wait_ready();
    let http = process.address("http");
    for number in 0..50 {
        ask(http, "m", row(number)).reply().expect(200);
    }
    assert_eq!(Page::read(http).of("m", "nv_inference_request_success"), 50.0);
    process.wait_for_line("traces do not reach their collector");
    process.signal("TERM");
    let finished = process.wait();
    assert_eq!(finished.status.code(), Some(0));
}

#[test]
fn every_request_has_its_line_where_that_was_asked_for() {
    let repository = Repository::identity("m", &[]);
    let mut process =
        Process::start(&repository, &["--log-requests=true", "--log-format=json"], &[]);
    // Lines of JSON; the address is in one of them.
    let address = process.wait_for_line(r#""service":"http""#);
    let address: Value = serde_json::from_str(&address).unwrap();
    process.wait_ready();
    let mut client = Client::connect(address["address"].as_str().unwrap().parse().unwrap());
    let json = [("content-type", "application/json")];
    let body = row(1).replacen('{', "{\"id\":\"a\\nb\",", 1);
    client.post(&infer("m"), &json, body).expect(200);
    client.post(&infer("m"), &json, "{").expect(400);
    let lines: Vec<Value> = ["\"status\":200", "\"status\":400"]
        .map(|it| serde_json::from_str(&process.wait_for_line(it)).unwrap())
        .to_vec();
    let [good, bad] = &lines[..] else { panic!() };
    assert_eq!(good["message"], "request");
    assert_eq!(good["protocol"], "http");
    assert_eq!((&good["model"], &good["version"]), (&"m".into(), &1.into()));
    assert_eq!((&good["rows"], &good["batch_rows"]), (&1.into(), &1.into()));
    assert_eq!(good["request_id"], "a\nb");
    for time in ["receive_us", "queue_us", "input_us", "infer_us", "output_us", "total_us"] {
        assert!(good[time].is_u64(), "{time} of {good}");
    }
    assert!(bad["error"].is_string() && bad["rows"].is_null(), "{bad}");
}
