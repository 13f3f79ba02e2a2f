//! What pipelines count: muster's own metrics, those of text-embeddings-inference, and the moments of a trace.

use std::fs;

use serde_json::{Value, json};

use crate::{
    image_pipelines::{ask, picture, said},
    support::{Collector, Page, Repository, Server, pipelines::repository, wait_for},
};

#[test]
fn pipelines_are_counted() {
    let server = Server::start(&repository(&["st-6"]), &["--metrics-names=tei"]);
    let ask = |body: &Value| server.post("/v2/models/st-6/embed", body.to_string());
    ask(&json!({"inputs": ["one", "two"]})).expect(200);
    ask(&json!({"inputs": "word ".repeat(100), "truncate": true})).expect(200);
    ask(&json!({"inputs": "word ".repeat(100), "truncate": false})).error(422);
    ask(&json!({"inputs": "one", "prompt_name": "none"})).error(422);
    let page = Page::read(server.http());
    let count = |family: &str| page.of("st-6", family);
    assert_eq!(count("muster_pipeline_truncated_total"), 1.0);
    let requests = ["te_request_count", "te_request_success", "te_request_failure"];
    assert_eq!(requests.map(count), [4.0, 2.0, 2.0]);
    assert_eq!(count("te_request_input_length_count"), 3.0);
    assert_eq!(count("te_request_tokenization_duration_count"), 4.0);
    assert_eq!(count("te_queue_size"), 0.0);
    let runs = count("muster_pipeline_rows_per_run_count");
    assert_eq!(count("te_batch_next_size_sum"), 3.0);
    assert_eq!(count("te_batch_next_tokens_count"), runs);
    // Of the two requests that came to a run, whose texts may have run apart.
    let of_requests =
        ["te_request_duration", "te_request_queue_duration", "te_request_inference_duration"];
    for family in of_requests {
        let times = count(&format!("{family}_count"));
        assert!((2.0..=3.0).contains(&times), "{family}: {times}");
    }
    // Tokens of the texts, and what the shorter one of a run was filled up with.
    let tokens = |kind: &str| {
        let labels = format!("{{kind=\"{kind}\",model=\"st-6\",version=\"1\"}}");
        page.value(&format!("muster_pipeline_tokens_total{labels}"))
    };
    assert_eq!(tokens("text"), count("te_request_input_length_sum"));
    assert_eq!(tokens("text") + tokens("padding"), count("te_batch_next_tokens_sum"));
    assert_eq!(count("muster_pipeline_rows_per_run_sum"), 3.0);
    let text = &server.get("/metrics").expect(200).text();
    for (line, value) in [
        (r#"muster_pipeline_inputs_refused_total{model="st-6",reason="too_long",version="1"}"#, 1),
        (r#"muster_pipeline_inputs_refused_total{model="st-6",reason="parameter",version="1"}"#, 1),
        (r#"muster_pipeline_step_duration_us_count{model="st-6",step="prepare",version="1"}"#, 4),
        (r#"muster_pipeline_step_duration_us_count{model="st-6",step="finish",version="1"}"#, 2),
        ("muster_pipeline_prepare_queue", 0),
        (r#"muster_pipeline_inputs_total{medium="text",model="st-6",version="1"}"#, 3),
    ] {
        let expected = format!("{line} {value}");
        assert!(text.lines().any(|it| it == expected), "{expected} is not in {text}");
    }
}

#[test]
fn pipelines_of_images_are_counted() {
    let server =
        Server::start(&repository(&["vit"]), &["--max-image-pixels=4096", "--metrics-names=tei"]);
    let mut client = server.client();
    let (small, large) = (picture("64x64.png"), picture("96x64.png"));
    said(&ask(&mut client, "vit", &small, &json!({})).expect(200));
    said(&ask(&mut client, "vit", &small, &json!({"top_k": 2})).expect(200));
    ask(&mut client, "vit", &small, &json!({"topk": 2})).error(400);
    ask(&mut client, "vit", &large, &json!({})).error(400);
    let page = Page::read(server.http());
    assert_eq!(page.of("vit", "muster_batch_rows_sum"), 2.0);
    assert_eq!(page.value("muster_pipeline_prepare_queue"), 0.0);
    let labelled = |family: &str, label: &str, value: &str| {
        let labels = match label < "model" {
            true => format!("{{{label}=\"{value}\",model=\"vit\",version=\"1\"}}"),
            false => format!("{{model=\"vit\",{label}=\"{value}\",version=\"1\"}}"),
        };
        page.value(&format!("{family}{labels}"))
    };
    let refused = |reason: &str| labelled("muster_pipeline_inputs_refused_total", "reason", reason);
    assert_eq!([refused("parameter"), refused("input")], [1.0, 1.0]);
    let steps = |step: &str| labelled("muster_pipeline_step_duration_us_count", "step", step);
    assert_eq!([steps("prepare"), steps("finish")], [4.0, 2.0]);
    assert_eq!(labelled("muster_pipeline_inputs_total", "medium", "image"), 2.0);
    // They are no texts: they have no length, and no tokens.
    let text = server.get("/metrics").expect(200).text();
    for family in [
        "muster_pipeline_inputs_total{medium=\"text\"",
        "muster_pipeline_tokens_total{",
        "muster_pipeline_truncated_total{",
        "muster_pipeline_rows_per_run_count{",
        "te_request_count{",
        "te_request_tokenization_duration_count{",
        "te_request_input_length_count{",
        "te_queue_size{",
    ] {
        assert!(!text.contains(&format!("\n{family}")), "{family} is in {text}");
    }
}

#[test]
fn names_of_others_are_shown_where_they_were_asked_for() {
    let server = Server::start(&repository(&["st-6"]), &[]);
    server.post("/v2/models/st-6/embed", r#"{"inputs": "one"}"#).expect(200);
    let text = server.get("/metrics").expect(200).text();
    assert!(text.contains("\nmuster_pipeline_rows_per_run_count{"), "{text}");
    assert!(!text.lines().any(|it| it.starts_with("te_")), "{text}");
}

#[test]
fn a_trace_of_texts_has_a_moment_for_each_step() {
    let folder = Repository::new();
    let path = folder.at("trace.json");
    let file = format!("--trace-config=triton,file={path}");
    let flags = [&*file, "--trace-config=level=TIMESTAMPS", "--trace-config=rate=1"];
    let server = Server::start(&repository(&["st-6"]), &flags);
    server.post("/v2/models/st-6/embed", r#"{"inputs": "one"}"#).expect(200);
    let objects = wait_for("the trace to be written", || {
        let all: Value = serde_json::from_str(&fs::read_to_string(&path).ok()?).ok()?;
        (all.as_array()?.len() == 2).then_some(all)
    });
    let moments = objects[1]["timestamps"].as_array().unwrap();
    let names: Vec<&str> = moments.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let expected =
        ["REQUEST_START", "PREPARE_START", "PREPARE_END", "QUEUE_START", "COMPUTE_START"];
    assert_eq!(names[2..7], expected);
    let end = names.iter().position(|it| *it == "COMPUTE_END").unwrap();
    assert_eq!(names[end + 1..end + 3], ["FINISH_START", "FINISH_END"]);
}

#[test]
fn a_trace_of_texts_has_a_span_for_each_step() {
    let collector = Collector::start();
    let url = format!("--trace-config=opentelemetry,url={}", collector.url());
    let flags = [
        "--trace-config=mode=opentelemetry",
        "--trace-config=opentelemetry,bsp_schedule_delay=1",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=1",
        &*url,
    ];
    let server = Server::start(&repository(&["st-6"]), &flags);
    server.post("/v2/models/st-6/embed", r#"{"inputs": "one"}"#).expect(200);
    let spans = collector.wait_spans(9);
    let span = |name: &str| {
        spans.iter().find(|it| it.name == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
    };
    let model = span("st-6");
    let order = ["prepare", "queue", "compute", "finish"].map(span);
    for (before, after) in order.iter().zip(&order[1..]) {
        assert!(before.start <= before.end && before.end <= after.end, "{spans:#?}");
    }
    assert!(order.iter().all(|it| it.parent == model.id), "{spans:#?}");
}
