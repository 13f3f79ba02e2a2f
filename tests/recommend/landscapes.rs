//! Models of the engine `identity` whose best settings are known: what is found, and in which share of the time.

use std::{
    fs,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use super::{config, recommend};
use crate::support::Repository;

/// Models by the form of their landscape. All sleep, so that they do not need the processors that they pretend to use.
fn landscapes() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let of = |parameters: &[(&'static str, &str)]| {
        let all = [&[("columns", "1")], parameters].concat();
        all.into_iter().map(|(key, value)| (key, value.to_owned())).collect::<Vec<_>>()
    };
    let mut drifting = of(&[
        ("latency_alpha_us", "10000"),
        ("latency_beta_us", "2000"),
        ("latency_drift_per_minute", "0.02"),
    ]);
    drifting.push(("latency_drift_since", now.to_string()));
    vec![
        (
            "linear",
            of(&[
                ("latency_beta_us", "4000"),
                ("latency_thread_gain", "0.9"),
                ("latency_processors", "2"),
            ]),
        ),
        ("steep gain of batches", of(&[("latency_alpha_us", "40000")])),
        ("cliff of threads", of(&[("latency_beta_us", "4000"), ("latency_cliff_threads", "1")])),
        ("cliff of memory", of(&[("latency_beta_us", "4000"), ("latency_cliff_instances", "1")])),
        (
            "noisy",
            of(&[
                ("latency_alpha_us", "10000"),
                ("latency_beta_us", "1000"),
                ("latency_noise", "0.3"),
            ]),
        ),
        ("drifting", drifting),
    ]
}

fn repository(parameters: &[(&str, String)]) -> Repository {
    let parameters: Vec<(&str, &str)> = parameters.iter().map(|(a, b)| (*a, b.as_str())).collect();
    Repository::new().model("models/m", &config(&parameters))
}

/// The variables of the best setting.
fn best(reply: &Value) -> String {
    variables(&reply["InferenceRecommendations"][0])
}

/// The variables of a recommendation.
fn variables(of: &Value) -> String {
    let parameters = &of["ModelConfiguration"]["EnvironmentParameters"];
    let parameters = parameters.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    let words: Vec<String> =
        parameters.map(|it| format!("{}={}", text(it, "Key"), text(it, "Value"))).collect();
    words.join(" ")
}

/// The cell of the grid that a setting is. What it does not say a server on two processors finds out by itself.
fn cell(variables: &str) -> [&str; 3] {
    let usual = [
        ("MUSTER_DEFAULT_INSTANCE_COUNT=", "2"),
        ("MUSTER_DEFAULT_INTRA_OP_THREADS=", "1"),
        ("MUSTER_DEFAULT_MAX_BATCH_SIZE=", "4"),
    ];
    usual.map(|(name, usual)| {
        variables.split(' ').find_map(|it| it.strip_prefix(name)).unwrap_or(usual)
    })
}

/// A cliff so steep that it is seen on a busy machine.
#[test]
fn the_servers_own_settings_lose_where_a_second_instance_is_too_much_for_the_memory() {
    let parameters = [
        ("columns", "1"),
        ("latency_alpha_us", "3000"),
        ("latency_cliff_instances", "1"),
        ("latency_cliff_factor", "40"),
    ];
    let repository = Repository::new().model("models/m", &config(&parameters));
    let args = ["--instance=local.cpu2", "--time-scale=5", "--objective=throughput"];
    let (status, reply, log) = recommend(&repository, &args);
    assert_eq!(status, Some(0), "{log}");
    assert!(best(&reply).contains("INSTANCE_COUNT=1"), "{}\n{log}", best(&reply));
    assert!(log.contains("times the requests of the server's own settings"), "{log}");
}

/// Searches and grids take half an hour: `cargo test -p muster --test integration -- --ignored --nocapture landscape`.
/// What the chosen setting carries is read from the grid: what a machine carries an hour later is another matter. The
/// machine must be so quiet that sleeps are as long as they are told to be. `MUSTER_TEST_TIME_SCALE` divides the times
/// of loads, 2 where it is not set; those of starting servers stay, of which a search has more than the grid.
#[test]
#[ignore = "takes half an hour of a quiet machine"]
fn each_landscape_is_climbed_to_within_three_percent_in_a_quarter_of_the_time_of_the_grid() {
    let scale = std::env::var("MUSTER_TEST_TIME_SCALE").unwrap_or_else(|_| "2".to_owned());
    let scale = format!("--time-scale={scale}");
    let mut wrong = Vec::new();
    for (name, parameters) in landscapes() {
        let repository = repository(&parameters);
        let start = Instant::now();
        let (status, reply, log) =
            recommend(&repository, &["--instance=local.cpu2", &scale, "--objective=throughput"]);
        let spent = start.elapsed();
        assert_eq!(status, Some(0), "{name}: {log}");

        // The same load for each cell, which is never left early.
        let start = Instant::now();
        let (found, steps) = (best(&reply), repository.at("steps.json"));
        let (status, _, said) = recommend(
            &repository,
            &[
                "--instance=local.cpu2",
                &scale,
                "--objective=throughput",
                "--flat=continue",
                "--max-tests=16",
                "--steps",
                &steps,
                "--env=MUSTER_DEFAULT_INSTANCE_COUNT=1,2",
                "--env=MUSTER_DEFAULT_INTRA_OP_THREADS=1,2",
                "--env=MUSTER_DEFAULT_MAX_BATCH_SIZE=1,4,8,32",
                "--phases=1:0:5,2:0:5,4:0:5,8:0:5,16:0:5,32:0:5",
            ],
        );
        let whole = start.elapsed();
        assert_eq!(status, Some(0), "{name}: {said}");
        let steps: Value = serde_json::from_slice(&fs::read(steps).unwrap()).unwrap();
        let steps = steps["Steps"].as_array().unwrap();
        let rates = steps.iter().map(|it| {
            let of = &it["InferenceBenchmark"];
            (variables(of), of["Metrics"]["MaxInvocations"].as_f64().unwrap())
        });
        let rates: Vec<(String, f64)> = rates.collect();
        assert_eq!(rates.len(), 16, "{said}");
        let highest = rates.iter().map(|it| it.1).fold(0.0, f64::max);
        let own = rates.iter().find(|it| cell(&it.0) == cell(&found)).unwrap();
        let reached = own.1 / highest;
        let share = spent.as_secs_f64() / whole.as_secs_f64();
        println!(
            "{name}: {:.1} % of the best in {:.1} % of the time: {found}",
            reached * 100.0,
            share * 100.0
        );
        if reached < 0.97 || share > 0.25 {
            println!("{log}\n{said}");
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
