//! What goes wrong while a job is being done: each a clear line, and the job goes on or ends with what it has.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, ChildStderr},
};

use serde_json::{Value, json};

use super::{PORTS, command, command_with, config, outcome, recommend, sleeper};
use crate::support::{Repository, wait_for};

/// A job that was begun, and its lines.
struct Begun {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Begun {
    fn new(repository: &Repository, args: &[&str]) -> Begun {
        let mut child = command(repository, args).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Begun { child, lines }
    }

    /// The next line with this in it, and all before it.
    fn read_to(&mut self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            assert!(self.lines.read_line(&mut all).unwrap() > 0, "no line with '{part}': {all}");
            if all[before..].contains(part) {
                return all;
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Servers of a repository that run.
fn servers(repository: &Repository) -> usize {
    let models = repository.at("models");
    let of = |it: fs::DirEntry| fs::read_to_string(it.path().join("cmdline")).unwrap_or_default();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(of);
    processes.filter(|it| it.contains("\0serve\0") && it.contains(&models)).count()
}

#[test]
fn a_job_goes_on_after_it_was_killed_and_after_ctrl_c_unless_the_model_has_changed() {
    let repository = sleeper();
    let state = repository.at("state");
    let args = [
        "--env=MUSTER_DEFAULT_INSTANCE_COUNT=1,2,4",
        "--stairs=2:1:1",
        "--instance=local.cpu1",
        "--state",
        &state,
    ];
    let mut killed = Begun::new(&repository, &args);
    killed.read_to("COUNT=1: ");
    // The job has noted it.
    wait_for("the next server", || {
        let noted = fs::read_to_string(repository.at("state/measuring")).ok()?;
        let server = noted.split(' ').nth(1)?;
        let environment = fs::read_to_string(format!("/proc/{server}/environ")).ok()?;
        environment.contains("MUSTER_DEFAULT_INSTANCE_COUNT=2").then_some(())
    });
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();

    let mut stopped = Begun::new(&repository, &args);
    let said = stopped.read_to("COUNT=2: ");
    assert!(said.contains("GOES ON after 1 trials"), "{said}");
    assert!(!said.contains("COUNT=1: "), "measured a second time: {said}");
    stopped.signal("INT");
    let said = stopped.read_to("goes on from here");
    assert!(said.contains("STOPPED"), "{said}");
    stopped.child.wait().unwrap();

    let (status, reply, log) = recommend(&repository, &args);
    assert_eq!((status, &reply["Status"]), (Some(0), &Value::from("COMPLETED")), "{log}");
    assert!(log.contains("GOES ON after 2 trials") && !log.contains("COUNT=2: "), "{log}");
    assert_eq!(reply["InferenceRecommendations"].as_array().unwrap().len(), 3, "{reply:#}");
    assert_eq!(servers(&repository), 0);

    // A job that is over is done again; one that is not is begun anew for another model.
    let mut again = Begun::new(&repository, &args);
    assert!(!again.read_to("COUNT=1: ").contains("GOES ON"));
    drop(again);
    let changed = config(&[("latency_alpha_us", "10001")]) + PORTS;
    let repository = repository.file("models/sleeper/config.pbtxt", changed);
    let said = Begun::new(&repository, &args).read_to("COUNT=1: ");
    assert!(said.contains("STARTS ANEW the file") && said.contains("config.pbtxt"), "{said}");
}

#[test]
fn what_cannot_be_kept_or_written_is_said_and_the_rest_is_there() {
    let repository = sleeper();
    let table = repository.at("table.md");
    let (status, _, log) = recommend(
        &repository,
        &[
            "--stairs=1:1:1",
            "--instance=local.cpu1",
            "--state=/dev/null/state",
            "--describe=/dev/full",
            "--table",
            &table,
        ],
    );
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("/dev/null/state: Not a directory"), "{log}");
    assert!(log.contains("the job goes on, and cannot be resumed"), "{log}");
    assert!(log.contains("/dev/full: No space left on device"), "{log}");
    assert!(fs::read_to_string(table).unwrap().contains("| local.cpu1 | 1 |"), "{log}");
}

#[test]
fn a_server_that_dies_or_does_not_start_is_said_and_the_others_are_measured() {
    let faults = [("fault", "abort"), ("fault_after", "60"), ("latency_alpha_us", "5000")];
    let repository = Repository::new().model("models/dying", &(config(&faults) + PORTS));
    let args =
        ["--env=MUSTER_DEFAULT_INSTANCE_COUNT=1,2", "--stairs=1:3:1", "--instance=local.cpu1"];
    let (status, _, log) = recommend(&repository, &args);
    assert_eq!(status, Some(1), "{log}");
    for count in ["COUNT=1: ", "COUNT=2: "] {
        let line = log.lines().find(|it| it.starts_with("FAILED") && it.contains(count));
        let line = line.unwrap_or_else(|| panic!("{count} {log}"));
        for part in [
            "requests failed, the first with ",
            ", request ",
            ", payload 'body.json' (application/json): ",
            "started by: ",
            "SIGABRT",
            "its last lines",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        // What the system says of the connection of the first one.
        let said = ["the connection was closed before", "Connection reset by peer", "Broken pipe"];
        assert!(said.iter().any(|it| line.contains(it)), "{line}");
        // A reason is cut after 1,024 characters.
        assert!(line.find("started by: ") < line.find("its last lines"), "{line}");
    }
    let args =
        ["--env=MUSTER_DEFAULT_INSTANCE_COUNT=none,2", "--stairs=1:1:1", "--instance=local.cpu1"];
    let (status, reply, log) = recommend(&sleeper(), &args);
    assert_eq!((status, &reply["Status"]), (Some(0), &Value::from("COMPLETED")), "{log}");
    assert!(log.contains("FAILED local.cpu1 MUSTER_DEFAULT_INSTANCE_COUNT=none"), "{log}");
}

#[test]
fn a_faster_form_of_the_model_wins_and_never_one_that_answers_something_else() {
    let other = config(&[("latency_alpha_us", "1000")]) + &PORTS.replace("OUTPUT0", "ANOTHER");
    let latency = |it| [("latency_alpha_us", it), ("columns", "1")];
    let repository = Repository::new()
        .model("models/m", &config(&latency("60000")))
        .model("fast/m", &config(&latency("3000")))
        .model("wrong/m", &other);
    let (fast, wrong) = (repository.at("fast"), repository.at("wrong"));
    let args = [
        "--instance=local.cpu1",
        "--time-scale=3",
        "--objective=throughput",
        "--variant",
        &fast,
        "--variant",
        &wrong,
    ];
    let (status, reply, log) = recommend(&repository, &args);
    assert_eq!(status, Some(0), "{log}");
    let refused = log.lines().find(|it| it.starts_with("FAILED")).unwrap_or_default();
    assert!(refused.contains(&wrong) && refused.contains("(tolerance 0.001)"), "{log}");
    let best = &reply["InferenceRecommendations"][0]["ModelConfiguration"];
    assert!(best.to_string().contains(&fast), "{best}\n{log}");
    assert!(!reply["InferenceRecommendations"].to_string().contains(&wrong), "{reply:#}");
    assert!(log.contains(&format!("-v {fast}:/opt/ml/model:ro")), "{log}");
    // Its own model with one instance and one thread carries far less.
    let left_out = "NOT MEASURED local.cpu1 MUSTER_DEFAULT_INSTANCE_COUNT=1 MUSTER_DEFAULT_INTRA_OP_THREADS=1, in full: \
                    it carries less than 90 % of the best for a moment";
    assert!(log.contains(left_out), "{log}");
}

#[test]
fn a_setting_that_answers_something_else_in_company_is_not_recommended() {
    // Rows of one run mix where a number is above a thousand.
    let body = |first: f64| {
        let data = [first, 1.0, 2.0, 3.0];
        json!({"inputs": [{"name": "INPUT", "shape": [1, 4], "datatype": "FP32", "data": data}]})
    };
    let repository = Repository::new()
        .copy("models/mixes_late", "tests/fixtures/mixing/mixes_late")
        // Merged although its rows mix: else the server would find out under load, and merge no more.
        .file("models/mixes_late/config.pbtxt", "dynamic_batching { }")
        .file("bodies/a.json", body(1500.0).to_string())
        .file("bodies/b.json", body(9000.0).to_string());
    let args = [
        "--env=MUSTER_DEFAULT_MAX_BATCH_SIZE=1,8",
        "--env=MUSTER_DEFAULT_INSTANCE_COUNT=1",
        "--stairs=8:1:2",
        "--instance=local.cpu1",
    ];
    let (status, reply, log) = outcome(command_with(&repository, &repository.at("bodies"), &args));
    assert_eq!(status, Some(0), "{log}");
    let failed = log.lines().find(|it| it.starts_with("FAILED")).unwrap_or_default();
    let expected = "under load its answer to payload '";
    assert!(failed.contains("BATCH_SIZE=8 ") && failed.contains(expected), "{log}");
    let settings = reply["InferenceRecommendations"].as_array().unwrap();
    assert_eq!(settings.len(), 1, "{reply:#}");
    let batch = &settings[0]["ModelConfiguration"]["EnvironmentParameters"][0];
    assert_eq!(batch["Value"], "1", "{reply:#}");
}
