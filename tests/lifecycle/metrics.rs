//! The metrics page over HTTP: every port has it, it is sound, and it counts what was done.

use std::thread;

use crate::support::{
    Client, Page, Repository, Server, ask, first_of, infer, row, rows, wait_for, wait_queued,
};

#[test]
fn every_port_has_the_page_unless_it_is_off() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[]);
    for service in ["http", "sagemaker", "metrics"] {
        let page = Page::read(server.address(service).unwrap());
        assert_eq!(page.of("m", "nv_inference_request_success"), 0.0, "{service}");
    }
    let server = Server::start(&repository, &["--allow-metrics=false"]);
    assert!(server.address("metrics").is_none());
}

#[test]
fn requests_rows_executions_and_times_add_up() {
    let config = "backend: \"identity\" max_batch_size: 8 dynamic_batching { }
        instance_group { count: 1 kind: KIND_CPU }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        parameters { key: \"execute_delay_ms\" value: { string_value: \"20\" } }
        parameters { key: \"fail_marked_rows\" value: { string_value: \"true\" } }
        parameters { key: \"fault_marker\" value: { string_value: \"13\" } }";
    let repository = Repository::new().model("m", config);
    let server = Server::start(&repository, &[]);
    for _ in 0..3 {
        assert_eq!(first_of(&server.post(&infer("m"), rows(1, 2))), 1.0);
    }
    server.post(&infer("m"), row(13)).error(500);
    server.post(&infer("m"), "{").error(400);
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "nv_inference_request_success"), 3.0);
    assert_eq!(page.of("m", "nv_inference_count"), 6.0);
    assert_eq!(page.of("m", "nv_inference_exec_count"), 3.0);
    assert_eq!(page.failures("m", "BACKEND"), 1.0);
    // What is no request for the model is not the model's failure.
    for reason in ["REJECTED", "CANCELED", "OTHER"] {
        assert_eq!(page.failures("m", reason), 0.0, "{reason}");
    }
    let micros = |family| page.of("m", family);
    let compute = micros("nv_inference_compute_infer_duration_us");
    assert!(60_000.0 <= compute, "{compute}");
    let parts = micros("nv_inference_queue_duration_us")
        + micros("nv_inference_compute_input_duration_us")
        + compute
        + micros("nv_inference_compute_output_duration_us");
    assert!(parts <= micros("nv_inference_request_duration_us"), "{parts}");
    assert_eq!(micros("muster_request_duration_seconds_count"), 3.0);
}

#[test]
fn answers_are_counted_by_protocol_and_status() {
    let server = Server::start(&Repository::identity("m", &[]), &[]);
    let before = Page::read(server.http());
    server.post(&infer("m"), row(1)).expect(200);
    server.post(&infer("m"), "{").expect(400);
    server.post(&infer("none"), row(1)).expect(404);
    server.get(&infer("m")).expect(405);
    server.get("/v1/models/m").expect(200);
    server.post("/v1/models/m:predict", r#"{"instances":[[1,2,3,4]]}"#).expect(200);
    Client::connect(server.sagemaker()).get("/ping").expect(200);
    server.get("/nowhere").expect(404);
    let page = Page::read(server.http());
    let new = |protocol, status| page.answers(protocol, status) - before.answers(protocol, status);
    assert_eq!(new("kserve_v2", 200), 1.0);
    assert_eq!(new("kserve_v2", 400), 1.0);
    assert_eq!(new("kserve_v2", 404), 1.0);
    assert_eq!(new("tensorflow_serving", 200), 2.0);
    assert_eq!(new("sagemaker", 200), 1.0);
    // No route, no protocol: the unknown address and the wrong method.
    assert_eq!(new("other", 404), 1.0);
    assert_eq!(new("other", 405), 1.0);
}

#[test]
fn gauges_go_up_and_come_down() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &["--scheduler-hold=4"]);
    let connections = || Page::read(server.http()).value("muster_http_connections");
    wait_for("the connections of the start to be gone", || (connections() == 1.0).then_some(()));
    let mut waiting = Vec::new();
    for number in 0..3 {
        waiting.push(ask(server.http(), "m", row(number)));
        wait_queued(server.http(), "m", waiting.len());
    }
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "nv_inference_pending_request_count"), 3.0);
    assert_eq!(page.value("muster_bytes_in_flight"), 3.0 * row(0).len() as f64);
    assert!(page.value("muster_http_connections") >= 4.0);
    waiting.push(ask(server.http(), "m", row(3)));
    for (number, client) in waiting.iter_mut().enumerate() {
        assert_eq!(first_of(&client.reply()), number as f64);
    }
    drop(waiting);
    wait_queued(server.http(), "m", 0);
    wait_for("the connections to be gone", || (connections() == 1.0).then_some(()));
    assert_eq!(Page::read(server.http()).value("muster_bytes_in_flight"), 0.0);
}

