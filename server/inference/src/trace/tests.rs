//! Facts about which requests are traced, what clients can change, and what becomes of traces that are not taken.

use std::{path::PathBuf, sync::mpsc};

use backend::{NamedTensor, Shape, Tensor};

use super::Collector;
use super::{
    file::TraceFiles,
    outlet::Sink as _,
    record::Finished,
    spans::{Now, spans},
    *,
};

/// A sink that hands on what it takes, once it has been let.
struct Fake {
    taken: mpsc::Sender<Finished>,
    gate: Option<mpsc::Receiver<()>>,
}

impl outlet::Sink for Fake {
    fn take(&mut self, trace: Finished) {
        if let Some(gate) = self.gate.take() {
            // Opened, or gone.
            let _ = gate.recv();
        }
        let _ = self.taken.send(trace);
    }

    fn work(&mut self, _: Instant) -> Option<Duration> {
        None
    }

    fn flush(&mut self) {}

    fn lost(&mut self) -> u64 {
        0
    }
}

fn triton() -> TraceMode {
    TraceMode::Triton { file: Some(PathBuf::from("/t")), log_frequency: 0 }
}

fn opentelemetry() -> TraceMode {
    TraceMode::OpenTelemetry(Collector {
        url: "http://localhost".into(),
        host: "localhost".into(),
        port: 80,
        path: "/".into(),
        headers: vec![],
        resource: vec![("a".into(), "b".into())],
        max_queue: 1,
        schedule_delay: Duration::ZERO,
        max_batch: 1,
    })
}

/// Tracing of one request in so many, and what it gives out.
fn tracing(mode: TraceMode, on: bool, rate: u64) -> (Tracing, mpsc::Receiver<Finished>) {
    let (taken, traces) = mpsc::channel();
    let outlet = Outlet::start(Box::new(Fake { taken, gate: None }), 64).unwrap();
    let levels = TraceLevels { timestamps: on, tensors: false };
    let config = TraceConfig { levels, rate, count: None, mode };
    (Tracing::with_outlet(&config, false, Some(outlet)), traces)
}

fn begin(tracing: &Tracing, model: &str) -> Option<Arc<Trace>> {
    tracing.begin(Transport::Http, &model.into(), 1, || None)
}

fn update(
    tracing: &Tracing,
    model: Option<&str>,
    changes: &[(&str, Option<&[&str]>)],
) -> Result<TraceSettings, Error> {
    let texts = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
    let changes = changes.iter().map(|(name, it)| ((*name).to_owned(), it.map(texts))).collect();
    tracing.update(model, changes)
}

fn shown<'a>(settings: &'a TraceSettings, name: &str) -> &'a str {
    let [value] = &settings[name][..] else { panic!("{settings:?}") };
    value
}

#[test]
fn nothing_is_noted_of_a_request_that_is_not_traced() {
    assert!(begin(&Tracing::default(), "m").is_none());
    let (tracing, _) = tracing(opentelemetry(), false, 1);
    let untouched = || -> Option<&str> { panic!("nobody asks for the header") };
    assert!(tracing.begin(Transport::Http, &"m".into(), 1, untouched).is_none());
}

#[test]
fn a_signature_that_is_run_is_named_in_the_file_and_in_the_spans() {
    let attributes = |signature: Option<&str>| {
        let (tracing, traces) = tracing(opentelemetry(), true, 1);
        let trace = begin(&tracing, "m").unwrap();
        if let Some(signature) = signature {
            trace.signed(&signature.into());
        }
        trace.stamp(Moment::ReceiveEnd);
        drop(trace);
        let finished = traces.recv().unwrap();
        let text = format!("{:?}", spans(&finished, &Now::new(), || [1; 8]));
        let path = std::env::temp_dir().join(format!("muster-signed-{}", std::process::id()));
        let mut files = TraceFiles::new(path.clone());
        files.take(finished);
        files.flush();
        let file = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        (text.contains("muster.signature_name"), text.contains("square"), file)
    };
    let (has_key, has_name, file) = attributes(Some("square"));
    assert!(has_key && has_name && file.contains("\"signature_name\":\"square\""), "{file}");
    let (has_key, _, file) = attributes(None);
    assert!(!has_key && !file.contains("signature_name"), "{file}");
}

