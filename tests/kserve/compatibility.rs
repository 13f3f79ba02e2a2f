//! `docs/reference/triton-compatibility.md` against the code: every endpoint, call, field, option and metric of Triton
//! has one row, which says what the server does with it, and in `compatibility/triton.tests` a test that exists.

mod completed_config;
mod ensemble_config;
mod fields;
mod implicit_state;
mod lists;
mod model_config;
mod sagemaker;
mod shared_sequences;
mod tables;

use std::{collections::BTreeSet, fs, process::Command};

use lists::{ENDPOINTS, FAMILIES, OPTIONS};
use tables::{IGNORED, Row, WORKS};

use crate::support::{Client, Repository, Server, Start, root, row};

const DOCUMENT: &str = "docs/reference/triton-compatibility.md";

/// The test of each row.
const TESTS: &str = "tests/kserve/compatibility/triton.tests";

/// The headings, each above one table.
const HEADINGS: [&str; 6] = [
    "Command line",
    "HTTP endpoints",
    "Metrics",
    "Model configuration",
    "Statistics",
    "gRPC calls",
];

fn table(heading: &str) -> Vec<Row> {
    tables::table(DOCUMENT, heading)
}

#[track_caller]
fn check_complete(heading: &str, expected: impl IntoIterator<Item = String>) {
    tables::check_complete(DOCUMENT, heading, expected);
}

