//! Facts about the text, read back by a parser that forgives nothing.

mod gpus;
mod parser;
mod series;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicI64, Ordering::Relaxed},
    thread,
};

use parser::parse;
use proptest::prelude::*;

use super::*;
use crate::metrics::{
    reasons::{BatchReason, FailureReason},
    series::Labels,
};
use inference::timings::Timings;
use machine::gpus::Reading;

fn text(metrics: &Metrics) -> String {
    String::from_utf8(metrics.render().to_vec()).unwrap()
}

/// The lines of the text that begin so.
fn lines(metrics: &Metrics, start: &str) -> Vec<String> {
    let text = text(metrics);
    parse(&text);
    text.lines().filter(|it| it.starts_with(start)).map(str::to_owned).collect()
}

#[track_caller]
fn check(metrics: &Metrics, start: &str, expect: &[&str]) {
    assert_eq!(lines(metrics, start), expect);
}

fn metrics() -> Metrics {
    Metrics::new(MetricsSettings::default())
}

fn model(metrics: &Metrics, name: &str) -> ModelMetrics {
    metrics.model(name, 1, &ModelOptions::default())
}

/// The rows of the requests that are counted, and how long each takes as a rule.
const ROWS: usize = 3;
const TOTAL: Duration = Duration::from_nanos(100_999);

fn timings() -> Timings {
    Timings {
        started: Instant::now(),
        queue: Duration::from_micros(40),
        prepare: Duration::ZERO,
        rows: Duration::ZERO,
        input: Duration::from_micros(1),
        infer: Duration::from_micros(50),
        output: Duration::from_micros(2),
        batch_rows: ROWS,
        turn: None,
    }
}

fn execution(batch_rows: usize) -> Timings {
    let time = Duration::from_micros(50);
    Timings { batch_rows, input: time, infer: time, output: time, ..timings() }
}

#[test]
fn a_new_model_shows_all_its_series_at_zero() {
    let metrics = metrics();
    let _model = model(&metrics, "m");
    let families = parse(&text(&metrics));
    let names: BTreeSet<&str> = families.keys().map(String::as_str).collect();
    let expect = [
        ("nv_inference_request_success", "counter"),
        ("nv_inference_request_failure", "counter"),
        ("nv_inference_count", "counter"),
        ("nv_inference_exec_count", "counter"),
        ("nv_inference_request_duration_us", "counter"),
        ("nv_inference_queue_duration_us", "counter"),
        ("nv_inference_compute_input_duration_us", "counter"),
        ("nv_inference_compute_infer_duration_us", "counter"),
        ("nv_inference_compute_output_duration_us", "counter"),
        ("nv_inference_pending_request_count", "gauge"),
        ("nv_model_load_duration_secs", "gauge"),
        ("muster_request_duration_seconds", "histogram"),
        ("muster_queue_duration_seconds", "histogram"),
        ("muster_compute_duration_seconds", "histogram"),
        ("muster_batch_rows", "histogram"),
        ("muster_queue_depth", "gauge"),
        ("muster_http_connections", "gauge"),
        ("muster_bytes_in_flight", "gauge"),
        ("muster_build_info", "gauge"),
    ];
    for (name, kind) in expect {
        assert!(names.contains(name), "{name}");
        assert_eq!(families[name].kind, kind, "{name}");
    }
    let of_the_model = |start: &str| lines(&metrics, start);
    assert_eq!(
        of_the_model("nv_inference_count"),
        [r#"nv_inference_count{model="m",version="1"} 0"#]
    );
    assert_eq!(of_the_model("nv_inference_request_failure").len(), 4);
    assert!(!names.contains("nv_inference_first_response_histogram_ms"));
}

#[cfg(target_os = "linux")]
#[test]
fn process_and_machine_are_shown_from_the_start_and_the_machine_only_if_allowed() {
    let with = parse(&text(&metrics()));
    let without = Metrics::new(MetricsSettings { cpu_metrics: false, ..Default::default() });
    let without = parse(&text(&without));
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(with.contains_key(name) && without.contains_key(name), "{name}");
    }
    for name in ["nv_cpu_utilization", "nv_cpu_memory_total_bytes", "nv_cpu_memory_used_bytes"] {
        assert!(with.contains_key(name) && !without.contains_key(name), "{name}");
    }
}

