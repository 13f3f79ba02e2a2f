//! Models of the engine `identity` whose best settings are known: what is found, and in which share of the time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

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
    let mut drifting = of(&[("latency_alpha_us", "20000"), ("latency_drift_per_minute", "0.02")]);
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
        ("noisy", of(&[("latency_alpha_us", "20000"), ("latency_noise", "0.3")])),
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

/// What a setting carries with 32 users, in requests per second, by the parameters of the model: what the engine
/// `identity` is told to sleep, and nothing besides. Chance and drift are the same for all settings.
fn carried(parameters: &[(&str, String)], cell: [&str; 3]) -> f64 {
    let number = |name: &str| {
        let found = parameters.iter().find(|it| it.0 == name);
        found.map(|it| it.1.parse::<f64>().unwrap())
    };
    let [instances, threads, batch] = cell.map(|it| it.parse::<f64>().unwrap());
    // While instances run, others wait: so many groups and one more go round.
    let rows = batch.min(32.0 / (instances + 1.0));
    let microseconds =
        number("latency_alpha_us").unwrap_or(0.0) + number("latency_beta_us").unwrap_or(0.0) * rows;
    let processors = number("latency_processors").unwrap_or(f64::INFINITY);
    let working = threads.min(processors / instances);
    let gain = working.powf(number("latency_thread_gain").unwrap_or(0.0));
    let is_behind = |count: f64, most: &str| number(most).is_some_and(|it| count > it);
    let cliff = match is_behind(threads, "latency_cliff_threads")
        || is_behind(instances, "latency_cliff_instances")
    {
        true => 20.0,
        false => 1.0,
    };
    1e6 * instances * rows * gain / (microseconds * cliff)
}

/// Searches and cells of grids take a quarter of an hour:
/// `cargo test -p muster --test tools -- --ignored --nocapture landscape`. What the chosen setting carries, and
/// the best of the grid, follow from the model's parameters; the time of the grid is that of one of its cells for each
/// of them. The machine must be so quiet that sleeps are as long as they are told to be.
#[test]
#[ignore = "takes a quarter of an hour of a quiet machine"]
fn each_landscape_is_climbed_to_within_three_percent_in_a_quarter_of_the_time_of_the_grid() {
    let whole: Vec<[&str; 3]> = ["1", "2"]
        .into_iter()
        .flat_map(|instances| ["1", "2"].map(|threads| (instances, threads)))
        .flat_map(|(instances, threads)| {
            ["1", "4", "8", "32"].map(|batch| [instances, threads, batch])
        })
        .collect();
    let mut wrong = Vec::new();
    for (name, parameters) in landscapes() {
        let repository = repository(&parameters);
        let start = Instant::now();
        let (status, reply, log) =
            recommend(&repository, &["--instance=local.cpu2", "--objective=throughput"]);
        let spent = start.elapsed();
        assert_eq!(status, Some(0), "{name}: {log}");

        let start = Instant::now();
        let one = [
            "--instance=local.cpu2",
            "--flat=continue",
            "--env=MUSTER_DEFAULT_INSTANCE_COUNT=2",
            "--phases=1:0:5,2:0:5,4:0:5,8:0:5,16:0:5,32:0:5",
        ];
        let (status, _, said) = recommend(&repository, &one);
        assert_eq!(status, Some(0), "{name}: {said}");
        let grid = start.elapsed() * whole.len() as u32;

        let found = best(&reply);
        let highest = whole.iter().map(|it| carried(&parameters, *it)).fold(0.0, f64::max);
        let reached = carried(&parameters, cell(&found)) / highest;
        let share = spent.as_secs_f64() / grid.as_secs_f64();
        println!(
            "{name}: {:.1} % of the best in {:.1} % of the time: {found}",
            reached * 100.0,
            share * 100.0
        );
        if reached < 0.97 || share > 0.25 {
            println!("{log}");
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
