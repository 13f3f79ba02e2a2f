//! `muster recommend` against models whose best setting is known beforehand.

mod faults; // signals, crashes, full disks, servers that die, forms that answer something else
mod landscapes; // the best settings are found, in a quarter of the time of the whole grid
mod page; // the report in a browser, and the GPU in it
mod parallel; // tests at the same time

use std::{
    fs,
    process::{Command, Stdio},
};

use recommender::cpus;
use serde_json::{Value, json};

use crate::support::{NO_GPUS, Repository, switches, with_tools};

/// The command for the models of a repository.
fn command(repository: &Repository, args: &[&str]) -> Command {
    let payload = repository.at("body.json");
    let body = r#"{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[3]}]}"#;
    fs::write(&payload, body).unwrap();
    command_with(repository, &payload, args)
}

/// The same with the bodies at that path.
fn command_with(repository: &Repository, payload: &str, args: &[&str]) -> Command {
    bare_command(&[&[&repository.at("models"), "--payload", payload], args].concat())
}

/// The command with these arguments alone.
fn bare_command(args: &[&str]) -> Command {
    let mut command = Command::new(with_tools());
    command
        .arg("recommend")
        .args(args)
        .env_clear()
        .envs(switches())
        // Some of these servers are to die with their models.
        .env("MUSTER_ISOLATION", "off")
        .env(NO_GPUS.0, NO_GPUS.1)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What came of it: the exit status, the reply to `DescribeInferenceRecommendationsJob`, and standard error.
fn recommend(repository: &Repository, args: &[&str]) -> (Option<i32>, Value, String) {
    outcome(command(repository, args))
}

/// The same of any such command.
fn outcome(mut command: Command) -> (Option<i32>, Value, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let reply = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), reply, text)
}

/// A model that sleeps for 10 ms, whatever the rows.
fn sleeper() -> Repository {
    let config = config(&[("latency_alpha_us", "10000")]);
    Repository::new().model("models/sleeper", &(config + PORTS))
}

const PORTS: &str = "input [ { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1, 1 ] } ]
    output [ { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1, 1 ] } ]";

/// A model of the engine `identity` with these parameters.
fn config(parameters: &[(&str, &str)]) -> String {
    let parameters = parameters.iter().map(|(key, value)| {
        format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
    });
    format!("backend: \"identity\"\n{}", parameters.collect::<String>())
}

#[test]
fn an_advanced_job_tells_which_number_of_instances_carries_most() {
    let repository = sleeper();
    let html = repository.at("report.html");
    let (status, reply, log) = recommend(
        &repository,
        &[
            "--env=MUSTER_DEFAULT_INSTANCE_COUNT=1,4",
            "--stairs=4:1:2",
            "--instance=local.cpu1",
            "--latency-ms=1000",
            "--html",
            &html,
        ],
    );
    assert_eq!(status, Some(0), "{log}");
    let best = &reply["InferenceRecommendations"][0];
    let parameter = &best["ModelConfiguration"]["EnvironmentParameters"][0];
    assert_eq!(parameter["Value"], "4", "{reply:#}\n{log}");
    let each = |at: usize| {
        reply["InferenceRecommendations"][at]["Metrics"]["MaxInvocations"].as_f64().unwrap()
    };
    // Four users, 10 ms each: 100 requests per second and instance.
    assert!(each(0) / each(1) > 2.0 && each(1) <= 6100.0, "{reply:#}");
    // It sleeps.
    assert!(log.contains("with it the processors are not full ("), "{log}");
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains("MUSTER_DEFAULT_INSTANCE_COUNT=4"), "{html}");
    for part in [
        "<p class=\"verdict\">Serve with instances 4 · threads automatic · rows automatic on local.cpu1: that carries ",
        "<span class=\"mark\">recommended</span>",
        "identity on CPU, instances: 4, ",
        "/models: BLAKE3 ",
        " GiB of memory. Payload: 1 body of ",
        " bytes (application/json). Windows of ",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[test]
fn what_is_tried_goes_before_what_the_models_configuration_says() {
    let config = config(&[("latency_alpha_us", "10000")]);
    let written = "max_batch_size: 2 instance_group { count: 1 }
        input [ { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 1 ] } ]
        output [ { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 1 ] } ]";
    let repository = Repository::new().model("models/sleeper", &(config + written));
    let args = [
        "--env=MUSTER_DEFAULT_INSTANCE_COUNT=1,4",
        "--env=MUSTER_DEFAULT_MAX_BATCH_SIZE=1",
        "--stairs=4:1:2",
        "--instance=local.cpu1",
    ];
    let (status, reply, log) = recommend(&repository, &args);
    assert_eq!(status, Some(0), "{log}");
    let recommended = |at: usize| &reply["InferenceRecommendations"][at];
    let parameters = &recommended(0)["ModelConfiguration"]["EnvironmentParameters"];
    let value = |name: &str| {
        let mut parameters = parameters.as_array().unwrap().iter();
        parameters.find(|it| it["Key"] == name).map(|it| it["Value"].as_str().unwrap().to_owned())
    };
    assert_eq!(value("MUSTER_DEFAULT_INSTANCE_COUNT").as_deref(), Some("4"), "{reply:#}\n{log}");
    assert_eq!(value("MUSTER_DEFAULTS_OVER_CONFIG").as_deref(), Some("true"), "{reply:#}");
    let carries = |at: usize| recommended(at)["Metrics"]["MaxInvocations"].as_f64().unwrap();
    assert!(carries(0) / carries(1) > 2.0, "{reply:#}");
    // A setting that the model does not take is not measured in place of another.
    let config = self::config(&[]) + PORTS + " max_batch_size: 0";
    let repository = Repository::new().model("models/sleeper", &config);
    let (_, _, log) = recommend(
        &repository,
        &["--env=MUSTER_DEFAULT_MAX_BATCH_SIZE=8", "--stairs=1:1:1", "--instance=local.cpu1"],
    );
    assert!(
        log.contains("MUSTER_DEFAULT_MAX_BATCH_SIZE=8 has no effect: identity on CPU"),
        "{log}"
    );
    // Which of several models is to take it cannot be known.
    let repository = repository.model("models/other", &(self::config(&[]) + PORTS));
    let mut command = command(
        &repository,
        &["--env=MUSTER_DEFAULT_MAX_BATCH_SIZE=8", "--stairs=1:1:1", "--instance=local.cpu1"],
    );
    command.env("MUSTER_SAGEMAKER_DEFAULT_MODEL", "other");
    let (status, _, log) = outcome(command);
    assert_eq!(status, Some(0), "{log}");
}

