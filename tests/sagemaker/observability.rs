//! What tells of invocations where nobody scrapes: lines of metrics on standard output, and captured data.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::support::{Client, Process, Repository, Server, wait_for};

const CSV: &str = "text/csv";

/// Every line of every file below a folder, as JSON, and the folders' names.
fn captured(dir: &Path) -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            found.extend(text.lines().map(|it| (path.clone(), serde_json::from_str(it).unwrap())));
        }
    }
    found
}

fn invoke(server: &Server, headers: &[(&str, &str)], body: &str) -> u16 {
    Client::connect(server.sagemaker()).post("/invocations", headers, body).status
}

#[test]
fn requests_and_replies_are_captured_as_the_platform_does() {
    let (repository, dir) = (Repository::of(&["scalar_one"]), Repository::new());
    let flag = format!("--data-capture-dir={}", dir.at("captured"));
    let server = Server::start(&repository, &[&flag]);
    let attributes = ("x-amzn-sagemaker-custom-attributes", "trace=7");
    let headers = [("content-type", CSV), attributes, ("x-amzn-sagemaker-inference-id", "mine")];
    assert_eq!(invoke(&server, &headers, "1.5\n"), 200);
    // What fails has no output, and is not captured.
    assert_eq!(invoke(&server, &headers, "x\n"), 400);
    server.stop().unwrap();
    let all = captured(dir.path());
    let [(path, line)] = all.as_slice() else { panic!("{all:?}") };
    let place = path.strip_prefix(dir.path().join("captured")).unwrap();
    let place: Vec<_> = place.iter().map(|it| it.to_str().unwrap()).collect();
    assert_eq!(&place[..2], ["scalar_one", "AllTraffic"]);
    assert_eq!(place[2..6].iter().map(|it| it.len()).collect::<Vec<_>>(), [4, 2, 2, 2]);
    let input = &line["captureData"]["endpointInput"];
    assert_eq!((&input["data"], &input["encoding"]), (&"1.5\n".into(), &"CSV".into()));
    assert_eq!((&input["observedContentType"], &input["mode"]), (&CSV.into(), &"INPUT".into()));
    let output = &line["captureData"]["endpointOutput"];
    assert_eq!((&output["observedContentType"], &output["mode"]), (&CSV.into(), &"OUTPUT".into()));
    assert!(output["data"].as_str().is_some_and(|it| it.trim().parse::<f32>().is_ok()), "{output}");
    let metadata = &line["eventMetadata"];
    assert_eq!(metadata["inferenceId"], "mine");
    assert_eq!(metadata["customAttributes"], serde_json::json!(["trace=7"]));
}