/// `Message.field` of every field of a definition.
fn fields_of(proto: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root(proto)).unwrap();
    let mut blocks: Vec<(&str, &str)> = Vec::new();
    let mut found = BTreeSet::new();
    for line in text.lines().map(|it| it.split("//").next().unwrap_or_default().trim()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [kind @ ("message" | "enum" | "oneof" | "service" | "rpc"), name, ..]
                if line.ends_with('{') =>
            {
                blocks.push((kind, name));
            }
            ["}", ..] => drop(blocks.pop()),
            [.., name, "=", number] if number.trim_end_matches(';').parse::<u32>().is_ok() => {
                // The choices of a `oneof` are fields of the message around it; the names of an enumeration are none.
                match blocks.iter().rev().find(|it| it.0 != "oneof") {
                    Some(("message", message)) => drop(found.insert(format!("{message}.{name}"))),
                    _ => continue,
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn every_row_has_a_test_that_exists() {
    tables::check_rows(DOCUMENT, TESTS, &HEADINGS);
}

#[test]
fn every_call_has_a_row() {
    let files = ["server/proto/grpc_service.proto", "server/proto/health.proto"];
    let text = files.map(|it| fs::read_to_string(root(it)).unwrap()).concat();
    let names = text.lines().filter_map(|it| it.trim().strip_prefix("rpc ")?.split('(').next());
    check_complete("gRPC calls", names.map(|it| it.trim().to_owned()));
}

#[test]
fn every_field_of_a_configuration_has_a_row() {
    let fields = fields_of("server/proto/model_config.proto");
    assert!(fields.contains("ModelConfig.dynamic_batching"), "{fields:?}");
    check_complete("Model configuration", fields);
}

#[test]
fn every_field_of_the_statistics_has_a_row() {
    let messages = [
        "ModelStatistics.",
        "InferStatistics.",
        "InferResponseStatistics.",
        "InferBatchStatistics.",
        "MemoryUsage.",
    ];
    let fields = fields_of("server/proto/grpc_service.proto").into_iter();
    let of_them = fields.filter(|it| messages.iter().any(|message| it.starts_with(message)));
    check_complete("Statistics", of_them);
}

#[test]
fn every_endpoint_is_as_its_row_says() {
    check_complete("HTTP endpoints", ENDPOINTS.iter().map(|it| (*it).to_owned()));
    let repository = Repository::identity("m", &[]);
    let flags = [
        "--model-control-mode=explicit",
        "--load-model=*",
        "--allow-client-shm=true",
        "--allow-vertex-ai=true",
        "--vertex-ai-port=0",
        "--vertex-ai-predict-route=/predict",
        "--vertex-ai-health-route=/health",
    ];
    let server = Server::start(&repository, &flags);
    let handle = "A".repeat(86) + "==";
    let register =
        format!(r#"{{"raw_handle": {{"b64": "{handle}"}}, "device_id": 0, "byte_size": 8}}"#);
    for Row { item, state, .. } in table("HTTP endpoints") {
        let (method, path) = item.split_once(' ').unwrap_or_else(|| panic!("no method: {item}"));
        let service = match path {
            "/metrics" => "metrics",
            _ if path.contains("AIP_") => "vertex-ai",
            _ if path.starts_with("/v2") => "http",
            _ => "sagemaker",
        };
        let body = if path.contains("cuda") { &register } else { "{}" };
        for path in [path.replace(['[', ']'], ""), without_brackets(path)] {
            let path =
                [("{m}", "m"), ("{v}", "1"), ("{r}", "region"), ("{repo}", "x"), ("{hash}", "h")]
                    .iter()
                    .fold(path, |it, (name, value)| it.replace(name, value))
                    .replace("{AIP_HEALTH_ROUTE}", "/health")
                    .replace("{AIP_PREDICT_ROUTE}", "/predict");
            let mut client = Client::connect(server.address(service).unwrap());
            let body = (method == "POST").then_some(body.as_bytes());
            let reply =
                client.request(method, &path, &[("content-type", "application/json")], body);
            let nothing = reply.text().contains("there is nothing at");
            let there = !(nothing || reply.status == 405 || reply.status == 501);
            assert_eq!(there, state == WORKS, "{method} {path}: {} {}", reply.status, reply.text());
        }
        // One of the endpoints unloads the model.
        server.post("/v2/repository/models/m/load", "").expect(200);
    }
}

/// The address without what may be left out.
fn without_brackets(path: &str) -> String {
    match (path.split_once('['), path.split_once(']')) {
        (Some((before, _)), Some((_, after))) => format!("{before}{after}"),
        _ => path.to_owned(),
    }
}

#[test]
fn every_option_has_a_row_and_does_what_it_says() {
    check_complete("Command line", OPTIONS.iter().map(|it| it.0.to_owned()));
    let listed = in_the_help();
    for Row { item, state, .. } in table("Command line") {
        // Another spelling of an option is not in the help.
        let is_listed = listed.contains(&format!("--{item}"))
            || ["model-store", "sagemaker-thread-count"].contains(&&*item);
        assert_eq!(is_listed, state == WORKS, "--{item} and the help");
    }
}

/// The options that the help names.
fn in_the_help() -> BTreeSet<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_muster")).arg("--help-all").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    // A boolean is `--name[=<BOOL>]`.
    let words = help.split_whitespace().filter_map(|it| it.split('[').next());
    words.filter(|it| it.starts_with("--")).map(str::to_owned).collect()
}

/// What a start with these arguments says; nothing where it is well.
fn said(args: &[&str]) -> Result<String, String> {
    let repository = Repository::new();
    let config = Start::new(&repository).flags(args).config()?;
    Ok(format!("{:?}", config.notices))
}

/// The same behind the name of Triton, which has abbreviations.
fn said_by_triton(args: &[&str]) -> Result<String, String> {
    let repository = Repository::new();
    let place = format!("--model-repository={}", repository.at(""));
    let config = Start::command(&["tritonserver"]).flags(&[&place]).flags(args).config()?;
    Ok(format!("{:?}", config.notices))
}

#[test]
fn every_option_is_taken_with_its_default_in_every_spelling() {
    let rows = table("Command line");
    let known = OPTIONS.iter().map(|it| format!("--{}", it.0));
    let names: BTreeSet<String> = known.chain(in_the_help()).collect();
    // These need others beside them.
    let beside = |name: &str| match name {
        "load-model" => &["--model-control-mode=explicit"][..],
        "sagemaker-safe-port-range" => {
            &["--http-port=8100", "--grpc-port=8101", "--metrics-port=8102"]
        }
        _ => &[],
    };
    for (name, value) in OPTIONS {
        let state = &rows.iter().find(|it| it.item == *name).unwrap().state;
        let option = format!("--{name}");
        let spellings = match (*name, *value) {
            ("disable-auto-complete-config", _) => vec![vec![option.clone()]],
            // Files that would have to be there.
            (_, "") => continue,
            (_, value) => {
                let short = &option[..option.len() - 1];
                let is_clear = names.iter().filter(|it| it.starts_with(short)).count() == 1;
                let short = if is_clear { short } else { &option }.to_owned();
                // What is taken without effect is never meant by its beginning.
                if *state != IGNORED {
                    let args = [beside(name), &[&*short, value]].concat();
                    said_by_triton(&args).unwrap_or_else(|error| panic!("{args:?}: {error}"));
                }
                vec![vec![option.clone(), value.to_owned()], vec![format!("{option}={value}")]]
            }
        };
        for spelling in spellings {
            let given = spelling.iter().map(String::as_str);
            let args: Vec<&str> = beside(name).iter().copied().chain(given).collect();
            let said = said(&args).unwrap_or_else(|error| panic!("{args:?}: {error}"));
            assert_eq!(said.contains(&option), *state == IGNORED, "{args:?}: {said}");
        }
        let typo = format!("--{name}x=1");
        let error = said(&[&typo]).expect_err(&typo);
        assert!(error.contains(&option), "{error}");
    }
}

#[test]
fn the_values_of_options_are_those_of_the_server() {
    let repository = Repository::new();
    let flags = [
        "--allow-vertex-ai=false",
        "--http-address=127.0.0.1",
        "--http-port=8100",
        "--grpc-address=127.0.0.2",
        "--grpc-port=8101",
        "--metrics-address=127.0.0.3",
        "--metrics-port=8102",
        "--sagemaker-port=8103",
        "--http-thread-count=3",
        "--model-load-thread-count=5",
        "--metrics-interval-ms=700",
    ];
    let config = Start::new(&repository).flags(&flags).config().unwrap();
    let listeners = config.listeners;
    let ports = [listeners.http, listeners.grpc, listeners.metrics, listeners.sagemaker];
    let ports = ports.map(|it| it.unwrap().to_string());
    assert_eq!(ports, ["127.0.0.1:8100", "127.0.0.2:8101", "127.0.0.3:8102", "127.0.0.1:8103"]);
    assert_eq!(listeners.http_threads.map(usize::from), Some(3));
    assert_eq!(usize::from(config.repository.load_threads), 5);
    assert_eq!(config.metrics.interval.as_millis(), 700);
    let other = Start::new(&repository).flags(&["--sagemaker-thread-count=4"]).config().unwrap();
    assert_eq!(other.listeners.http_threads.map(usize::from), Some(4));
    let off = ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false"];
    let listeners = Start::new(&repository).flags(&off).config().unwrap().listeners;
    assert_eq!((listeners.http, listeners.grpc, listeners.metrics), (None, None, None));
}

#[cfg(unix)]
#[test]
fn the_program_may_be_called_tritonserver() {
    let place = Repository::new();
    let link = place.path().join("tritonserver");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_muster"), &link).unwrap();
    let run = |args: &[&str]| Command::new(&link).args(args).env_clear().output().unwrap();
    assert!(run(&["--help"]).status.success());
    let refused = run(&["--model-repositry=/models", "--http-port=0"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("did you mean --model-repository?"), "{text}");
    // As the first word, where an image's entry point is the program.
    assert!(run(&["tritonserver", "--help"]).status.success());
}

#[test]
fn several_processes_share_a_port_where_that_is_asked_for() {
    let repository = Repository::identity("m", &[]);
    for service in ["http", "grpc"] {
        let reuse = format!("--reuse-{service}-port=true");
        let first = Server::start(&repository, &[&reuse]);
        let port = format!("--{service}-port={}", first.address(service).unwrap().port());
        let second = Server::start(&repository, &[&reuse, &port]);
        assert_eq!(first.address(service), second.address(service));
        let alone = Start::new(&repository).flags(&[&port]);
        let refused = std::panic::catch_unwind(|| alone.launch());
        assert!(refused.is_err(), "a port that is not shared is taken twice");
    }
}

#[test]
fn every_family_is_on_the_page_with_its_type() {
    check_complete("Metrics", FAMILIES.iter().map(|it| it.0.to_owned()));
    let config = "backend: \"identity\" max_batch_size: 8 response_cache { enable: true }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let repository = Repository::new().model("m", config);
    let flags = [
        "--cache-config=local,size=1048576",
        "--metrics-config=summary_latencies=true",
        "--metrics-config=histogram_latencies=true",
    ];
    let server = Server::start(&repository, &flags);
    for _ in 0..2 {
        server.post("/v2/models/m/infer", row(1)).expect(200);
    }
    let page = server.get("/metrics").text();
    for half in ["hit", "miss"] {
        let line =
            format!("nv_cache_{half}_summary_per_model_count{{model=\"m\",version=\"1\"}} 1\n");
        assert!(page.contains(&line), "{line}in {page}");
    }
    for (name, kind) in FAMILIES {
        // There is no GPU to be seen here.
        if name.starts_with("nv_gpu") || name.starts_with("nv_energy") {
            continue;
        }
        let rows = table("Metrics");
        let works = rows.iter().any(|it| it.item == *name && it.state == WORKS);
        let line = format!("# TYPE {name} {kind}\n");
        assert_eq!(page.contains(&line), works, "{line}in {page}");
    }
}
