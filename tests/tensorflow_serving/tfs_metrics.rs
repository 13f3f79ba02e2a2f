//! The page with TensorFlow Serving's names: where it is, what it counts, and that its bounds are the known ones.

use crate::support::{Client, Page, Repository, Server, Start, infer, row, rows};

const ON: &str = "--tfs-metrics=true";
const PATH: &str = "/monitoring/prometheus/metrics";

fn page(server: &Server, path: &str) -> Page {
    Page::parse(&server.get(path).expect(200).text())
}

fn model() -> Repository {
    Repository::identity(
        "m",
        &[("fail_marked_rows", "true"), ("fault_marker", "13"), ("execute_delay_ms", "2")],
    )
}

#[test]
fn requests_rows_and_batches_are_counted_under_its_names() {
    let repository = model();
    let server = Server::start(&repository, &[ON]);
    server.post(&infer("m"), rows(1, 3)).expect(200);
    server.post(&infer("m"), row(2)).expect(200);
    server.post(&infer("m"), row(13)).error(500);
    let page = page(&server, PATH);
    let count = |status: &str| format!("request_count{{model_name=\"m\",status=\"{status}\"}}");
    let value = |family: &str| page.value(&format!(":tensorflow:serving:{family}"));
    assert_eq!((value(&count("OK")), value(&count("INTERNAL"))), (2.0, 1.0));
    assert_eq!(value("request_example_count_total{model=\"m\"}"), 4.0);
    let latency = |of: &str, more: &str| value(&format!("{of}_{more}"));
    let labels = "API=\"Predict\",model_name=\"m\"";
    let infinite = format!("bucket{{{labels},le=\"+Inf\"}}");
    for of in ["request_latency", "runtime_latency"] {
        assert_eq!(latency(of, &format!("count{{{labels}}}")), 2.0);
        // Microseconds: each run takes two milliseconds.
        assert!(latency(of, &format!("sum{{{labels}}}")) >= 4000.0, "{of}");
        let below = format!("bucket{{{labels},le=\"1101.996\"}}");
        assert_eq!((latency(of, &below), latency(of, &infinite)), (0.0, 2.0));
    }
    assert_eq!(value("request_example_counts_bucket{model=\"m\",le=\"1\"}"), 1.0);
    assert_eq!(value("request_example_counts_bucket{model=\"m\",le=\"4\"}"), 2.0);
    assert_eq!(value("batching_session:queuing_latency_count{thread_pool_name=\"m\"}"), 2.0);
    assert_eq!(value("batching_session:wrapped_run_count"), 2.0);
    assert_eq!(value("batching_session:input_batch_size_bucket{le=\"2\"}"), 1.0);
    assert_eq!(value("batching_session:processed_batch_size_bucket{le=\"4\"}"), 2.0);
    assert_eq!(page.value(":tensorflow:core:graph_runs"), 2.0);
    assert!(page.value(":tensorflow:core:graph_run_time_usecs") >= 4000.0);
    assert!(page.value(":tensorflow:cc:saved_model:load_latency{model_path=\"m/1\"}") > 0.0);
}

#[test]
fn all_versions_of_a_model_are_one() {
    let config = "backend: \"identity\" max_batch_size: 8 version_policy { all { } }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let repository = Repository::new().model("m", config).file("m/2/any", "");
    let server = Server::start(&repository, &[ON]);
    for version in [1, 2] {
        let path = format!("/v2/models/m/versions/{version}/infer");
        server.post(&path, row(1)).expect(200);
    }
    let page = page(&server, PATH);
    let labels = "{model_name=\"m\",status=\"OK\"}";
    assert_eq!(page.value(&format!(":tensorflow:serving:request_count{labels}")), 2.0);
    for version in [1, 2] {
        assert!(page.has(&format!(
            ":tensorflow:cc:saved_model:load_latency{{model_path=\"m/{version}\"}}"
        )));
    }
}

#[test]
fn it_is_where_the_settings_say_and_nowhere_unless_they_do() {
    let repository = model();
    let server = Server::start(&repository, &[]);
    server.get(PATH).error(404);
    let server = Server::start(&repository, &[ON, "--tfs-metrics-path=/tf"]);
    page(&server, "/tf");
    server.get(PATH).error(404);
    server.post("/tf", "").error(405);
    let mut metrics = Client::connect(server.address("metrics").unwrap());
    Page::parse(&metrics.get("/tf").expect(200).text());
}

#[test]
fn a_monitoring_config_file_switches_it_on() {
    let text = "prometheus_config { enable: true path: \"/prometheus\" }";
    let repository = model().file("monitoring.config", text);
    let flag = format!("--monitoring-config-file={}", repository.at("monitoring.config"));
    let server = Server::start(&repository, &[&flag]);
    page(&server, "/prometheus");
    let repository = repository.file("monitoring.config", "prometheus_config { enabled: true }");
    let error = Start::new(&repository).flags(&[&flag]).config().unwrap_err();
    assert!(error.contains("monitoring.config:1:21: 'enabled' is not a field"), "{error}");
    let repository =
        repository.file("monitoring.config", "prometheus_config { enable: true path: \"x\" }");
    let error = Start::new(&repository).flags(&[&flag]).config().unwrap_err();
    assert!(error.contains("prometheus_config.path 'x' of "), "{error}");
}
