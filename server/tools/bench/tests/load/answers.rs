//! Are answers checked, whole and in order? And the command line, from the arguments to the bytes.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use clap::Parser;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use muster_bench::{Check, Method, Request, WrongReply, body_hash, cli, write_histograms};
use serde_json::Value;

use crate::{
    closed,
    server::{Answer, Seen, Server},
};

#[test]
fn every_body_is_checked_against_its_request() {
    let server = Server::start(|seen| match (seen.number, seen.line.as_str()) {
        (7, _) => Answer::ok("wrong"),
        (8, _) => Answer::Plain(503, b"busy".to_vec()),
        (_, "GET /a") => Answer::ok("a"),
        _ => Answer::Chunked(vec!["b", "b"]),
    });
    let mut plan = closed(&server, 1, 20);
    plan.requests = ["/a", "/b"].map(|path| Request::new(Method::Get, path).unwrap()).to_vec();
    plan.check = Check::EveryBody(vec![body_hash(b"a"), body_hash(b"bb")]);
    let report = plan.run().unwrap();
    assert_eq!((report.checked, report.wrong), (19, 1), "{report}");
    assert!(report.warnings.iter().any(|it| it.contains("1 of 19")), "{report}");
}

#[test]
fn the_first_reply_of_each_connection_is_judged() {
    let server = Server::start(|seen| match (seen.connection, seen.number) {
        (_, 10) => Answer::Last("pong"),
        (2, _) => Answer::ok("nonsense"),
        _ => Answer::ok("pong"),
    });
    let mut plan = closed(&server, 3, 60);
    plan.check = Check::FirstReply(Arc::new(|it| it.body == b"pong" && it.status == 200));
    let report = plan.run().unwrap();
    assert_eq!(report.reconnects, 1, "{report}");
    // One of the four may have been the one that was cut short by request 10.
    assert_eq!(report.checked, 4, "{report}");
    assert_eq!(report.wrong, 1, "{report}");
}

#[test]
fn a_sample_of_the_replies_is_judged_whoever_gets_them() {
    let server = Server::start(|seen| {
        std::thread::sleep(Duration::from_millis(1));
        Answer::ok(if seen.number < 100 { "pong" } else { "nonsense" })
    });
    let mut plan = closed(&server, 2, 400);
    plan.check = Check::Sample(Arc::new(|it| match it.body == b"pong" {
        true => Ok(()),
        false => Err(WrongReply::NoAnswer),
    }));
    let report = plan.run().unwrap();
    let periods = report.elapsed.as_millis() as u64 / 20 + 1;
    assert!(report.wrong > 0 && report.wrong < report.checked, "{report}");
    assert!(report.checked <= periods, "{report}");
    // What takes long to judge is judged less often.
    plan.check = Check::Sample(Arc::new(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Ok(())
    }));
    let report = plan.run().unwrap();
    // Both connections may have had a reply on its way that was chosen before the first one was judged.
    let most = 2 * (report.elapsed.as_millis() as u64 / 200 + 1);
    assert!((1..=most).contains(&report.checked), "{report}");
}

#[test]
fn a_large_body_arrives_whole_both_ways() {
    let server = Server::start(|seen| Answer::Plain(200, seen.body.clone()));
    let body: Vec<u8> = (0..5_000_000u32).map(|it| (it % 251) as u8).collect();
    let mut plan = closed(&server, 2, 6);
    plan.check = Check::EveryBody(vec![body_hash(&body)]);
    plan.requests = vec![Request::new(Method::Post, "/x").unwrap().body(body)];
    let report = plan.run().unwrap();
    assert_eq!((report.ok, report.checked, report.wrong), (6, 6, 0), "{report}");
    assert!(report.bytes_received > 6 * 5_000_000, "{report}");
}

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: cli::Args,
}

