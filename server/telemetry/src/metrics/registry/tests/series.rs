//! Which series there are, and that their counts hold whatever goes on beside.

use backend::{Device, DeviceProcess, EndReason, ModelProcess, Outage, ProcessFigures, Processes};

use super::*;
use crate::metrics::Rerun;

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

#[test]
fn the_namespace_of_a_model_is_a_label_in_its_place_in_the_alphabet() {
    let metrics = metrics();
    let options = ModelOptions { namespace: Some("/models".to_owned()), ..Default::default() };
    let _model = metrics.model("m", 1, &options);
    let expect = r#"nv_inference_count{model="m",namespace="/models",version="1"} 0"#;
    check(&metrics, "nv_inference_count", &[expect]);
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

/// A process of which so many have ended by a signal, and that may serve.
struct Worker {
    pid: Option<u32>,
    restarts: u64,
}

impl ModelProcess for Worker {
    fn figures(&self) -> ProcessFigures {
        let mut figures = ProcessFigures {
            pid: self.pid,
            private_bytes: 1000,
            arena_bytes: 24,
            cpu_time: Duration::from_millis(1500),
            dropped_lines: 3,
            ..ProcessFigures::default()
        };
        figures.restarts[EndReason::Signal as usize] = self.restarts;
        figures.starts.observe(Duration::from_millis(15));
        figures.turn_overheads.observe(Duration::from_micros(7));
        figures
    }

    fn outage(&self) -> Option<Outage> {
        None
    }
}

fn on(device: Device, worker: Worker) -> DeviceProcess {
    DeviceProcess { device, process: Arc::new(worker) }
}

fn on_one(worker: Worker) -> Processes {
    [on(Device::Cpu, worker)].into_iter().collect()
}

#[test]
fn each_device_of_a_model_on_several_has_a_series_of_its_own() {
    let metrics = metrics();
    let before = model(&metrics, "m");
    before.has_processes(on_one(Worker { pid: Some(5), restarts: 4 }));
    let now = model(&metrics, "m");
    drop(before);
    let gpu = on(Device::Gpu(1), Worker { pid: Some(7), restarts: 2 });
    let cpu = on(Device::Cpu, Worker { pid: None, restarts: 1 });
    now.has_processes([gpu, cpu].into_iter().collect());
    now.reruns(Rerun::Ok, 3);
    let [cpu, gpu] = ["device=\"cpu\",", "device=\"gpu:1\","];
    let series = |family: &str, device: &str, value: u64| {
        format!("muster_worker_{family}{{{device}model=\"m\",version=\"1\"}} {value}")
    };
    // What is only of the load before has no process any more.
    for (family, of_cpu, of_gpu) in [("up", 0, 1), ("pid", 0, 7)] {
        let expected = [series(family, cpu, of_cpu), series(family, gpu, of_gpu)];
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&metrics, &format!("muster_worker_{family}{{"), &expected);
    }
    let restarts = lines(&metrics, "muster_worker_restarts_total{");
    let signals: Vec<&String> = restarts.iter().filter(|it| it.contains("\"signal\"")).collect();
    let counted = |device: &str, value: u64| {
        let labels = format!("{device}model=\"m\",reason=\"signal\",version=\"1\"");
        format!("muster_worker_restarts_total{{{labels}}} {value}")
    };
    assert_eq!(signals, [&counted("", 4), &counted(cpu, 1), &counted(gpu, 2)]);
    let reruns = lines(&metrics, "muster_worker_rerun_total{");
    assert_eq!(reruns[0], r#"muster_worker_rerun_total{model="m",outcome="ok",version="1"} 3"#);
    let memory: u64 = now.statistics().memory.iter().map(|it| it.bytes).sum();
    assert_eq!((memory, now.statistics().memory.len()), (2 * 1024, 1));
    drop(now);
    check(&metrics, "muster_worker_up{", &[]);
}

#[test]
fn processes_of_models_are_shown_and_what_they_have_done_outlives_a_reload() {
    let metrics = metrics();
    let inside = model(&metrics, "inside");
    check(&metrics, "muster_worker_", &[]);
    let old = model(&metrics, "m");
    old.has_processes(on_one(Worker { pid: Some(7), restarts: 2 }));
    old.reruns(Rerun::Ok, 3);
    let new = model(&metrics, "m");
    new.has_processes(on_one(Worker { pid: Some(9), restarts: 1 }));
    let labels = r#"model="m",version="1""#;
    let shown = |name: &str, value: &str| {
        let name = format!("muster_worker_{name}");
        check(&metrics, &name, &[&format!("{name}{{{labels}}} {value}")]);
    };
    shown("up", "2");
    shown("pid", "9");
    let memory = |it: &ModelMetrics| it.statistics().memory.iter().map(|it| it.bytes).sum();
    let memory: [u64; 2] = [memory(&old), memory(&inside)];
    assert_eq!(memory, [1024, 0]);
    drop(old);
    shown("up", "1");
    shown("pid", "9");
    shown("cpu_seconds_total", "3");
    check(
        &metrics,
        "muster_worker_memory_bytes{",
        &[
            r#"muster_worker_memory_bytes{kind="private",model="m",version="1"} 1000"#,
            r#"muster_worker_memory_bytes{kind="arena",model="m",version="1"} 24"#,
        ],
    );
    let restarts = lines(&metrics, "muster_worker_restarts_total{");
    let signal = r#"muster_worker_restarts_total{model="m",reason="signal",version="1"} 3"#;
    assert_eq!((restarts.len(), restarts[0].as_str()), (EndReason::ALL.len(), signal));
    let reruns = lines(&metrics, "muster_worker_rerun_total{");
    assert_eq!(reruns[0], r#"muster_worker_rerun_total{model="m",outcome="ok",version="1"} 3"#);
    assert_eq!(reruns.len(), 4);
    let starts = lines(&metrics, "muster_worker_start_seconds");
    let of = |end: &str| starts.iter().any(|it| it.ends_with(end));
    assert!(
        of(r#"le="0.01"} 0"#)
            && of(r#"le="0.02"} 2"#)
            && of("_sum{model=\"m\",version=\"1\"} 0.03")
    );
    let turns = lines(&metrics, "muster_worker_turn_overhead_us");
    let of = |end: &str| turns.iter().any(|it| it.ends_with(end));
    assert!(of(r#"le="5"} 0"#) && of(r#"le="10"} 2"#) && of("_sum{model=\"m\",version=\"1\"} 14"));
    let dropped = r#"muster_worker_log_dropped_total{model="m",unit="lines",version="1"} 6"#;
    check(&metrics, "muster_worker_log_dropped_total{", &[dropped]);
}
