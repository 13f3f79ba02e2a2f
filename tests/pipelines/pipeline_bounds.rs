//! How long a text may be and how many rows a request may make: one more is refused, before anything is run.

use serde_json::{Value, json};

use crate::{
    pipeline_refusals::with_an_expression_that_gives_up,
    support::{Client, Page, Process, Reply, Server, pipelines::repository, wait_for},
};

fn invoke(server: &Server, model: &str, body: &Value) -> Reply {
    let headers = [("content-type", "application/json"), ("x-amzn-sagemaker-target-model", model)];
    Client::connect(server.sagemaker()).post("/invocations", &headers, body.to_string())
}

#[test]
fn a_text_of_more_bytes_or_characters_than_are_read_is_refused() {
    let server = Server::start(&repository(&["sst2"]), &[]);
    let ask = |text: &str, truncation: bool| {
        let body = json!({"inputs": text, "parameters": {"truncation": truncation}});
        invoke(&server, "sst2", &body)
    };
    // Of blanks no tokens are made, so that nothing but their number is too much.
    let text = |bytes: usize| " ".repeat(bytes - 1) + "a";
    const MOST_BYTES: usize = 1 << 20;
    ask(&text(MOST_BYTES), true).expect(200);
    for truncation in [false, true] {
        let problem = ask(&text(MOST_BYTES + 1), truncation).error(400);
        assert!(
            problem.contains("the text has 1048577 bytes, at most 1048576 are taken"),
            "{problem}"
        );
    }
    // 250 for each of the 64 tokens of the longest input.
    ask(&text(16_000), false).expect(200);
    ask(&text(16_001), true).expect(200);
    let problem = ask(&text(16_001), false).error(400);
    let part = "the text has 16001 characters, an input of 64 tokens is read up to 16000";
    assert!(problem.contains(part), "{problem}");
    assert_eq!(Page::read(server.http()).of("sst2", "muster_pipeline_rows_per_run_sum"), 3.0);
}

#[test]
fn the_labels_of_a_text_are_rows_of_its_request() {
    let server = Server::start(&repository(&["zero-shot"]), &["--max-client-batch-size=16"]);
    let ask = |texts: Value, labels: usize| {
        let labels: Vec<String> = (0..labels).map(|it| format!("label {it}")).collect();
        let body = json!({"inputs": texts, "parameters": {"candidate_labels": labels}});
        invoke(&server, "zero-shot", &body)
    };
    let reply = ask(json!("a text"), 16).expect(200).json();
    assert_eq!(reply["labels"].as_array().unwrap().len(), 16);
    for (texts, labels) in [(json!("a text"), 17), (json!(["a text", "another"]), 9)] {
        let problem = ask(texts, labels).error(400);
        assert!(problem.contains("at most 16"), "{problem}");
    }
}

#[test]
fn texts_leave_the_threads_of_clients_once_their_tokenizer_is_known_to_be_slow() {
    let repository = with_an_expression_that_gives_up();
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let mut client = server.client();
    let tasks = format!("/proc/{}/task", server.id());
    let is_prepared_elsewhere = || {
        let tasks = std::fs::read_dir(&tasks).unwrap().map(|it| it.unwrap().path());
        let names = tasks.filter_map(|it| std::fs::read_to_string(it.join("comm")).ok());
        names.into_iter().any(|it| it.starts_with("prepare-"))
    };
    // So few bytes that those of any tokenizer are taken for short work.
    let text = vec!["x".repeat(12); 12].join(" ");
    let body = json!({"inputs": text}).to_string();
    let mut ask = || client.post("/v2/models/st-6/embed", &[], &body).expect(200).text();
    let first = ask();
    assert!(!is_prepared_elsewhere());
    wait_for("a thread that prepares texts", || {
        assert_eq!(ask(), first);
        is_prepared_elsewhere().then_some(())
    });
}