#[test]
fn the_command_line_asks_for_the_metadata_and_sends_what_they_say() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = bodies.clone();
    let server = Server::start(move |seen: &Seen| {
        kept.lock().unwrap().push((seen.line.clone(), seen.body.clone()));
        match seen.line.as_str() {
            "GET /v2/models/m" => Answer::ok(
                r#"{"name":"m","inputs":[{"name":"x","datatype":"INT32","shape":[-1,4]}]}"#,
            ),
            _ => Answer::ok(r#"{"model_name":"m","outputs":[{"name":"y"}]}"#),
        }
    });
    let url = server.target().to_string();
    let file = std::env::temp_dir().join(format!("loadgen-{}.hlog", std::process::id()));
    let histogram = file.to_str().unwrap();
    let words = [
        ["bench", url.as_str(), "--model", "m", "--shape", "x:2,4", "--format", "kserve-json"],
        ["--data", "zeros", "--requests", "20", "--warm-up", "0", "--histogram", histogram],
    ];
    let mut printed = Vec::new();
    cli::run_to(&Command::parse_from(words.concat()).args, &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("requests    20 in") && printed.contains("200: 20"), "{printed}");
    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies[0].0, "GET /v2/models/m");
    // Each request is sent twice before the load, and here it is always the same.
    assert_eq!(bodies.len(), 1 + 2 + 20);
    let expect =
        r#"{"inputs":[{"name":"x","shape":[2,4],"datatype":"INT32","data":[0,0,0,0,0,0,0,0]}]}"#;
    for (line, body) in &bodies[1..] {
        assert_eq!(line, "POST /v2/models/m/infer");
        assert_eq!(std::str::from_utf8(body).unwrap(), expect);
    }
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
    std::fs::remove_file(&file).unwrap();
}

/// What the command line prints of a load with these words on this server, and whether it was healthy.
fn bench(server: &Server, words: &[&str]) -> (String, bool) {
    let url = server.target().to_string();
    let always = ["bench", &url, "-c", "2", "--warm-up", "0"];
    let args = Command::parse_from(always.iter().chain(words)).args;
    let mut printed = Vec::new();
    let status = cli::run_to(&args, &mut printed).unwrap();
    (String::from_utf8(printed).unwrap(), status == ExitCode::SUCCESS)
}

#[test]
fn replies_to_made_up_tensors_are_compared_with_those_that_they_have_alone() {
    // From request `first` on the server answers something else of the same form.
    let server = |first: u64, alone: &'static str, other: &'static str| {
        Server::start(move |seen| {
            std::thread::sleep(Duration::from_millis(1));
            Answer::ok(if seen.number < first { alone } else { other })
        })
    };
    let load = ["-m", "m", "--input", "x:FP32:1", "--data", "zeros", "-n", "400"];
    let [y, near, other] = [0.5, 0.50001, 0.6].map(|y| {
        format!(r#"{{"outputs":[{{"name":"y","datatype":"FP32","data":[{y}]}}]}}"#).leak()
    });
    let json = |more: &[&'static str]| [&load[..], &["--format", "kserve-json"], more].concat();
    let (printed, healthy) = bench(&server(2, y, other), &json(&[]));
    assert!(!healthy && printed.contains("checked answers are wrong"), "{printed}");
    assert!(printed.contains(
        "first one to body 1: output 'y' differs in 1 of 1 values, first: /data/0 is 0.6 instead of 0.5; \
         --tolerance 0.2 would be enough"
    ), "{printed}");
    assert!(bench(&server(2, y, other), &json(&["--tolerance", "0.2"])).1);
    let (printed, healthy) = bench(&server(2, y, near), &json(&[]));
    assert!(healthy && printed.contains(" answers, 0 wrong"), "{printed}");
    let (printed, healthy) = bench(&server(2, y, other), &json(&["--no-check"]));
    assert!(healthy, "{printed}");
    // What has two answers even alone is checked by its form, on each connection.
    let (printed, healthy) = bench(&server(1, y, other), &json(&[]));
    assert!(healthy && printed.contains("checked     2 answers, 0 wrong"), "{printed}");
    let (printed, healthy) = bench(&server(2, y, "{}"), &json(&[]));
    assert!(!healthy, "{printed}");

    let tfs = |it: f64| format!(r#"{{"predictions":[[{it}]]}}"#).leak();
    let load = [&load[..], &["--format", "tfs-json"]].concat();
    assert!(!bench(&server(2, tfs(0.5), tfs(0.6)), &load).1);
    assert!(bench(&server(2, tfs(0.5), tfs(0.50001)), &load).1);
    assert!(!bench(&server(0, "{}", "{}"), &load).1);
}

#[test]
fn the_command_line_asks_tensorflow_serving_for_a_signature() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let kept = sent.clone();
    let server = Server::start(move |seen: &Seen| {
        kept.lock().unwrap().push((seen.line.clone(), seen.body.clone()));
        match seen.line.as_str() {
            "GET /v1/models/m/metadata" => Answer::ok(
                r#"{"metadata":{"signature_def":{"signature_def":{"two":{"inputs":{
                    "a":{"dtype":"DT_INT32","tensor_shape":{"dim":[{"size":"-1"},{"size":"2"}]}},
                    "b":{"dtype":"DT_BOOL","tensor_shape":{"dim":[{"size":"-1"}]}}}}}}}}"#,
            ),
            _ => Answer::ok(r#"{"predictions":[[1]]}"#),
        }
    });
    let words =
        "-m m --format tfs-json --signature two --data zeros --shape a:2,2 --shape b:2 -n 4";
    let words: Vec<&str> = words.split(' ').collect();
    let (printed, healthy) = bench(&server, &words);
    assert!(healthy && printed.contains("200: 4"), "{printed}");
    let sent = sent.lock().unwrap();
    let expected =
        r#"{"signature_name":"two","instances":[{"a":[0,0],"b":false},{"a":[0,0],"b":false}]}"#;
    for (line, body) in &sent[1..] {
        assert_eq!(line, "POST /v1/models/m:predict");
        assert_eq!(std::str::from_utf8(body).unwrap(), expected);
    }
}