#[test]
fn without_a_payload_tensors_are_made_up_that_suit_the_models_inputs() {
    let repository = sleeper();
    let models = repository.at("models");
    let without = |args: &[&str]| {
        let short = ["--stairs=1:1:1", "--instance=local.cpu1"];
        outcome(bare_command(&[&[models.as_str()], args, &short].concat()))
    };
    let (status, _, log) = without(&[]);
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("PAYLOAD made up, 16 bodies of "), "{log}");
    assert!(log.contains("(application/json): INPUT0 FP32 [1, 1]; "), "{log}");
    let (status, _, log) = without(&["--shape=INPUT0:5,1", "--value=INPUT0=2"]);
    assert_eq!(status, Some(0), "{log}");
    let expected = "PAYLOAD made up, 1 body of 91 bytes (application/json): INPUT0 FP32 [5, 1]; ";
    assert!(log.contains(expected), "{log}");
    // What cannot be made up is said, with what to give instead.
    for (args, expected) in [
        (&["--value=x=2"][..], "no input 'x'; expected one of INPUT0"),
        (
            &["--shape=INPUT0:5,2"],
            "what is made up does not suit the model 'sleeper': give a payload",
        ),
    ] {
        let (status, _, log) = without(args);
        assert_eq!(status, Some(1), "{log}");
        assert!(log.contains(expected), "{log}");
    }
    let _two = repository.model("models/other", &(config(&[]) + PORTS));
    let (status, _, log) = without(&[]);
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("tensors are made up for one model, and there are 2: "), "{log}");
    // A server that runs says nothing of its models here.
    let (status, _, log) = outcome(bare_command(&["--endpoint=http://127.0.0.1:1"]));
    assert_eq!(status, Some(2), "{log}");
    assert!(log.contains("--payload or --input: expected what is sent to http://"), "{log}");
}

#[test]
fn what_is_too_late_or_fails_is_said() {
    let repository = sleeper();
    let (status, reply, log) =
        recommend(&repository, &["--stairs=1:1:1", "--instance=local.cpu1", "--latency-ms=2"]);
    assert_eq!((status, &reply["Status"]), (Some(3), &Value::from("COMPLETED")), "{log}");
    // The server does not start with this.
    let (status, reply, log) = recommend(
        &repository,
        &["--stairs=1:1:1", "--instance=local.cpu1", "--env=MUSTER_DEFAULT_INSTANCE_COUNT=none"],
    );
    assert_eq!((status, &reply["Status"]), (Some(1), &Value::from("FAILED")), "{log}");
    let reason = reply["FailureReason"].as_str().unwrap();
    assert!(
        reason.contains("its last lines") && reason.contains("DEFAULT_INSTANCE_COUNT=none"),
        "{reason}"
    );
    let (status, _, log) = recommend(&repository, &["--instance=local.tpu"]);
    assert_eq!(status, Some(2), "{log}");
    let expected = "--instance: 'local.tpu' is not known: expected local.cpuN";
    assert!(log.contains(expected), "{log}");
}