#[test]
fn labels_of_models_are_what_their_configuration_says_and_no_client_can_add_one() {
    let config = "backend: \"identity\" max_batch_size: 8
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        metric_tags { key: \"team\" value: \"a \\\"quoted\\\" one\\n{x=}\" }";
    let server = Server::start(&Repository::new().model("m", config), &[]);
    let lines = |it: &str| it.lines().filter(|it| !it.starts_with('#')).count();
    let before = server.get("/metrics").text();
    assert!(before.contains(r#"_team="a \"quoted\" one\n{x=}""#), "{before}");
    for name in ["x%22%7D", "%0A", "y"] {
        server.post(&infer(name), row(1)).expect(404);
    }
    let after = server.get("/metrics").text();
    Page::parse(&after);
    // Two new lines count the statuses of this page and of what there is not.
    let (before, after) = (lines(&before), lines(&after));
    assert!(after <= before + 2, "{before} lines became {after}");
}

#[test]
fn many_readers_at_once_all_get_the_page() {
    let server = Server::start(&Repository::identity("m", &[]), &[]);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::connect(server.http());
                for _ in 0..20 {
                    Page::parse(&client.get("/metrics").expect(200).text());
                }
            });
        }
    });
}

#[test]
fn the_page_has_one_address_and_one_method() {
    let server = Server::start(&Repository::identity("m", &[]), &[]);
    let metrics = server.address("metrics").unwrap();
    let mut client = Client::connect(metrics);
    let page = client.get("/metrics/").expect(200);
    assert!(page.header("content-type").unwrap().starts_with("text/plain"), "{page:?}");
    Page::parse(&page.text());
    client.post("/metrics", &[], "").expect(405);
    client.get("/metrics/more").expect(404);
}

#[test]
fn metrics_are_shown_as_the_command_line_says() {
    let repository = Repository::identity("m", &[]);
    let plain = Server::start(&repository, &[]);
    let page = plain.get("/metrics").text();
    assert!(page.contains("nv_inference_request_duration_us{") && page.contains("nv_cpu_"));
    assert!(!page.contains("_summary_us") && !page.contains("histogram_ms"));
    let flags = [
        "--metrics-config=counter_latencies=false",
        "--metrics-config=histogram_latencies=true",
        "--metrics-config=summary_latencies=true",
        "--metrics-config=summary_quantiles=0.5:0.1",
        "--allow-cpu-metrics=false",
    ];
    let chosen = Server::start(&repository, &flags);
    chosen.post(&infer("m"), rows(1, 2)).expect(200);
    let page = Page::read(chosen.http());
    assert_eq!(page.of("m", "nv_inference_request_success"), 1.0);
    assert_eq!(page.of("m", "nv_inference_count"), 2.0);
    assert_eq!(page.of("m", "nv_inference_first_response_histogram_ms_count"), 1.0);
    assert_eq!(page.of("m", "nv_inference_request_summary_us_count"), 1.0);
    let text = chosen.get("/metrics").text();
    assert!(!text.contains("_duration_us") && !text.contains("nv_cpu_"), "{text}");
    assert!(
        text.contains(r#"nv_inference_queue_summary_us{model="m",version="1",quantile="0.5"}"#)
    );
}

#[test]
fn batches_say_why_they_had_their_size() {
    let config = "backend: \"identity\" max_batch_size: 4 dynamic_batching { }
        instance_group { count: 1 kind: KIND_CPU }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let repository = Repository::new().model("m", config);
    let server = Server::start(&repository, &["--scheduler-hold=3", "--caller-runs=off"]);
    let mut waiting: Vec<Client> = (1..=3).map(|it| ask(server.http(), "m", rows(it, 2))).collect();
    for client in &mut waiting {
        client.reply().expect(200);
    }
    let text = server.get("/metrics").text();
    for (reason, batches) in [("full", 1), ("idle", 1)] {
        let line =
            format!(r#"muster_batches_total{{model="m",reason="{reason}",version="1"}} {batches}"#);
        assert!(text.contains(&line), "no '{line}' in: {text}");
    }
}