#[test]
fn a_success_counts_once_everywhere_in_whole_microseconds() {
    let metrics = metrics();
    let model = model(&metrics, "m");
    model.success(ROWS, TOTAL, &timings());
    model.success(ROWS, TOTAL, &timings());
    model.execution(&execution(6), BatchReason::Full);
    let value = |name: &str| {
        let line = lines(&metrics, &format!("{name}{{")).pop().unwrap();
        line.rsplit_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(value("nv_inference_request_success"), "2");
    assert_eq!(value("nv_inference_count"), "6");
    assert_eq!(value("nv_inference_exec_count"), "1");
    assert_eq!(value("nv_inference_request_duration_us"), "201");
    assert_eq!(value("nv_inference_queue_duration_us"), "80");
    assert_eq!(value("nv_inference_compute_input_duration_us"), "2");
    assert_eq!(value("nv_inference_compute_infer_duration_us"), "100");
    assert_eq!(value("nv_inference_compute_output_duration_us"), "4");
    assert_eq!(value("muster_request_duration_seconds_count"), "2");
    assert_eq!(value("muster_request_duration_seconds_sum"), "0.000201998");
    assert_eq!(value("muster_compute_duration_seconds_sum"), "0.000106");
    assert_eq!(value("muster_queue_duration_seconds_sum"), "0.00008");
    assert_eq!(value("muster_batch_rows_sum"), "6");
}

#[test]
fn durations_fall_into_buckets_in_seconds() {
    let metrics = metrics();
    let model = model(&metrics, "m");
    model.success(ROWS, TOTAL, &timings());
    let buckets = lines(&metrics, "muster_queue_duration_seconds_bucket");
    let bucket =
        |le| format!(r#"muster_queue_duration_seconds_bucket{{model="m",version="1",le="{le}"}}"#);
    assert_eq!(buckets.len(), 22);
    assert_eq!(buckets[0], format!("{} 0", bucket("0.00001")));
    assert_eq!(buckets[1], format!("{} 0", bucket("0.00002")));
    assert_eq!(buckets[2], format!("{} 1", bucket("0.00005")));
    assert_eq!(buckets[20], format!("{} 1", bucket("60")));
    assert_eq!(buckets[21], format!("{} 1", bucket("+Inf")));
}

#[test]
fn all_reasons_are_shown_between_the_other_labels() {
    let metrics = metrics();
    let options = ModelOptions { tags: [("team".into(), "a".into())].into(), ..Default::default() };
    let model = metrics.model("m", 12, &options);
    model.failure(FailureReason::Rejected);
    model.failure(FailureReason::Rejected);
    model.failure(FailureReason::Other);
    check(
        &metrics,
        "nv_inference_request_failure{",
        &[
            r#"nv_inference_request_failure{_team="a",model="m",reason="REJECTED",version="12"} 2"#,
            r#"nv_inference_request_failure{_team="a",model="m",reason="CANCELED",version="12"} 0"#,
            r#"nv_inference_request_failure{_team="a",model="m",reason="BACKEND",version="12"} 0"#,
            r#"nv_inference_request_failure{_team="a",model="m",reason="OTHER",version="12"} 1"#,
        ],
    );
}

#[test]
fn a_request_is_pending_as_long_as_its_guard() {
    let metrics = metrics();
    let model = model(&metrics, "m");
    let (first, second) = (model.pending(), model.pending());
    let name = r#"nv_inference_pending_request_count{model="m",version="1"}"#;
    check(&metrics, name, &[&format!("{name} 2")]);
    check(&metrics, "muster_queue_depth{", &[r#"muster_queue_depth{model="m",version="1"} 2"#]);
    drop((first, second));
    check(&metrics, name, &[&format!("{name} 0")]);
}

#[test]
fn connections_and_bytes_go_up_and_down() {
    let metrics = metrics();
    let connection = metrics.connection();
    metrics.bytes_in_flight().add(5000);
    metrics.bytes_in_flight().sub(1000);
    check(&metrics, "muster_http_connections", &["muster_http_connections 1"]);
    check(&metrics, "muster_bytes_in_flight", &["muster_bytes_in_flight 4000"]);
    drop(connection);
    metrics.bytes_in_flight().sub(9000);
    check(&metrics, "muster_http_connections", &["muster_http_connections 0"]);
    check(&metrics, "muster_bytes_in_flight", &["muster_bytes_in_flight 0"]);
}

#[test]
fn http_requests_are_counted_by_protocol_and_status_once_seen() {
    let metrics = metrics();
    check(&metrics, "muster_http_requests_total", &[]);
    metrics.http(Protocol::KserveV2, 200);
    metrics.http(Protocol::KserveV2, 200);
    metrics.http(Protocol::Sagemaker, 503);
    check(
        &metrics,
        "muster_http_requests_total",
        &[
            r#"muster_http_requests_total{protocol="kserve_v2",status="200"} 2"#,
            r#"muster_http_requests_total{protocol="sagemaker",status="503"} 1"#,
        ],
    );
}

#[test]
fn load_durations_are_seconds() {
    let metrics = metrics();
    model(&metrics, "gone").load_duration(Duration::from_secs(1));
    let model = model(&metrics, "m");
    model.load_duration(Duration::from_millis(1500));
    let expect = r#"nv_model_load_duration_secs{model="m",version="1"} 1.5"#;
    check(&metrics, "nv_model_load_duration_secs{", &[expect]);
}

#[test]
fn counter_latencies_hide_the_durations_and_nothing_else() {
    let metrics = Metrics::new(MetricsSettings { counter_latencies: false, ..Default::default() });
    let _model = model(&metrics, "m");
    let families = parse(&text(&metrics));
    assert!(!families.keys().any(|it| it.ends_with("_duration_us")));
    assert!(families.contains_key("nv_inference_count"));
}

#[test]
fn the_first_response_histogram_has_triton_s_buckets_or_the_model_s_in_whole_milliseconds() {
    let metrics = Metrics::new(MetricsSettings { histogram_latencies: true, ..Default::default() });
    let own = ModelOptions { first_response_ms: vec![20, 10, 20], ..Default::default() };
    let (own, plain) = (metrics.model("a", 1, &own), model(&metrics, "b"));
    own.success(ROWS, Duration::from_micros(10_900), &timings());
    plain.success(ROWS, Duration::from_millis(501), &timings());
    let name = "nv_inference_first_response_histogram_ms";
    let line = |suffix: &str, labels: &str, value| format!("{name}{suffix}{{{labels}}} {value}");
    assert_eq!(
        lines(&metrics, name),
        [
            line("_bucket", r#"model="a",version="1",le="10""#, 1),
            line("_bucket", r#"model="a",version="1",le="20""#, 1),
            line("_bucket", r#"model="a",version="1",le="+Inf""#, 1),
            line("_sum", r#"model="a",version="1""#, 10),
            line("_count", r#"model="a",version="1""#, 1),
            line("_bucket", r#"model="b",version="1",le="100""#, 0),
            line("_bucket", r#"model="b",version="1",le="500""#, 0),
            line("_bucket", r#"model="b",version="1",le="2000""#, 1),
            line("_bucket", r#"model="b",version="1",le="5000""#, 1),
            line("_bucket", r#"model="b",version="1",le="+Inf""#, 1),
            line("_sum", r#"model="b",version="1""#, 501),
            line("_count", r#"model="b",version="1""#, 1),
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_name_and_any_tags_give_a_sound_text(
        name in any::<String>(),
        tags in prop::collection::btree_map(any::<String>(), any::<String>(), 0..40),
        version in any::<u64>(),
    ) {
        let metrics = metrics();
        let options = ModelOptions { tags, ..Default::default() };
        let _model = metrics.model(&name, version, &options);
        let families = parse(&text(&metrics));
        prop_assert_eq!(families["nv_inference_count"].samples.len(), 1);
    }

    #[test]
    fn any_durations_give_a_sound_text(
        totals in prop::collection::vec(any::<Duration>(), 0..20),
    ) {
        let metrics = metrics();
        let model = model(&metrics, "m");
        for total in &totals {
            model.success(ROWS, *total, &Timings { queue: *total, ..timings() });
        }
        let families = parse(&text(&metrics));
        let success = families["nv_inference_request_success"].samples.values().next().unwrap();
        prop_assert_eq!(success, &totals.len().to_string());
    }
}

#[test]
fn batches_are_counted_by_what_decided_their_size() {
    let metrics = metrics();
    let model = model(&metrics, "m");
    check(&metrics, "muster_batches_total", &[]);
    model.execution(&execution(8), BatchReason::Full);
    model.execution(&execution(8), BatchReason::Full);
    model.execution(&execution(1), BatchReason::InPlace);
    check(
        &metrics,
        "muster_batches_total",
        &[
            r#"muster_batches_total{model="m",reason="full",version="1"} 2"#,
            r#"muster_batches_total{model="m",reason="in_place",version="1"} 1"#,
        ],
    );
}

#[test]
fn summaries_have_the_quantiles_that_were_asked_for_and_totals_since_the_start() {
    let options = MetricsSettings { summary_quantiles: vec![0.5, 0.99], ..Default::default() };
    let metrics = Metrics::new(options);
    let model = model(&metrics, "m");
    let name = "nv_inference_queue_summary_us";
    let line =
        |suffix: &str, labels: &str, value: &str| format!("{name}{suffix}{{{labels}}} {value}");
    let labels = r#"model="m",version="1""#;
    let empty = line("", &format!(r#"{labels},quantile="0.5""#), "NaN");
    assert_eq!(lines(&metrics, name)[0], empty);
    for queue in [10, 20, 30] {
        model.success(ROWS, TOTAL, &Timings { queue: Duration::from_micros(queue), ..timings() });
    }
    let shown = lines(&metrics, name);
    let median: f64 = shown[0].rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!((19.8..=20.2).contains(&median), "{shown:?}");
    assert_eq!(shown[2..], [line("_sum", labels, "60"), line("_count", labels, "3")]);
    let families = parse(&text(&metrics));
    for time in ["request", "queue", "compute_input", "compute_infer", "compute_output"] {
        assert_eq!(families[&format!("nv_inference_{time}_summary_us")].kind, "summary");
    }
}
