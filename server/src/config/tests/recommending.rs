//! Jobs of the Inference Recommender: their settings, and the variables that clients may set for servers under test.

use super::*;
use crate::config::sagemaker_variables;
use configuration::variable_of;

/// Read by libraries that engines calculate with, and not by muster.
const LIBRARIES: [&str; 5] = ["KMP_", "MKL_", "OMP_", "OPENBLAS_", "TF_"];

#[test]
fn each_variable_that_clients_may_set_is_one_that_a_server_reads() {
    let flags = flags::table();
    let own: Vec<String> = flags.all_names().map(variable_of).collect();
    let others = sagemaker_variables();
    let is_read = |name: &String| match name.starts_with("MUSTER_") {
        true => own.contains(name),
        false => {
            others.iter().any(|it| it.0 == *name) || LIBRARIES.iter().any(|it| name.starts_with(it))
        }
    };
    let unread: Vec<String> = recommender::api::settable().filter(|it| !is_read(it)).collect();
    assert!(unread.is_empty(), "no flag and no container has these: {unread:?}");
}

#[test]
fn no_variable_that_clients_may_set_is_a_secret_or_names_a_file_or_an_address() {
    let words = [
        "ADDRESS",
        "API",
        "CERT",
        "CONFIG",
        "DIR",
        "FILE",
        "KEY",
        "LIBRARY",
        "PATH",
        "PLUGIN",
        "PORT",
        "PROGRAM",
        "REPOSITORY",
        "ROOT",
    ];
    // Says yes or no.
    let switch = "MUSTER_DEFAULTS_OVER_CONFIG";
    for variable in recommender::api::settable().filter(|it| it != switch) {
        let told = variable.split('_').find(|it| words.contains(it));
        assert_eq!(told, None, "{variable}");
    }
}

#[test]
fn jobs_need_the_facade_and_their_servers_get_the_engines_of_this_one_alone() {
    let paths = &["model_repository/", "/jobs/", "/prices.toml"];
    let args = "--aws-facade --recommendation-jobs=/jobs --recommendation-prices=/prices.toml \
                --model-cache-dir=/cache --isolation=off --isolation=all --default-instance-count=2";
    let variables =
        ["MUSTER_ONNXRUNTIME_LIBRARY=/lib/ort.so", "MUSTER_API_KEY=a-secret-of-the-server"];
    let recommending = config_at(paths, args, &variables).recommending.unwrap();
    assert_eq!(recommending.jobs, Path::new("/jobs"));
    assert_eq!(recommending.prices.as_deref(), Some(Path::new("/prices.toml")));
    let passed = [
        ("MUSTER_ONNXRUNTIME_LIBRARY", "/lib/ort.so"),
        ("MUSTER_ISOLATION", "all"),
        ("MUSTER_SECURE_MODE", "true"),
    ];
    let passed = passed.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(recommending.environment, passed);
    assert_eq!(config_at(paths, "--aws-facade", &[]).recommending, None);
    // The directory is made where it is not there.
    let args = "--aws-facade --recommendation-jobs=/new --trust-load-requests=true";
    assert!(config_at(paths, args, &[]).recommending.unwrap().environment.is_empty());
}

#[test]
fn what_is_missing_beside_jobs_is_said() {
    let check = |args: &str, parts: &[&str]| {
        let problems = read_at(&["model_repository/", "/jobs/", "/prices.toml"], args, &[]);
        let problem = problems.expect_err("it must not be taken").to_string();
        assert!(parts.iter().all(|it| problem.contains(it)), "{problem}");
    };
    check("--recommendation-jobs=/jobs", &["--recommendation-jobs '/jobs'", "--aws-facade beside"]);
    check(
        "--aws-facade --recommendation-prices=/prices.toml",
        &["--recommendation-prices '/prices.toml'", "--recommendation-jobs beside"],
    );
    check("--aws-facade --recommendation-jobs=/prices.toml", &["expected a directory"]);
    let args = "--aws-facade --recommendation-jobs=/jobs --recommendation-prices=/none";
    check(args, &["--recommendation-prices '/none'", "expected a file"]);
}