#[cfg(feature = "pipelines")]
#[test]
fn texts_at_the_addresses_of_other_servers_are_captured() {
    let (repository, dir) = (crate::support::pipelines::repository(&["st-6"]), Repository::new());
    let flag = format!("--data-capture-dir={}", dir.at("captured"));
    let server = Server::start(&repository, &[&flag]);
    let bodies = [
        ("/v1/embeddings", r#"{"input": "so happy"}"#),
        ("/v2/models/st-6/embed", r#"{"inputs": "so sad"}"#),
        ("/", r#"{"inputs": "a film"}"#),
    ];
    for (path, body) in bodies {
        server.post(path, body).expect(200);
        // What fails is not captured.
        assert!(400 <= server.post(path, "{}").status);
    }
    server.stop().unwrap();
    let all = captured(dir.path());
    assert_eq!(all.len(), bodies.len(), "{all:?}");
    for (_, body) in bodies {
        let sides = all.iter().map(|(_, line)| &line["captureData"]);
        let mut fitting = sides.filter(|it| it["endpointInput"]["data"] == body);
        let one = fitting.next().unwrap_or_else(|| panic!("{body}: {all:?}"));
        assert_eq!(one["endpointInput"]["encoding"], "JSON");
        assert!(
            one["endpointOutput"]["data"].as_str().is_some_and(|it| it.contains("0.")),
            "{one}"
        );
    }
}

#[test]
fn a_part_of_requests_can_be_captured_and_one_side_alone() {
    let (repository, dir) = (Repository::of(&["scalar_one"]), Repository::new());
    let flags = [
        format!("--data-capture-dir={}", dir.at("")),
        "--data-capture-percent=50".to_owned(),
        "--data-capture-input=false".to_owned(),
    ];
    let server = Server::start(&repository, &flags.each_ref().map(String::as_str));
    for number in 0..200 {
        let id = format!("request-{number}");
        let headers = [("content-type", CSV), ("x-amzn-sagemaker-inference-id", &*id)];
        assert_eq!(invoke(&server, &headers, "1\n"), 200);
    }
    server.stop().unwrap();
    let all = captured(dir.path());
    assert!((60..140).contains(&all.len()), "{}", all.len());
    assert!(all.iter().all(|it| it.1["captureData"].get("endpointInput").is_none()));
    assert!(all.iter().all(|it| it.1["captureData"].get("endpointOutput").is_some()));
}

#[test]
fn a_folder_that_cannot_be_written_ends_the_start_and_one_that_goes_later_harms_no_request() {
    let (repository, dir) = (Repository::of(&["scalar_one"]), Repository::new());
    let dir = dir.file("file", "");
    let flag = format!("--data-capture-dir={}", dir.at("file/below"));
    let ended = Process::start(&repository, &[&flag], &[]).wait();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.last().contains("--data-capture-dir"), "{}", ended.last());
    let flag = format!("--data-capture-dir={}", dir.at("captured"));
    let server = Server::start(&repository, &[&flag]);
    fs::remove_dir(dir.path().join("captured")).unwrap();
    fs::write(dir.path().join("captured"), "now a file").unwrap();
    for _ in 0..10 {
        assert_eq!(invoke(&server, &[("content-type", CSV)], "1\n"), 200);
    }
    server.stop().unwrap();
}

#[test]
fn a_disk_that_is_full_costs_no_request() {
    let (repository, dir) = (Repository::of(&["scalar_one"]), Repository::new());
    let dir = dir.file("captured/scalar_one", "a file where a folder has to be");
    let models = repository.at("");
    let capture = format!("--data-capture-dir={}", dir.at("captured"));
    let flags = [
        "--model-repository",
        &models,
        "--http-address=127.0.0.1",
        "--grpc-port=0",
        "--sagemaker-port=0",
        "--metrics-port=0",
        "--drain-delay-secs=0",
        "--log-file=/dev/full",
        "--log-verbose=1",
        "--log-requests=true",
        "--trace-config=triton,file=/dev/full",
        "--trace-config=rate=1",
        "--trace-config=level=TIMESTAMPS",
        &capture,
    ];
    // The log is on the full disk, so that it cannot say the port.
    let (process, address) = Process::on_a_free_port(|port| {
        let port = format!("--http-port={port}");
        Process::command(&[&flags[..], &[port.as_str()]].concat(), &[])
    });
    let mut client = wait_for("the server to serve", || {
        let mut client = Client::try_connect(address).ok()?;
        (client.get("/v2/health/ready").status == 200).then_some(client)
    });
    for number in 0..200 {
        let reply = client.post("/invocations", &[("content-type", CSV)], format!("{number}\n"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        client.get("/v2/health/live").expect(200);
    }
    process.signal("TERM");
    assert_eq!(process.wait().status.code(), Some(0));
}

#[test]
fn metrics_are_lines_on_standard_output_where_that_is_asked_for() {
    let repository = Repository::of(&["scalar_one"]);
    let flags = ["--emf=true", "--emf-interval-secs=3600", "--emf-namespace=mine"];
    let mut process = Process::start(&repository, &flags, &[]);
    process.wait_ready();
    let address = process.address("sagemaker");
    let mut client = Client::connect(address);
    for body in ["1\n", "2\n", "x\n"] {
        client.post("/invocations", &[("content-type", CSV)], body);
    }
    client.get("/ping").expect(200);
    drop(client);
    // The last lines come with the end.
    process.signal("TERM");
    let finished = process.wait();
    let lines = finished.log.iter().filter(|it| it.contains("\"_aws\""));
    let lines: Vec<Value> = lines.map(|it| serde_json::from_str(it).unwrap()).collect();
    let of = |name: &str| {
        lines
            .iter()
            .find(|it| it.get(name).is_some())
            .unwrap_or_else(|| panic!("{name}: {lines:?}"))
    };
    let model = of("Model");
    assert_eq!(model["Model"], "scalar_one");
    let counts =
        ["Invocations", "Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors"];
    assert_eq!(counts.map(|it| model[it].as_u64().unwrap()), [3, 1, 0, 1]);
    assert_eq!(model["ModelLatency"].as_array().unwrap().len(), 3);
    assert_eq!(model["_aws"]["CloudWatchMetrics"][0]["Namespace"], "mine");
    let own = of("LoadedModelCount");
    assert_eq!(own["LoadedModelCount"], 1);
    assert!(own["MemoryUtilization"].as_f64().is_some_and(|it| 0.0 < it && it < 100.0), "{own}");
    assert!(own["CPUUtilization"].as_f64().is_some() && own["DiskUtilization"].as_f64().is_some());
    assert_eq!(own["ModelSetupTime"].as_array().unwrap().len(), 1);
}
