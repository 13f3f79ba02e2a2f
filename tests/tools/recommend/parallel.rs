//! Tests of a job at the same time.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use recommender::{
    Job,
    basis::Basis,
    cpus,
    journal::{Journal, JournalPaths},
    means::Means,
    payload,
    prices::Prices,
    ranking::Objective,
    run::{Done, Status, go_on},
    shares::Places,
    watch::Watch,
};
use serde_json::json;

use super::{PORTS, config, recommend, sleeper};
use crate::support::{NO_GPUS, Repository};

/// What becomes of a job that tries these values of a variable, two at a time, with its lines, and the most servers
/// that lived when a window was over.
fn two_at_a_time(repository: &Repository, name: &str, values: &[&str]) -> (Done, String, usize) {
    let body = repository.at("body.json");
    let text = r#"{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[3]}]}"#;
    fs::write(&body, text).unwrap();
    let range = json!([{"Name": name, "Value": values}]);
    let job = Job::parse(
        &json!({"JobName": "two", "JobType": "Advanced", "RoleArn": "x", "InputConfig": {
        "ModelName": repository.at("models"),
        "TrafficPattern": {"TrafficType": "STAIRS",
            "Stairs": {"DurationInSeconds": 1, "NumberOfSteps": 2, "UsersPerStep": 1}},
        "ResourceLimit": {"MaxParallelOfTests": 2},
        "EndpointConfigurations": [{"InstanceType": "local.cpu1",
            "EnvironmentParameterRanges": {"CategoricalParameterRanges": range}}]}}),
    )
    .unwrap();
    let place = JournalPaths {
        lock: repository.path().join("measuring"),
        folder: repository.path().join("job"),
    };
    let (lock, most) = (place.lock.clone(), Arc::<AtomicUsize>::default());
    let seen = most.clone();
    let means = Means {
        has_lists: false,
        program: env!("CARGO_BIN_EXE_muster").into(),
        prices: Prices::default(),
        // As if this machine had four, whatever it has.
        places: Places::shared(cpus().into_iter().cycle().take(4).collect()),
        bodies: payload::read(&body, &[]).unwrap(),
        time_scale: 1.0,
        stop: Arc::default(),
        objective: Objective::Cost,
        environment: vec![(NO_GPUS.0.to_owned(), NO_GPUS.1.to_owned())],
        trust: Default::default(),
        watch: Watch::default().telling(move |_| {
            let text = fs::read_to_string(&lock).unwrap();
            let servers = text.split(' ').skip(1).step_by(2);
            let alive = servers.filter(|it| Path::new("/proc").join(it).exists());
            seen.fetch_max(alive.count(), Ordering::Relaxed);
        }),
    };
    let basis = Basis::of(&job, &means);
    let mut log = String::new();
    let mut say = |line: &str| log.push_str(&format!("{line}\n"));
    let journal = Journal::open(&place, &basis, 1, false, &means.stop, &mut say).unwrap();
    let done = go_on(job, &means, journal, &mut say);
    (done, log, most.load(Ordering::Relaxed))
}

#[test]
fn tests_run_at_the_same_time_where_each_has_processors_of_its_own() {
    let counts = ["1", "2", "3"];
    let (done, log, most) = two_at_a_time(&sleeper(), "MUSTER_DEFAULT_INSTANCE_COUNT", &counts);
    assert_eq!((done.status, most), (Status::Completed, 2), "{log}");
    assert!(log.contains("MaxParallelOfTests: up to 2 tests run at the same time"), "{log}");
    let settings: Vec<String> = done.steps.iter().map(|it| it.setting.variables()).collect();
    let expected = counts.map(|it| format!("MUSTER_DEFAULT_INSTANCE_COUNT={it}"));
    assert_eq!(settings, expected, "{log}");
    assert!(done.steps.iter().all(|it| it.outcome.is_ok()), "{log}");
}

#[test]
fn answers_of_tests_at_the_same_time_are_compared_with_those_of_the_first() {
    let latency = [("latency_alpha_us", "10000"), ("columns", "1")];
    let repository = Repository::new().model("models/m", &config(&latency)).model(
        "wrong/m",
        &(config(&[("latency_alpha_us", "1000")]) + &PORTS.replace("OUTPUT0", "ANOTHER")),
    );
    let forms = [repository.at("models"), repository.at("wrong")];
    let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
    let (done, log, most) = two_at_a_time(&repository, "MODEL_PATH", &forms);
    assert_eq!((done.status, most), (Status::Completed, 2), "{log}");
    let problem = done.steps[1].outcome.as_ref().unwrap_err();
    assert!(problem.reason().contains("(tolerance 0.001)"), "{problem}");
    assert_eq!(done.ranked, [0], "{log}");
}

#[test]
fn a_machine_without_room_for_two_tests_does_one_after_another_and_says_so() {
    // All processors of this machine, so that there is room for no other test.
    let instance = format!("--instance=local.cpu{}", cpus().len());
    let args =
        ["--env=MUSTER_DEFAULT_INSTANCE_COUNT=1,2", "--stairs=1:1:1", "--parallel=2", &instance];
    let (status, _, log) = recommend(&sleeper(), &args);
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("MaxParallelOfTests: tests run one after another: "), "{log}");
}
