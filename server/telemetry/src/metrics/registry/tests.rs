//! Facts about the text, read back by a parser that forgives nothing.

mod parser;

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
        input: Duration::from_micros(1),
        infer: Duration::from_micros(50),
        output: Duration::from_micros(2),
        batch_rows: ROWS,
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

#[test]
fn hostile_names_stay_inside_their_labels() {
    let name = "m\",x=\"1\"} 5\nevil 1\n\\";
    let tags = [
        ("a b".to_owned(), "\"\n\\".to_owned()),
        ("a\"b".to_owned(), "the same label".to_owned()),
        ("ß\n".to_owned(), String::new()),
    ];
    let metrics = metrics();
    let options = ModelOptions { tags: tags.into(), ..Default::default() };
    let _model = metrics.model(name, 1, &options);
    let families = parse(&text(&metrics));
    // In the name `ß\n` the letter and the line's end have become one underscore each.
    let expect: Labels = [("___", ""), ("_a_b", "\"\n\\"), ("model", name), ("version", "1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let samples: Vec<_> = families["nv_inference_count"].samples.keys().collect();
    assert_eq!(samples, [&("nv_inference_count".to_owned(), expect)]);
}

#[test]
fn a_giant_name_is_cut_at_a_whole_character() {
    let metrics = metrics();
    let _model = model(&metrics, &format!("x{}", "ä".repeat(1 << 20)));
    assert!(text(&metrics).len() < 1 << 20);
    let families = parse(&text(&metrics));
    let (_, labels) = families["nv_inference_count"].samples.keys().next().unwrap();
    assert_eq!(labels[0].1, format!("x{}", "ä".repeat(511)));
}

#[test]
fn models_above_the_bound_are_summed_until_there_is_room() {
    let metrics = Metrics::new(MetricsSettings { max_models: 2, ..Default::default() });
    let first = model(&metrics, "a");
    let _second = model(&metrics, "b");
    let others = [model(&metrics, "c"), model(&metrics, "d")];
    for other in &others {
        other.success(ROWS, TOTAL, &timings());
        other.load_duration(Duration::from_secs(1));
    }
    first.success(ROWS, TOTAL, &timings());
    let count = |model: &str, version: &str, count| {
        format!(r#"nv_inference_count{{model="{model}",version="{version}"}} {count}"#)
    };
    let other = count("_other", "_other", 6);
    check(&metrics, "nv_inference_count{", &[&count("a", "1", 3), &count("b", "1", 0), &other]);
    assert_eq!(lines(&metrics, "nv_model_load_duration_secs{").len(), 2);
    drop((first, others));
    let late = model(&metrics, "e");
    late.success(ROWS, TOTAL, &timings());
    check(&metrics, "nv_inference_count{", &[&count("b", "1", 0), &count("e", "1", 3), &other]);
}

#[test]
fn a_withdrawn_model_is_shown_until_its_last_handle_is_gone() {
    let metrics = metrics();
    let model = model(&metrics, "m");
    let (clone, pending) = (model.clone(), model.pending());
    drop(model);
    drop(clone);
    assert_eq!(lines(&metrics, "nv_inference_count{").len(), 1);
    drop(pending);
    assert_eq!(lines(&metrics, "nv_inference_count{").len(), 0);
}

#[test]
fn a_reload_goes_on_counting_and_other_versions_and_tags_count_apart() {
    let metrics = metrics();
    let old = model(&metrics, "m");
    old.success(ROWS, TOTAL, &timings());
    let new = model(&metrics, "m");
    drop(old);
    new.success(ROWS, TOTAL, &timings());
    let _other_version = metrics.model("m", 2, &ModelOptions::default());
    let tagged = ModelOptions { tags: [("t".into(), "x".into())].into(), ..Default::default() };
    let _tagged = metrics.model("m", 1, &tagged);
    check(
        &metrics,
        "nv_inference_count{",
        &[
            r#"nv_inference_count{_t="x",model="m",version="1"} 0"#,
            r#"nv_inference_count{model="m",version="1"} 6"#,
            r#"nv_inference_count{model="m",version="2"} 0"#,
        ],
    );
}

#[test]
fn counts_of_many_threads_are_exact_and_every_text_between_is_sound() {
    const THREADS: u64 = 8;
    const REQUESTS: u64 = 2000;
    let metrics = metrics();
    let shared = model(&metrics, "m");
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|i| {
                let (metrics, model) = (metrics.clone(), shared.clone());
                scope.spawn(move || {
                    for request in 0..REQUESTS {
                        let _pending = model.pending();
                        let total = Duration::from_micros(request * (i + 1));
                        model.success(ROWS, total, &timings());
                        model.failure(FailureReason::Backend);
                        model.execution(&execution(2), BatchReason::Full);
                        metrics.http(Protocol::TensorflowServing, 200);
                    }
                })
            })
            .collect();
        while !workers.iter().all(|it| it.is_finished()) {
            parse(&text(&metrics));
        }
    });
    let all = THREADS * REQUESTS;
    for (name, expect) in [
        ("nv_inference_request_success{", all),
        ("nv_inference_count{", 3 * all),
        ("nv_inference_exec_count{", all),
        ("muster_batch_rows_sum{", 2 * all),
        ("nv_inference_queue_duration_us{", 40 * all),
        (r#"nv_inference_request_failure{model="m",reason="BACKEND""#, all),
        ("nv_inference_pending_request_count{", 0),
        ("muster_http_requests_total{", all),
    ] {
        let line = lines(&metrics, name).pop().unwrap();
        assert!(line.ends_with(&format!(" {expect}")), "{line}, expected {expect}");
    }
}

#[test]
fn with_few_models_every_text_is_new_and_with_many_it_is_used_again() {
    assert_eq!(reuse(0), Duration::ZERO);
    assert_eq!(reuse(50), Duration::ZERO);
    assert_eq!(reuse(51), Duration::from_micros(20_400));
    assert_eq!(reuse(1000), Duration::from_millis(400));
    let metrics = metrics();
    let model = |version| metrics.model("m", version, &ModelOptions::default());
    let mut models: Vec<ModelMetrics> = (0..50).map(model).collect();
    let now = Instant::now();
    let few = metrics.render_at(now);
    models.push(model(50));
    let many = metrics.render_at(now);
    assert_ne!(few, many);
    models.push(model(51));
    assert_eq!(metrics.render_at(now + Duration::from_micros(20_399)), many);
    assert_ne!(metrics.render_at(now + Duration::from_micros(20_400)), many);
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

/// Two GPUs, of which the second has no power sensor.
struct FakeSensors {
    reads: Arc<AtomicI64>,
}

impl Sensors for FakeSensors {
    fn read(&mut self) -> Vec<Reading> {
        let round = self.reads.fetch_add(1, Relaxed) as f64;
        let reading = |uuid: &str, sensor, value| Reading { uuid: uuid.into(), sensor, value };
        vec![
            reading("GPU-a", Sensor::Utilization, Ok(0.25 * round)),
            reading("GPU-a", Sensor::MemoryTotal, Ok(16e9)),
            reading("GPU-a", Sensor::MemoryUsed, Ok(4e9)),
            reading("GPU-a", Sensor::PowerUsage, Ok(71.5)),
            reading("GPU-a", Sensor::PowerLimit, Ok(150.0)),
            reading("GPU-a", Sensor::Energy, Ok(1234.5)),
            reading("GPU-b", Sensor::Utilization, Ok(1.0)),
            reading("GPU-b", Sensor::PowerUsage, Err("not supported".into())),
        ]
    }
}

fn with_gpus() -> (Metrics, Arc<AtomicI64>) {
    let reads = Arc::new(AtomicI64::new(0));
    let sensors = Box::new(FakeSensors { reads: reads.clone() });
    (Metrics::with_gpus(MetricsSettings::default(), Some(sensors)), reads)
}

#[test]
fn gpus_are_shown_under_tritons_names_once_they_were_sampled() {
    let (metrics, _) = with_gpus();
    check(&metrics, "nv_gpu", &[]);
    metrics.sample_gpus();
    metrics.sample_gpus();
    check(
        &metrics,
        "nv_gpu",
        &[
            "nv_gpu_utilization{gpu_uuid=\"GPU-a\"} 0.25",
            "nv_gpu_utilization{gpu_uuid=\"GPU-b\"} 1",
            "nv_gpu_memory_total_bytes{gpu_uuid=\"GPU-a\"} 16000000000",
            "nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-a\"} 4000000000",
            "nv_gpu_power_usage{gpu_uuid=\"GPU-a\"} 71.5",
            "nv_gpu_power_limit{gpu_uuid=\"GPU-a\"} 150",
        ],
    );
    check(&metrics, "nv_energy", &["nv_energy_consumption{gpu_uuid=\"GPU-a\"} 1234.5"]);
    let families = parse(&text(&metrics));
    assert_eq!(families["nv_gpu_utilization"].kind, "gauge");
    assert_eq!(families["nv_energy_consumption"].kind, "counter");
}

#[test]
fn without_gpus_there_are_no_families_of_theirs() {
    let metrics = metrics();
    metrics.sample_gpus();
    assert!(!text(&metrics).contains("nv_gpu") && !text(&metrics).contains("nv_energy"));
}

#[test]
fn the_gpu_of_a_model_is_a_label_in_its_place_in_the_alphabet() {
    let metrics = metrics();
    let options = ModelOptions {
        tags: [("team".to_owned(), "a".to_owned())].into(),
        gpu_uuid: Some("GPU-a".to_owned()),
        ..ModelOptions::default()
    };
    let _model = metrics.model("m", 1, &options);
    check(
        &metrics,
        "nv_inference_count",
        &["nv_inference_count{_team=\"a\",gpu_uuid=\"GPU-a\",model=\"m\",version=\"1\"} 0"],
    );
}

#[test]
fn the_namespace_of_a_model_is_a_label_in_its_place_in_the_alphabet() {
    let metrics = metrics();
    let options = ModelOptions { namespace: Some("/models".to_owned()), ..Default::default() };
    let _model = metrics.model("m", 1, &options);
    let expect = r#"nv_inference_count{model="m",namespace="/models",version="1"} 0"#;
    check(&metrics, "nv_inference_count", &[expect]);
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

#[test]
fn a_series_does_not_fall_while_loads_come_and_go_under_its_readers() {
    let metrics = metrics();
    let keeper = model(&metrics, "m");
    let total = || {
        let line = lines(&metrics, "nv_inference_request_success{").pop().unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    thread::scope(|scope| {
        let loads = scope.spawn(|| {
            for _ in 0..200 {
                model(&metrics, "m").success(ROWS, TOTAL, &timings());
            }
        });
        let mut last = 0;
        while !loads.is_finished() {
            let now = total();
            assert!(last <= now, "{now} after {last}");
            last = now;
        }
    });
    assert_eq!(total(), 200);
    drop(keeper);
}