#[test]
fn what_numbers_are_of_stands_beside_them() {
    let server = Server::start(|seen| match seen.line.as_str() {
        "GET /v2" => Answer::ok(r#"{"name":"triton","version":"2.62.0","extensions":[]}"#),
        _ => Answer::ok("{}"),
    });
    let folder = std::env::temp_dir().join(format!("loadgen-stated-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [body, csv, html] = ["body", "csv", "html"].map(|it| folder.join(it));
    std::fs::write(&body, "1,2").unwrap();
    let [body, csv, html] = [&body, &csv, &html].map(|it| it.to_str().unwrap());
    let load = ["--body", body, "--content-type", "text/csv", "-n", "4"];
    let (json, _) =
        bench(&server, &[&load[..], &["--json", "--csv", csv, "--html", html]].concat());
    let stated = &serde_json::from_str::<Value>(&json).unwrap()["stated"];
    let machine = stated["machine"].as_str().unwrap();
    assert!(machine.contains(" processor") && stated["cores"].as_u64() >= Some(1), "{stated}");
    assert_eq!(stated["muster"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&stated["server"]["name"], &stated["server"]["version"]),
        (&"triton".into(), &"2.62.0".into())
    );
    assert_eq!(
        (&stated["payload"], &stated["time_scale"]),
        (&"1 body of 3 bytes (text/csv)".into(), &1.0.into())
    );
    let csv = std::fs::read_to_string(csv).unwrap();
    let mut lines = csv.lines();
    assert!(
        lines.next().unwrap().starts_with("on,cores,muster,server,payload,time_scale,start_s,")
    );
    assert!(
        lines.next().unwrap().contains(",triton 2.62.0,1 body of 3 bytes (text/csv),1,0,"),
        "{csv}"
    );
    assert!(
        std::fs::read_to_string(html)
            .unwrap()
            .contains("Server: triton 2.62.0. Payload: 1 body of 3")
    );
    // A server that says nothing is not named, and nothing else is missing.
    let silent = Server::start(|_| Answer::Plain(404, Vec::new()));
    let (json, _) = bench(&silent, &[&load[..], &["--json"]].concat());
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["stated"]["server"], Value::Null);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What the command line prints of a load of one body on this server, and whether it was healthy.
fn posts(server: &Server, more: &[&str]) -> (String, bool) {
    let file = std::env::temp_dir()
        .join(format!("loadgen-body-{}", server.target().to_string().rsplit(':').next().unwrap()));
    std::fs::write(&file, "1,2").unwrap();
    let (url, body) = (server.target().to_string(), file.to_string_lossy().into_owned());
    let words = ["bench", &url, "--body", &body, "-n", "400", "-c", "2", "--warm-up", "0"];
    let args = Command::parse_from(words.iter().chain(more)).args;
    let mut printed = Vec::new();
    let status = cli::run_to(&args, &mut printed).unwrap();
    std::fs::remove_file(&file).unwrap();
    (String::from_utf8(printed).unwrap(), status == ExitCode::SUCCESS)
}

#[test]
fn replies_to_a_body_are_compared_with_the_one_that_it_has_alone() {
    let server = |wrong: &'static str, first: u64| {
        Server::start(move |seen| {
            std::thread::sleep(Duration::from_millis(1));
            Answer::ok(if seen.number < first { "[0.5]" } else { wrong })
        })
    };
    let (printed, healthy) = posts(&server("[0.6]", 2), &[]);
    assert!(!healthy && printed.contains("checked answers are wrong"), "{printed}");
    let told = "first one to body 1: /0 is 0.6 instead of 0.5; --tolerance 0.2 would be enough";
    assert!(printed.contains(told), "{printed}");
    assert!(posts(&server("[0.6]", 2), &["--tolerance", "0.2"]).1);
    let (printed, healthy) = posts(&server("[0.6]", 100), &["--no-check"]);
    assert!(healthy && !printed.contains("checked"), "{printed}");
    let (printed, healthy) = posts(&server("[0.50001]", 100), &[]);
    assert!(healthy && printed.contains(" answers, 0 wrong"), "{printed}");
    // What differs from the first time to the second is compared with nothing.
    let (printed, healthy) = posts(&server("[0.6]", 1), &[]);
    assert!(healthy, "{printed}");
}

#[test]
fn histograms_are_written_so_that_others_can_read_them() {
    let server = Server::start(|_| Answer::ok("pong"));
    let report = closed(&server, 1, 50).run().unwrap();
    let file = std::env::temp_dir().join(format!("loadgen-two-{}.hlog", std::process::id()));
    write_histograms(&file, &[&report, &report]).unwrap();
    let text = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut found = 0;
    for entry in IntervalLogIterator::new(&text) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            let bytes = base64_decode(interval.encoded_histogram());
            let mut deserializer = hdrhistogram::serialization::Deserializer::new();
            let histogram: hdrhistogram::Histogram<u64> =
                deserializer.deserialize(&mut bytes.as_slice()).unwrap();
            assert_eq!(histogram, report.histogram);
            found += 1;
        }
    }
    assert_eq!(found, 2);
}

/// Standard alphabet, padded.
fn base64_decode(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = alphabet.iter().position(|&it| it == byte).unwrap();
        bits = (bits << 6) | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

#[test]
fn json_names_carry_the_unit() {
    let server = Server::start(|_| Answer::ok("pong"));
    let report = closed(&server, 1, 10).run().unwrap();
    let mut text = Vec::new();
    muster_bench::write_json(&report, &mut text).unwrap();
    let json: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((&json["requests"], &json["ok"]), (&10.into(), &10.into()));
    assert_eq!((&json["rate"], &json["arrivals"]), (&Value::Null, &Value::Null));
    assert_eq!(json["statuses"]["200"], 10);
    let micros = json["latency"]["p50_us"].as_f64().unwrap();
    assert!((micros - report.latency.p50.as_secs_f64() * 1e6).abs() < 1e-3);
    assert!(json["generator"]["cpu_per_request_us"].as_f64().unwrap() > 0.0);
    assert!(json.get("histogram").is_none());
}
