//! Events in, lines out; and a sink that does not take any.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use super::log_settings::LogFormat;
use super::*;

/// A sink that can be looked at.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn config(format: LogFormat) -> LogSettings {
    LogSettings {
        verbose: 0,
        info: true,
        warning: true,
        error: true,
        format,
        requests: false,
        file: None,
    }
}

/// What is written to output and errors while `events` run.
fn logged(config: &LogSettings, events: impl FnOnce()) -> (String, String) {
    logged_to(config, Looks::default(), events)
}

/// The same at places that look so.
fn logged_to(config: &LogSettings, looks: Looks, events: impl FnOnce()) -> (String, String) {
    let (output, errors) = (Shared::default(), Shared::default());
    let place = |it: &Shared| Output { looks, ..it.clone().into() };
    let (subscriber, guard) = subscriber(config, place(&output), Some(place(&errors))).unwrap();
    tracing::subscriber::with_default(subscriber, events);
    drop(guard);
    (output.text(), errors.text())
}

/// The line without its time, which must look like one.
#[track_caller]
fn without_time(line: &str) -> &str {
    let (time, rest) = line.split_at(27);
    let digits = time.bytes().filter(u8::is_ascii_digit).count();
    assert!(digits == 20 && time.ends_with('Z') && time.contains('T'), "{time}");
    rest
}

#[test]
fn a_line_of_text_has_time_level_message_and_fields() {
    let (output, errors) = logged(&config(LogFormat::Text), || {
        tracing::info!(model = "a b", version = 3, ready = true, path = %"/x", "model loaded");
    });
    assert_eq!(
        without_time(&output),
        " INFO  model loaded model=\"a b\" version=3 ready=true path=/x\n"
    );
    assert_eq!(errors, "");
}

#[test]
fn a_line_of_json_is_an_object() {
    let (output, _) = logged(&config(LogFormat::Json), || {
        tracing::info!(model = "a\"b", version = 3u64, share = 0.5, odd = f64::NAN, "loaded \\ ok");
    });
    let rest = output.strip_prefix("{\"time\":\"").unwrap();
    assert_eq!(
        without_time(rest),
        "\",\"level\":\"INFO\",\"message\":\"loaded \\\\ ok\",\"model\":\"a\\\"b\",\"version\":3,\
         \"share\":0.5,\"odd\":\"NaN\"}\n"
    );
}

/// The line of one of Triton's formats, taken apart: its head up to the process, and the message.
#[track_caller]
fn triton_line(format: LogFormat, event: impl FnOnce()) -> (String, serde_json::Value) {
    let (output, errors) = logged(&config(format), event);
    let line = output + &errors;
    let (head, message) = line.split_once("] ").unwrap();
    let pid = std::process::id().to_string();
    let (time, place) = head.split_once(&format!(" {pid} tests.rs:")).unwrap();
    assert!(place.bytes().all(|it| it.is_ascii_digit()), "{line}");
    (time.to_owned(), serde_json::from_str(message).unwrap())
}