#[test]
fn a_machine_that_is_larger_than_this_one_is_a_failed_step_with_its_reason() {
    let repository = sleeper();
    let steps = repository.at("steps.json");
    let args = ["--stairs=1:1:1", "--instance=local.cpu999,local.cpu1", "--steps", &steps];
    let (status, reply, log) = recommend(&repository, &args);
    assert_eq!((status, &reply["Status"]), (Some(0), &Value::from("COMPLETED")), "{log}");
    let steps: Value = serde_json::from_str(&fs::read_to_string(steps).unwrap()).unwrap();
    let [larger, here] = [0, 1].map(|it| &steps["Steps"][it]);
    assert_eq!((&larger["Status"], &here["Status"]), (&json!("FAILED"), &json!("COMPLETED")));
    let reason = larger["InferenceBenchmark"]["FailureReason"].as_str().unwrap();
    assert!(reason.ends_with("processors for servers, local.cpu999 has 999"), "{reason}");
}

#[test]
fn servers_are_on_the_processors_that_are_named_for_them() {
    let [first, second, ..] = cpus()[..] else { return };
    let repository = sleeper();
    let (servers, clients) = (format!("--server-cpus={second}"), format!("--client-cpus={first}"));
    // What does not start tells its command.
    let none = "--env=MUSTER_DEFAULT_INSTANCE_COUNT=none";
    let (status, _, log) = recommend(&repository, &["--stairs=1:1:1", none, &servers, &clients]);
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains(&format!("taskset -c {second} ")) && log.contains("local.cpu1"), "{log}");
    let both = format!("--client-cpus={second}");
    let (status, _, log) = recommend(&repository, &["--stairs=1:1:1", &servers, &both]);
    assert!(status == Some(2) && log.starts_with("--client-cpus: expected other"), "{log}");
}

#[test]
fn threads_of_onnx_runtime_that_spin_are_tried_or_it_is_said_why_not() {
    let repository = Repository::new().fixture("models/mlp", "mlp");
    let payload = repository.at("row.json");
    let body = json!({"inputs": [{"name": "input", "shape": [1, 30], "datatype": "FP32",
        "data": vec![0.5; 30]}]});
    fs::write(&payload, body.to_string()).unwrap();
    let args = ["--instance=local.cpu2", "--time-scale=20"];
    let (status, reply, log) = outcome(command_with(&repository, &payload, &args));
    assert_eq!((status, &reply["Status"]), (Some(0), &Value::from("COMPLETED")), "{log}");
    let of_spinning = |it: &&str| it.contains("onnxruntime,session.intra_op.allow_spinning=1");
    let lines: Vec<&str> = log.lines().filter(of_spinning).collect();
    assert!(!lines.is_empty() && !log.contains("FAILED"), "{log}");
}

#[test]
fn repeated_settings_are_tested_in_turns_and_the_first_one_beside_itself() {
    let repository = sleeper();
    let table = repository.at("table.md");
    let args = [
        "--instance=local.cpu1",
        "--env=MUSTER_DEFAULT_INSTANCE_COUNT=1,4",
        "--stairs=4:1:1",
        "--repeats=2",
        "--table",
        &table,
    ];
    let (status, reply, log) = recommend(&repository, &args);
    assert_eq!(status, Some(0), "{log}");
    // A server and its number of instances for each window that was told.
    let turns: String = log
        .lines()
        .filter(|it| it.contains(", 4 users: "))
        .filter_map(|it| it.split("INSTANCE_COUNT=").nth(1)?.chars().next())
        .collect();
    assert_eq!(turns, "114411", "{log}");
    assert!(log.contains("the noise: a setting carries ") && log.contains("too few"), "{log}");
    assert_eq!(reply["InferenceRecommendations"].as_array().unwrap().len(), 2, "{reply:#}");
    let table = fs::read_to_string(table).unwrap();
    assert!(table.contains("| times the best (95 %) | settings |"), "{table}");
}

