//! What a command line becomes, and what is wrong with one.

use super::*;
use crate::{Arrivals, Check, Load, Phase, Request, Stairs, Traffic};
use clap::Parser;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &str) -> Result<Args, String> {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    Command::try_parse_from(words).map(|it| it.args).map_err(|it| it.to_string())
}

#[test]
fn a_line_becomes_a_plan() {
    let line = "http://h:1 -m m --input x:FP32:1,4 --input a:b:INT64: -c 8 --rate 50 \
                --arrivals constant --duration 2.5 --warm-up 0 --deadline-ms 20";
    let args = parse(line).unwrap();
    let plan = args.plan(&args.url, None).unwrap();
    assert_eq!(plan.connections, 8);
    assert_eq!(plan.load, Load::Open { rate: 50.0, arrivals: Arrivals::Constant });
    assert_eq!(plan.duration, Some(Duration::from_millis(2500)));
    assert_eq!(plan.deadline, Some(Duration::from_millis(20)));
    assert_eq!(plan.requests[0].path(), "/v2/models/m/infer");
    assert!(matches!(plan.check, Check::FirstReply(_)));
}

#[test]
fn users_come_as_the_arguments_say() {
    let load = |line: &str| {
        let args = parse(&format!("http://h/x {line}")).unwrap();
        args.plan(&args.url, None).map(|it| it.load).map_err(|it| it.to_string())
    };
    let seconds = Duration::from_secs;
    let phase = |initial_users, spawn_rate, length| Phase {
        initial_users,
        spawn_rate,
        duration: seconds(length),
    };
    let phases = Traffic::Phases(vec![phase(2, 8.0, 30), phase(6, 24.0, 30)]);
    assert_eq!(load("--phases 2:2:120,6:6:120 --time-scale 4"), Ok(Load::Users(phases)));
    let stairs = Stairs { users_per_step: 2, steps: 5, duration: seconds(60) };
    assert_eq!(load("--stairs 2:5:60"), Ok(Load::Users(Traffic::Stairs(stairs))));
    let ramp = Traffic::Phases(vec![phase(1, 60.0, 4), phase(5, 0.0, 20)]);
    assert_eq!(load("--users 5 --ramp 4 -d 20"), Ok(Load::Users(ramp)));
    let flat = Traffic::Phases(vec![phase(5, 0.0, 10)]);
    assert_eq!(load("--users 5"), Ok(Load::Users(flat)));
    assert!(load("--time-scale 2").unwrap_err().contains("--phases"));
}

#[test]
fn headers_are_those_of_each_request() {
    let words = ["bench", "http://h", "-m", "m", "--input", "x:FP32:1"];
    let more = ["--header", "Authorization: Bearer a:b", "--header", "X-Target: m.tar.gz"];
    let command = Command::try_parse_from(words.into_iter().chain(more)).unwrap();
    let plan = command.args.plan(&command.args.url, None).unwrap();
    let text = String::from_utf8_lossy(&plan.requests[0].encode("h")).into_owned();
    for line in ["Authorization: Bearer a:b\r\n", "X-Target: m.tar.gz\r\n"] {
        assert!(text.contains(line), "{text}");
    }
    let args = parse("http://h/x --header Host:h").unwrap();
    let problem = args.plan(&args.url, None).unwrap_err().to_string();
    assert!(problem.contains("Host"), "{problem}");
}

