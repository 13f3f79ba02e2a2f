//! Facts about settings of traces.

use inference::trace::{Collector, TraceConfig, TraceLevels, TraceMode};

use super::*;

fn trace(args: &str, variables: &[&str]) -> TraceConfig {
    config(args, variables).trace
}

#[test]
fn nothing_is_traced_unless_asked_for() {
    let mode = TraceMode::Triton { file: None, log_frequency: 0 };
    let levels = TraceLevels::default();
    assert_eq!(trace("", &[]), TraceConfig { levels, rate: 1000, count: None, mode });
}

#[test]
fn trace_settings_are_tritons_and_its_older_ones_yield() {
    let new = "--trace-config triton,file=/t --trace-config triton,log-frequency=50 --trace-config \
               rate=100 --trace-config level=TIMESTAMPS --trace-config level=TENSORS --trace-config count=7";
    let old = "--trace-file /t --trace-log-frequency 50 --trace-rate 100 --trace-level TIMESTAMPS \
               --trace-level TENSORS --trace-count 7";
    let expect = TraceConfig {
        levels: TraceLevels { timestamps: true, tensors: true },
        rate: 100,
        count: Some(7),
        mode: TraceMode::Triton { file: Some("/t".into()), log_frequency: 50 },
    };
    assert_eq!(trace(new, &[]), expect);
    assert_eq!(trace(old, &[]), expect);
    for oldest in ["MIN", "MAX", "min", "on"] {
        let oldest = old.replace("TIMESTAMPS", oldest);
        assert_eq!(trace(&oldest, &[]), expect);
    }
    let variable = "MUSTER_TRACE_CONFIG=triton,file=/t;triton,log-frequency=50;rate=100;\
                    level=TIMESTAMPS;level=TENSORS;count=7";
    assert_eq!(trace("", &[variable]), expect);
    assert_eq!(trace("--trace-rate 5 --trace-config rate=6 --trace-count -1", &[]).rate, 6);
}

fn collector(args: &str, variables: &[&str]) -> Collector {
    match trace(&format!("--trace-config mode=opentelemetry {args}"), variables).mode {
        TraceMode::OpenTelemetry(collector) => collector,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_collector_is_tritons_by_default_and_the_command_line_beats_the_environment() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let plain = collector("", &[]);
    assert_eq!(
        plain,
        Collector {
            url: "http://localhost:4318/v1/traces".into(),
            host: "localhost".into(),
            port: 4318,
            path: "/v1/traces".into(),
            headers: vec![],
            resource: vec![pair("service.name", "triton-inference-server")],
            max_queue: 2048,
            schedule_delay: Duration::from_secs(5),
            max_batch: 512,
        }
    );
    let variables = [
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:1/",
        "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20b",
        "OTEL_RESOURCE_ATTRIBUTES=service.name=x,zone=a",
        "OTEL_SERVICE_NAME=y",
        "OTEL_BSP_MAX_QUEUE_SIZE=10",
        "OTEL_BSP_SCHEDULE_DELAY=20",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=30",
    ];
    let by_environment = collector("", &variables);
    assert_eq!(by_environment.url, "http://collector:1/v1/traces");
    assert_eq!(by_environment.headers, [pair("api-key", "a b")]);
    assert_eq!(by_environment.resource, [pair("service.name", "y"), pair("zone", "a")]);
    assert_eq!((by_environment.max_queue, by_environment.max_batch), (10, 10));
    let typed = "--trace-config opentelemetry,url=http://h:5/x --trace-config \
                 opentelemetry,resource=service.name=z --trace-config \
                 opentelemetry,bsp_max_queue_size=99 --trace-config \
                 opentelemetry,bsp_schedule_delay=1 --trace-config \
                 opentelemetry,bsp_max_export_batch_size=2";
    let both = collector(typed, &variables);
    assert_eq!((&*both.host, both.port, &*both.path), ("h", 5, "/x"));
    assert_eq!(both.resource, [pair("service.name", "z"), pair("zone", "a")]);
    assert_eq!((both.max_queue, both.max_batch), (99, 2));
    assert_eq!(both.schedule_delay, Duration::from_millis(1));
    // Without the mode these settings have no effect.
    assert!(trace("", &["OTEL_BSP_MAX_QUEUE_SIZE=x"]).mode == trace("", &[]).mode);
}

#[test]
fn wrong_trace_settings_say_what_is_allowed() {
    let refused = |value: &str, part: &str| {
        check_refused(&format!("--trace-config {value}"), &[], &["--trace-config", part]);
    };
    refused("loud", "level=TIMESTAMPS");
    refused("level=LOUD", "OFF, TIMESTAMPS or TENSORS");
    refused("rate=-1", "a whole number from 0 for rate");
    refused("count=-2", "or -1");
    refused("mode=zipkin", "triton or opentelemetry");
    refused("file=/t", "a mode and a comma");
    refused("triton,url=http://x", "triton,file=");
    refused("zipkin,url=http://x", "the mode triton or opentelemetry");
    refused("opentelemetry,url=https://x", "http://<host>");
    refused("opentelemetry,bsp_max_queue_size=0", "from 1");
    refused("level=TIMESTAMPS", "triton,file=<path>");
    check_refused(
        "--trace-config level=TENSORS --trace-config triton,file=/t --trace-config rate=0",
        &[],
        &["from 1"],
    );
    let secret = "OTEL_EXPORTER_OTLP_HEADERS=secret";
    let problems = problems("--trace-config mode=opentelemetry", &[secret]);
    assert!(problems.len() == 1 && !problems[0].contains("secret"), "{problems:?}");
}
