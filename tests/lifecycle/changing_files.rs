//! Files of models that change while they serve: nothing of what serves changes, and a load or a look at the repository
//! sees every change of a content, whatever the files' lengths and times.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, SystemTime},
};

use serde_json::json;

use crate::support::{
    Client, IN_PROCESS, Process, Repository, Server,
    control::{EXPLICIT, load},
    wait_for,
};

const POLL: [&str; 2] = ["--model-control-mode=poll", "--repository-poll-secs=0.1"];

/// A model whose weights lie beside its file, `x` `[-1, 16]` → `y`.
fn with_weights() -> Repository {
    let repository = Repository::new().copy("m/1", "backends/onnxruntime/tests/models/external");
    set_time(&weights(&repository));
    repository
}

fn weights(repository: &Repository) -> std::path::PathBuf {
    repository.path().join("m/1/weights.bin")
}

/// The time that a reproducible build gives its files.
fn set_time(path: &Path) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Other weights of as many bytes, with the same time: zeros, of which the answers are zeros, too.
fn forget(weights: &Path) {
    let length = fs::metadata(weights).unwrap().len() as usize;
    fs::write(weights, vec![0; length]).unwrap();
    set_time(weights);
}

/// The answer to a row of ones.
fn answer(client: &mut Client) -> Vec<f64> {
    let input = json!({"name": "x", "datatype": "FP32", "shape": [1, 16], "data": vec![1.0; 16]});
    let body = json!({ "inputs": [input] }).to_string();
    let reply = client.post("/v2/models/m/infer", &[], body).expect(200).json();
    let data = reply["outputs"][0]["data"].as_array().unwrap();
    data.iter().map(|it| it.as_f64().unwrap()).collect()
}

fn is_forgotten(answer: &[f64]) -> bool {
    let first = answer[0];
    answer.iter().all(|it| *it == first)
}

/// Requests since the model was loaded.
fn counted(client: &mut Client) -> u64 {
    let statistics = client.get("/v2/models/m/stats").expect(200).json();
    statistics["model_stats"][0]["inference_count"].as_u64().unwrap()
}

#[test]
fn a_load_sees_weights_of_equal_length_and_time_and_what_serves_does_not() {
    let repository = with_weights();
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    let mut client = server.client();
    let before = answer(&mut client);
    assert!(!is_forgotten(&before));
    forget(&weights(&repository));
    assert_eq!(answer(&mut client), before);
    load(&server, "m", "").expect(200);
    assert!(is_forgotten(&answer(&mut client)));
}

#[test]
fn a_look_at_the_repository_sees_a_link_that_leads_to_weights_of_equal_length_and_time() {
    let repository = with_weights();
    let server = Server::start(&repository, &POLL);
    let mut client = server.client();
    let before = answer(&mut client);
    let (here, there) = (weights(&repository), repository.path().join("m/1/.other"));
    fs::copy(&here, &there).unwrap();
    forget(&there);
    std::os::unix::fs::symlink(".other", here.with_extension("new.tmp")).unwrap();
    assert_eq!(answer(&mut client), before);
    fs::rename(here.with_extension("new.tmp"), &here).unwrap();
    wait_for("the other weights", || is_forgotten(&answer(&mut client)).then_some(()));
}

#[test]
fn other_permissions_another_name_and_an_equal_copy_load_nothing_again() {
    let repository = with_weights();
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    let mut client = server.client();
    answer(&mut client);
    let here = weights(&repository);
    fs::set_permissions(&here, Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(&here, repository.path().join("kept")).unwrap();
    load(&server, "m", "").expect(200);
    assert_eq!(counted(&mut client), 1);
    fs::copy(&here, here.with_extension("new")).unwrap();
    set_time(&here.with_extension("new"));
    fs::rename(here.with_extension("new"), &here).unwrap();
    load(&server, "m", "").expect(200);
    assert_eq!(counted(&mut client), 1);
    // A time that is set asks for a load.
    File::options().write(true).open(&here).unwrap().set_modified(SystemTime::now()).unwrap();
    load(&server, "m", "").expect(200);
    assert_eq!(counted(&mut client), 0);
}

#[test]
fn weights_that_are_cut_or_removed_while_they_serve_change_no_answer_and_end_no_process() {
    for flags in [[IN_PROCESS].as_slice(), &["--isolation=all"]] {
        let repository = with_weights();
        let mut server = Process::start(&repository, flags, &[]);
        server.wait_ready();
        let mut client = server.client();
        let before = answer(&mut client);
        File::options().write(true).open(weights(&repository)).unwrap().set_len(0).unwrap();
        assert_eq!(answer(&mut client), before, "{flags:?}");
        fs::remove_file(weights(&repository)).unwrap();
        assert_eq!(answer(&mut client), before, "{flags:?}");
        client.get("/v2/health/live").expect(200);
    }
}

#[test]
fn no_copy_of_weights_is_left_when_the_server_has_started() {
    let repository = with_weights();
    let scratch = Repository::new();
    let variables = [("TMPDIR", scratch.path().to_str().unwrap())];
    let mut server = Process::start(&repository, &[IN_PROCESS], &variables);
    server.wait_ready();
    answer(&mut server.client());
    let left: Vec<String> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|it| it.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|it| it.starts_with("muster-weights"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn labels_of_equal_length_and_time_are_those_of_the_last_load() {
    let config = "backend: \"identity\" max_batch_size: 8
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] label_filename: \"labels.txt\" }";
    let repository =
        Repository::new().model("m", config).file("m/labels.txt", "ant\nbee\ncat\ndog\n");
    let labels = repository.path().join("m/labels.txt");
    set_time(&labels);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    let best = || {
        let body = json!({
            "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 1]}],
            "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 1}}],
        });
        server.post("/v2/models/m/infer", body.to_string()).expect(200).text()
    };
    assert!(best().contains("dog"), "{}", best());
    fs::write(&labels, "ant\nbee\ncat\nyak\n").unwrap();
    set_time(&labels);
    load(&server, "m", "").expect(200);
    assert!(best().contains("yak"), "{}", best());
}