#[test]
fn a_trace_is_written_when_its_last_holder_is_dropped() {
    let (tracing, traces) = tracing(triton(), true, 1);
    let trace = begin(&tracing, "m").unwrap();
    let (held, sending) = (trace.clone(), trace.sending());
    held.stamp(Moment::ReceiveEnd);
    drop(held);
    tracing.finish(Duration::from_secs(10));
    assert!(traces.try_recv().is_err());
    drop(sending);
    let Finished { sampled, record } = traces.recv().unwrap();
    assert_eq!((sampled.id, sampled.parent_id), (1, None));
    let moments: Vec<Moment> = record.stamps.iter().map(|it| it.0).collect();
    let expect = [Moment::ReceiveStart, Moment::ReceiveEnd, Moment::SendStart, Moment::SendEnd];
    assert_eq!(moments.len(), expect.len());
    assert!(expect.iter().all(|it| moments.contains(it)), "{moments:?}");
}

#[test]
fn clients_turn_tracing_on_and_off_while_requests_come() {
    let (tracing, _traces) = tracing(triton(), false, 1000);
    let on = [("trace_level", Some(&["TIMESTAMPS", "TENSORS"][..])), ("trace_rate", Some(&["1"]))];
    let settings = update(&tracing, None, &on).unwrap();
    assert_eq!(settings, tracing.settings(None));
    assert_eq!(settings["trace_level"], ["TIMESTAMPS", "TENSORS"]);
    let expect = [("trace_rate", "1"), ("trace_count", "-1"), ("log_frequency", "0")];
    for (name, value) in expect.into_iter().chain([("trace_file", "/t"), ("trace_mode", "triton")])
    {
        assert_eq!(shown(&settings, name), value);
    }
    assert!(begin(&tracing, "m").is_some());
    let settings = update(&tracing, None, &[("trace_level", None)]).unwrap();
    assert_eq!(shown(&settings, "trace_level"), "OFF");
    assert!(begin(&tracing, "m").is_none());
}

#[test]
fn a_model_is_traced_by_its_own_settings_until_they_are_taken_back() {
    let (tracing, _traces) = tracing(triton(), false, 1);
    update(&tracing, Some("a"), &[("trace_level", Some(&["TIMESTAMPS"]))]).unwrap();
    assert!(begin(&tracing, "a").is_some() && begin(&tracing, "b").is_none());
    update(&tracing, None, &[("trace_level", Some(&["TENSORS"]))]).unwrap();
    update(&tracing, Some("a"), &[("trace_level", Some(&["OFF"]))]).unwrap();
    assert!(begin(&tracing, "a").is_none() && begin(&tracing, "b").is_some());
    let settings = update(&tracing, Some("a"), &[("trace_level", None)]).unwrap();
    assert_eq!(shown(&settings, "trace_level"), "TENSORS");
    assert!(begin(&tracing, "a").is_some());
}

#[test]
fn the_count_tells_what_is_left_and_goes_on_through_other_changes() {
    let (tracing, _traces) = tracing(triton(), true, 1);
    update(&tracing, None, &[("trace_count", Some(&["3"]))]).unwrap();
    drop(begin(&tracing, "m"));
    let left = || shown(&tracing.settings(None), "trace_count").to_owned();
    assert_eq!(left(), "2");
    update(&tracing, None, &[("log_frequency", Some(&["7"]))]).unwrap();
    assert_eq!(left(), "2");
    update(&tracing, Some("a"), &[("trace_count", Some(&["1"]))]).unwrap();
    drop((begin(&tracing, "a"), begin(&tracing, "a")));
    assert_eq!(shown(&tracing.settings(Some("a")), "trace_count"), "0");
    assert_eq!(left(), "2");
    update(&tracing, None, &[("trace_count", Some(&["3"]))]).unwrap();
    assert_eq!(left(), "3");
    assert_eq!(shown(&tracing.settings(Some("a")), "trace_count"), "0");
}