#[test]
fn combinations_without_room_are_listed_and_findings_state_what_they_are_of() {
    let repository = sleeper();
    let files =
        ["table.md", "report.html", "series.csv", "series.json"].map(|it| repository.at(it));
    let numbers: Vec<String> = (1..=5).map(|it| it.to_string()).collect();
    let ranges = ["MUSTER_DEFAULT_INSTANCE_COUNT", "OMP_NUM_THREADS"]
        .map(|it| format!("--env={it}={}", numbers.join(",")));
    let run = |series: &str| {
        let args = [
            "--instance=local.cpu1",
            &ranges[0],
            &ranges[1],
            "--max-tests=2",
            "--stairs=2:2:1",
            "--table",
            &files[0],
            "--html",
            &files[1],
            "--series",
            series,
        ];
        let (status, reply, log) = recommend(&repository, &args);
        assert_eq!(status, Some(0), "{log}");
        (reply, log)
    };
    let (_, log) = run(&files[2]);
    let left: Vec<&str> = log.lines().filter(|it| it.starts_with("NOT MEASURED")).collect();
    // How many, ten of them, and where the others are.
    assert_eq!(left.len(), 12, "{log}");
    assert!(left[0].ends_with("23 further combinations, more than MaxNumberOfTests"), "{log}");
    assert!(left[11].ends_with("and 13 more, see --table or --html"), "{log}");
    let [table, html, csv] = [0, 1, 2].map(|it| fs::read_to_string(&files[it]).unwrap());
    for count in 1..=5 {
        for threads in 1..=5 {
            let name = format!("MUSTER_DEFAULT_INSTANCE_COUNT={count} OMP_NUM_THREADS={threads}");
            let is_left = (count, threads) != (1, 1) && (count, threads) != (5, 5);
            assert_eq!(table.contains(&format!("- local.cpu1 {name}: more than")), is_left);
            let words = format!("instances {count} · threads {threads} · rows automatic");
            assert!(html.contains(&words), "{words}");
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    let stated = format!("\nmuster {version}, ");
    for part in [
        &*stated,
        " Payload: 1 body of ",
        ": BLAKE3 ",
        "COUNT=5 OMP_NUM_THREADS=5: identity on CPU",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let mut lines = csv.lines();
    let columns = "machine,settings,tried,on,cores,muster,server,payload,time_scale,engine,model_hash,start_s,";
    assert!(lines.next().unwrap().starts_with(columns), "{csv}");
    assert_eq!(lines.clone().count(), 4, "{csv}");
    let is_stated =
        |it: &str| it.contains(&format!(",{version},,1 body of ")) && it.contains(",identity,");
    assert!(lines.all(is_stated), "{csv}");

    let (reply, _) = run(&files[3]);
    let series: Value = serde_json::from_str(&fs::read_to_string(&files[3]).unwrap()).unwrap();
    let [request] = &series.as_array().unwrap()[..] else { panic!("{series:#}") };
    assert_eq!(request["Namespace"], "/aws/sagemaker/InferenceRecommendationsJobs");
    let data = request["MetricData"].as_array().unwrap();
    assert_eq!(data.len(), 4 * 4, "{series:#}");
    let best = &reply["InferenceRecommendations"][0];
    let endpoint = &best["EndpointConfiguration"]["EndpointName"];
    let of = |name: &str| {
        let is_it =
            |it: &&Value| it["MetricName"] == name && it["Dimensions"][1]["Value"] == *endpoint;
        data.iter().filter(is_it).collect::<Vec<&Value>>()
    };
    let users: Vec<f64> =
        of("NumberOfUsers").iter().map(|it| it["Value"].as_f64().unwrap()).collect();
    assert_eq!(users, [2.0, 4.0]);
    for (name, unit) in [
        ("ClientInvocations", "Count"),
        ("ClientInvocationErrors", "Count"),
        ("ClientLatency", "Milliseconds"),
    ] {
        let [first, last] = of(name)[..] else { panic!("{name}: {series:#}") };
        assert_eq!(
            (&first["Unit"], &first["Dimensions"][0]["Value"]),
            (&json!(unit), &reply["JobName"])
        );
        let [begin, end] =
            ["InvocationStartTime", "InvocationEndTime"].map(|it| best[it].as_f64().unwrap());
        let [first, last] = [first, last].map(|it| it["Timestamp"].as_f64().unwrap());
        assert!(
            begin < first && first < last && last <= end + 0.01,
            "{begin} {first} {last} {end}"
        );
    }
    assert!(of("ClientLatency")[0]["Value"].as_f64() >= Some(10.0), "{series:#}");
}