#[test]
fn inputs_have_the_values_of_their_names() {
    let line = "http://h -m m --format kserve-json --input input_ids:INT64:1,3 \
                --input attention_mask:INT64:1,3 --input token_type_ids:INT64:1,3 --input t:BYTES:1";
    let body = |more: &str| {
        let args = parse(&format!("{line} {more}")).unwrap();
        let plan = args.plan(&args.url, None).map_err(|it| it.to_string())?;
        Ok::<_, String>(String::from_utf8(plan.requests[0].encode("h")).unwrap())
    };
    let usual = body("").unwrap();
    // Others follow; where nothing is random, none does.
    let sent = |more: &str| {
        let args = parse(&format!("{line} {more}")).unwrap();
        let requests = args.plan(&args.url, None).unwrap().requests;
        let mut bodies: Vec<_> = requests.iter().map(|it| it.encode("h")).collect();
        bodies.sort();
        bodies.dedup();
        (requests.len(), bodies.len())
    };
    assert_eq!((sent(""), sent("--seed 7"), sent("--data zeros")), ((16, 16), (16, 16), (1, 1)));
    assert!(usual.contains(r#""data":[1,1,1]"#) && usual.contains(r#""data":[0,0,0]"#));
    let given = body("--value attention_mask=0 --value t=hello --value input_ids=7..7").unwrap();
    assert!(given.contains(r#""data":[7,7,7]"#) && given.contains(r#""data":["hello"]"#));
    assert!(!given.contains(r#""data":[1,1,1]"#));
    assert!(body("--value ids=1").unwrap_err().contains("'ids'; expected one of input_ids"));
}

#[test]
fn a_number_of_requests_replaces_the_default_duration() {
    let plan = |line: &str| {
        let args = parse(line).unwrap();
        args.plan(&args.url, None).unwrap()
    };
    assert_eq!(plan("http://h/x").duration, Some(Duration::from_secs(10)));
    assert_eq!(plan("http://h/x -n 5").duration, None);
    assert_eq!(plan("http://h/x -n 5 -d 3s").duration, Some(Duration::from_secs(3)));
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_was_expected() {
    for (line, expected) in [
        ("", "URL"),
        ("h:80", "http://"),
        ("http://h --input x:FP99:1", "FP32"),
        ("http://h --input x:FP32", "NAME:DATATYPE:DIMS"),
        ("http://h --input x:FP32:1x3", "1,30"),
        ("http://h --duration soon", "seconds"),
        ("http://h --header nothing", "NAME: VALUE"),
        ("http://h --arrivals constant", "--rate"),
        ("http://h --vs-pid 7", "--vs"),
        ("http://h --vs http://i --most-steal 101", "0 to 100"),
        ("http://h --body f --input x:FP32:1", "--body"),
        ("http://h --body f --texts g", "--texts"),
        ("http://h --bodies f --body g", "--body"),
        ("http://h --content-type text/csv", "--body"),
        ("http://h --phases 2:2", "USERS:RATE:SECONDS"),
        ("http://h --stairs 1:2:3:4", "USERS:STEPS:SECONDS"),
        ("http://h --users 5 --rate 2", "--rate"),
        ("http://h --p99 50ms", "--find-limit"),
        ("http://h --find-limit --p99 fast", "50ms"),
        ("http://h --value x", "NAME=VALUE"),
        ("http://h --value x=5..1", "no range"),
    ] {
        let error = parse(line).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn the_path_of_the_url_replaces_that_of_the_format() {
    let args = parse("http://h/behind/a/proxy -m m --input x:FP32:1").unwrap();
    let plan = args.plan(&args.url, None).unwrap();
    assert_eq!(plan.requests[0].path(), "/behind/a/proxy");
    assert!(matches!(plan.check, Check::FirstReply(_)));
}

#[test]
fn each_text_is_a_request() {
    let file = std::env::temp_dir().join(format!("muster-lines-{}", std::process::id()));
    std::fs::write(&file, "one\ntwo\n").unwrap();
    for (line, path) in
        [("http://h", "/embed"), ("http://h/v2/models/m/embed", "/v2/models/m/embed")]
    {
        let args = parse(&format!("{line} --format tei-embed --texts {}", file.display()));
        let args = args.unwrap();
        let plan = args.plan(&args.url, None).unwrap();
        let paths: Vec<_> = plan.requests.iter().map(Request::path).collect();
        assert_eq!(paths, [path, path]);
        assert!(matches!(plan.check, Check::FirstReply(_)));
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn each_line_of_a_file_and_each_file_of_a_directory_is_a_body() {
    let folder = std::env::temp_dir().join(format!("muster-bodies-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("each")).unwrap();
    let lines = folder.join("bodies.csv");
    std::fs::write(&lines, "1,2\r\n\n3,4").unwrap();
    std::fs::write(folder.join("each/b"), "5,6\n").unwrap();
    std::fs::write(folder.join("each/a"), "7,8\n").unwrap();
    let sent = |bodies: &std::path::Path, more: &str| {
        let line = format!("http://h --bodies {} {more}", bodies.display());
        let args = parse(&line).unwrap();
        let plan = args.plan(&args.url, None).unwrap();
        let requests = plan.requests.iter();
        let text = |it: &Request| String::from_utf8(it.encode("h")).unwrap();
        requests.map(text).collect::<Vec<String>>()
    };
    let csv = sent(&lines, "--content-type text/csv");
    assert!(csv[0].starts_with("POST /invocations ") && csv[0].contains(": text/csv\r\n"));
    let ends = |of: &[String]| {
        of.iter().map(|it| it.split("\r\n\r\n").nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ends(&csv), ["1,2", "3,4"]);
    let each = sent(&folder.join("each"), "-m m");
    assert!(each[0].starts_with("POST /v2/models/m/infer "), "{}", each[0]);
    assert_eq!(ends(&each), ["7,8\n", "5,6\n"]);
    std::fs::write(&lines, "\n").unwrap();
    let args = parse(&format!("http://h --bodies {}", lines.display())).unwrap();
    let error = args.plan(&args.url, None).unwrap_err().to_string();
    assert!(error.contains("expected a body"), "{error}");
    let args = parse(&format!("http://h --format image --bodies {}", lines.display())).unwrap();
    assert!(args.plan(&args.url, None).unwrap_err().to_string().contains("--files"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_request_needs_something_to_send() {
    for (line, expected) in [
        ("http://h", "--model"),
        ("http://h --format invocations", "--body"),
        ("http://h --format tei-embed", "--texts"),
        ("http://h -m m --texts f", "--format openai-embeddings"),
        ("http://h --format image", "--files"),
        ("http://h -m m --files f", "--format image"),
    ] {
        let args = parse(line).unwrap();
        let error = args.plan(&args.url, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