#[test]
fn settings_of_a_collector_are_shown_and_fixed_and_there_is_no_file() {
    let (tracing, _traces) = tracing(opentelemetry(), false, 0);
    let settings = tracing.settings(None);
    assert_eq!(shown(&settings, "trace_mode"), "opentelemetry");
    assert_eq!(shown(&settings, "url"), "http://localhost");
    assert_eq!(shown(&settings, "resource"), "a=b");
    assert!(!settings.contains_key("trace_file") && !settings.contains_key("log_frequency"));
    for name in ["url", "bsp_schedule_delay", "trace_file"] {
        let error = update(&tracing, None, &[(name, Some(&["x"]))]).unwrap_err();
        assert!(matches!(error, Error::Unimplemented(_)), "{error:?}");
    }
    let error = update(&tracing, None, &[("log_frequency", Some(&["1"]))]).unwrap_err();
    assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
}

#[test]
fn a_part_of_a_request_is_a_trace_inside_its_trace() {
    let (tracing, traces) = tracing(opentelemetry(), true, 1);
    let parent = begin(&tracing, "whole").unwrap();
    let child = tracing.child(&parent, &"part".into(), 3).unwrap();
    let now = Instant::now();
    for trace in [&parent, &child] {
        trace.accepted(now, None, &[]);
        trace.ended(None);
    }
    drop(child);
    drop(parent);
    let (child, parent) = (traces.recv().unwrap(), traces.recv().unwrap());
    assert_eq!(child.sampled.parent_id, Some(parent.sampled.id));
    let mut number = 0;
    let mut spans = |it: &Finished| {
        spans::spans(it, &spans::Now::new(), || {
            number += 1u64;
            number.to_be_bytes()
        })
    };
    let (child, parent) = (spans(&child), spans(&parent));
    let [part] = &child[..] else { panic!("{child:?}") };
    let [_, whole] = &parent[..] else { panic!("{parent:?}") };
    assert_eq!((&*part.name, &*whole.name), ("part", "whole"));
    assert_eq!(part.parent_span_id, whole.span_id);
    assert_eq!(part.trace_id, whole.trace_id);
}

#[test]
fn a_stuck_outlet_keeps_no_request_waiting_and_bounds_what_it_holds() {
    let (taken, traces) = mpsc::channel();
    let (gate, closed) = mpsc::channel();
    let outlet = Outlet::start(Box::new(Fake { taken, gate: Some(closed) }), 4).unwrap();
    let levels = TraceLevels { timestamps: true, tensors: true };
    let config = TraceConfig { levels, rate: 1, count: None, mode: triton() };
    let tracing = Tracing::with_outlet(&config, false, Some(outlet));
    (0..100).for_each(|_| drop(begin(&tracing, "m")));
    // Reached at all: no thread waited. One is in the sink, four in the queue.
    drop(gate);
    tracing.finish(Duration::from_secs(10));
    let written = traces.try_iter().count();
    assert!((4..=5).contains(&written), "{written}");
    let tensor = Tensor::from_vec(Shape::new(&[65 << 18]), vec![0f32; 65 << 18]).unwrap();
    let trace = begin(&tracing, "m").unwrap();
    trace.accepted(Instant::now(), None, &[NamedTensor { name: "x".into(), tensor }]);
    drop(trace);
    tracing.finish(Duration::from_secs(10));
    assert_eq!(traces.try_iter().count(), 0, "too many bytes of tensors");
}