#[test]
fn tritons_formats_are_what_its_readers_parse() {
    let (head, message) = triton_line(LogFormat::Default, || tracing::info!("model \"m\"\nloaded"));
    let digits = head.replace(|it: char| it.is_ascii_digit(), "0");
    assert_eq!(digits, "I0000 00:00:00.000000");
    assert_eq!(message, "model \"m\"\nloaded");
    let (head, message) = triton_line(LogFormat::Iso8601, || {
        tracing::warn!(model = "a \"b\"", version = 3, path = %"/x", "odd");
    });
    let digits = head.replace(|it: char| it.is_ascii_digit(), "0");
    assert_eq!(digits, "0000-00-00T00:00:00Z W");
    assert_eq!(message, r#"odd model="a \"b\"" version=3 path=/x"#);
    let (head, _) = triton_line(LogFormat::Default, || tracing::error!("gone"));
    assert!(head.starts_with('E'), "{head}");
}

#[test]
fn settings_can_be_changed_while_lines_are_logged() {
    let (output, errors) = (Shared::default(), Shared::default());
    let quiet = config(LogFormat::Text);
    let (subscriber, guard) =
        subscriber(&quiet, output.clone().into(), Some(errors.clone().into())).unwrap();
    let control = guard.control();
    let set = |name: &str, value| control.update(&[(name.to_owned(), value)]);
    tracing::subscriber::with_default(subscriber, || {
        let events = |round: u32| {
            tracing::debug!(round, "debug");
            tracing::info!(round, "info");
            tracing::warn!(round, "warning");
            tracing::error!(round, "error");
        };
        events(1);
        set("log_verbose_level", LogValue::Number(1)).unwrap();
        set("log_warning", LogValue::Bool(false)).unwrap();
        set("log_format", LogValue::Text("json".into())).unwrap();
        events(2);
        set("log_verbose_level", LogValue::Number(0)).unwrap();
        set("log_info", LogValue::Bool(false)).unwrap();
        set("log_error", LogValue::Bool(false)).unwrap();
        events(3);
    });
    drop(guard);
    let (output, errors) = (output.text(), errors.text());
    let lines: Vec<&str> = output.lines().chain(errors.lines()).collect();
    assert_eq!(lines.len(), 3 + 3, "{lines:#?}");
    assert!(!output.contains("round=2") && output.contains(r#""message":"debug","round":2"#));
    assert!(!output.contains("\"round\":3") && !errors.contains("\"round\":3"));
}

#[test]
fn a_change_is_made_whole_or_not_at_all_and_says_what_is_wrong() {
    let control = LogControl::new(&config(LogFormat::Text));
    let before = control.settings();
    let names: Vec<&str> = before.iter().map(|it| it.0).collect();
    let expect =
        ["log_file", "log_info", "log_warning", "log_error", "log_verbose_level", "log_format"];
    assert_eq!(names, expect);
    let text = |it: &str| LogValue::Text(it.to_owned());
    for (name, value, parts) in [
        ("log_info", text("true"), ["true or false", "the text 'true'"]),
        ("log_verbose_level", LogValue::Bool(true), ["whole number", "a boolean true"]),
        ("log_format", text("xml"), ["ISO8601", "'xml'"]),
        ("log_format", LogValue::Number(1), ["ISO8601", "a number 1"]),
        ("log_warnings", LogValue::Bool(true), ["'log_warnings'", "log_warning?"]),
    ] {
        let good = ("log_error".to_owned(), LogValue::Bool(false));
        let error = control.update(&[good, (name.to_owned(), value)]).unwrap_err();
        let LogChangeError::Invalid(problem) = &error else { panic!("{error:?}") };
        assert!(parts.iter().all(|it| problem.contains(it)), "{problem}");
    }
    let error = control.update(&[("log_file".to_owned(), text("/tmp/x"))]).unwrap_err();
    assert!(matches!(error, LogChangeError::Fixed(_)), "{error:?}");
    assert_eq!(control.settings(), before);
    control.update(&[("log_format".to_owned(), text("iso8601"))]).unwrap();
    assert_eq!(control.settings()[5], ("log_format", text("ISO8601")));
}

#[test]
fn warnings_and_errors_go_to_standard_error() {
    let (output, errors) = logged(&config(LogFormat::Text), || {
        tracing::info!("one");
        tracing::warn!("two");
        tracing::error!("three");
    });
    assert!(output.ends_with("INFO  one\n") && output.lines().count() == 1, "{output}");
    assert!(errors.contains("WARN  two\n") && errors.ends_with("ERROR three\n"), "{errors}");
}

#[test]
fn a_client_can_forge_no_line() {
    for format in LogFormat::ALL {
        let name = format!("x\r\n2026 ERROR hacked\u{1b}[2J{}", "y".repeat(1 << 20));
        let (output, _) = logged(&config(format), || {
            tracing::info!(name, debug = ?name, "no model {name}");
        });
        assert_eq!(output.matches('\n').count(), 1, "{format:?}");
        assert!(!output.contains(['\r', '\u{1b}']), "{format:?}");
        assert!(output.len() < 6000, "{} bytes", output.len());
    }
}

#[test]
fn too_many_fields_are_left_out_and_the_line_says_so() {
    let long = "z".repeat(500);
    let fields = || {
        for _ in 0..1 {
            tracing::info!(
                a = long,
                b = long,
                c = long,
                d = long,
                e = long,
                f = long,
                g = long,
                h = long,
                i = long,
                j = long,
                k = long,
                l = long,
                m = long,
                n = long,
                o = long,
                p = long,
                q = long,
                r = long,
                "many"
            );
        }
    };
    let (output, _) = logged(&config(LogFormat::Json), fields);
    assert!(output.ends_with(",\"cut\":true}\n"), "{}", &output[output.len() - 40..]);
    assert!(output.contains("\"p\":") && !output.contains("\"r\":"));
}

#[test]
fn each_level_has_its_switch() {
    let quiet = LogSettings { info: false, warning: false, ..config(LogFormat::Text) };
    let events = || {
        tracing::info!("one");
        tracing::warn!("two");
        tracing::error!("three");
        tracing::debug!("four");
        tracing::trace!("five");
    };
    let (output, errors) = logged(&quiet, events);
    assert_eq!((output.as_str(), errors.lines().count()), ("", 1));
    for (verbose, lines) in [(0, 1), (1, 2), (2, 3)] {
        let (output, _) = logged(&LogSettings { verbose, ..config(LogFormat::Text) }, events);
        assert_eq!(output.lines().count(), lines, "{verbose}: {output}");
    }
}

#[test]
fn libraries_are_a_step_quieter() {
    let filter = |verbose| {
        Filter(LogControl::new(&LogSettings { verbose, ..config(LogFormat::Text) }).shared())
    };
    assert!(!filter(0).wants(Level::INFO, "ort::session"));
    assert!(filter(0).wants(Level::WARN, "ort::session"));
    assert!(filter(0).wants(Level::INFO, "muster::app"));
    assert!(filter(1).wants(Level::DEBUG, "muster::app"));
    assert!(!filter(1).wants(Level::DEBUG, "hyper::proto"));
    assert!(filter(2).wants(Level::DEBUG, "hyper::proto"));
    assert!(!filter(2).wants(Level::TRACE, "hyper::proto"));
    assert!(filter(3).wants(Level::TRACE, "hyper::proto"));
}

/// A sink that takes nothing until it is told to, then everything.
struct Stuck {
    release: mpsc::Receiver<()>,
    taken: Shared,
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The other end gone is as good as a release.
        let _ = self.release.recv();
        self.taken.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_log_reader_that_stops_blocks_no_thread_and_gets_the_count_of_dropped_lines() {
    let (release, stuck) = mpsc::channel();
    let taken = Shared::default();
    let sink = Stuck { release: stuck, taken: taken.clone() };
    let errors = Shared::default();
    let (subscriber, guard) =
        subscriber(&config(LogFormat::Text), sink.into(), Some(errors.clone().into())).unwrap();
    let lines = 100_000;
    tracing::subscriber::with_default(subscriber, || {
        for number in 0..lines {
            tracing::info!(number, "line");
        }
        tracing::warn!("still heard");
    });
    // Reached at all: no thread waited for the sink. Standard error has a thread of its own.
    let until = Instant::now() + Duration::from_secs(10);
    while !errors.text().contains("still heard") {
        assert!(Instant::now() < until, "a stuck output must not hold up the errors");
        std::thread::yield_now();
    }
    drop(release);
    drop(guard);
    let text = taken.text();
    let written = text.lines().filter(|it| it.contains(" line number=")).count();
    let dropped: usize = text
        .lines()
        .filter_map(|it| it.split_once(" WARN  ")?.1.strip_suffix("they were read"))
        .filter_map(|it| it.split(' ').next()?.parse::<usize>().ok())
        .sum();
    assert!(dropped > 0, "the queue has a bound");
    assert_eq!(written + dropped, lines);
}

#[test]
fn the_end_does_not_wait_long_for_a_log_reader_that_is_gone() {
    let (_release, stuck) = mpsc::channel();
    let sink = Stuck { release: stuck, taken: Shared::default() };
    let (subscriber, guard) = subscriber(&config(LogFormat::Text), sink.into(), None).unwrap();
    tracing::subscriber::with_default(subscriber, || tracing::info!("line"));
    let start = Instant::now();
    drop(guard);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let file = Some("/nonexistent/folder/log".into());
    let error =
        start(&LogSettings { file, ..config(LogFormat::Text) }, true).err().unwrap().to_string();
    assert!(error.contains("--log-file '/nonexistent/folder/log'"), "{error}");
}

#[test]
fn levels_have_colours_on_a_terminal_alone() {
    let events = || {
        tracing::info!("good");
        tracing::error!("bad");
    };
    let looks = Looks { is_terminal: true, colours: true };
    let (output, errors) = logged_to(&config(LogFormat::Text), looks, events);
    assert!(output.contains(" \x1b[32mINFO \x1b[0m good\n"), "{output:?}");
    assert!(errors.contains(" \x1b[31mERROR\x1b[0m bad\n"), "{errors:?}");
    let plain = Looks { is_terminal: true, colours: false };
    for (format, looks) in [(LogFormat::Text, plain), (LogFormat::Json, looks)] {
        let (output, errors) = logged_to(&config(format), looks, events);
        assert!(!output.contains('\x1b') && !errors.contains('\x1b'), "{output:?} {errors:?}");
    }
}

#[test]
fn progress_is_one_line_of_a_terminal_and_of_nothing_else() {
    let events = || {
        progress("loading 1 of 2: a");
        tracing::info!("a is there");
        progress("loading 2 of 2: b\n");
        progress("");
        tracing::info!("all are there");
    };
    let looks = Looks { is_terminal: true, colours: false };
    let (output, _) = logged_to(&config(LogFormat::Text), looks, events);
    let parts: Vec<&str> = output.split("\r\x1b[K").collect();
    let [before, first, line, other, rest] = &parts[..] else { panic!("{output:?}") };
    assert_eq!((*before, *first, *other), ("", "loading 1 of 2: a", "loading 2 of 2: b\\n"));
    assert!(line.ends_with(" INFO  a is there\n"), "{output:?}");
    assert!(rest.ends_with(" INFO  all are there\n"), "{output:?}");
    for (format, looks) in [(LogFormat::Text, Looks::default()), (LogFormat::Json, looks)] {
        let (output, _) = logged_to(&config(format), looks, events);
        assert!(!output.contains("loading") && output.lines().count() == 2, "{output:?}");
    }
}
