//! SavedModels in the folder of a hosting platform, of which no variable says whose container is meant: they serve as
//! in that of TensorFlow Serving, which needs none.

use serde_json::{Value, json};

use crate::{
    hosting::hosted_process,
    support::{
        Client, Process, Repository,
        savedmodels::{FIXTURES, library},
    },
};

/// The server over that folder, with these variables besides; `None` where there is no library.
fn hosted(repository: &Repository, variables: &[(&str, &str)]) -> Option<Process> {
    let flag = library()?;
    let file = flag.split_once('=').map(|it| ("MUSTER_TENSORFLOW_LIBRARY", it.1));
    let variables: Vec<(&str, &str)> = file.into_iter().chain(variables.iter().copied()).collect();
    let mut process = hosted_process(repository, &variables);
    process.wait_ready();
    Some(process)
}

/// Status of a request for three numbers, with that custom attribute.
fn asked(process: &mut Process, attribute: &str) -> u16 {
    let mut client = Client::connect(process.address("sagemaker"));
    let headers =
        [("Content-Type", "application/json"), ("X-Amzn-SageMaker-Custom-Attributes", attribute)];
    let headers = if attribute.is_empty() { &headers[..1] } else { &headers };
    client.post("/invocations", headers, json!({"instances": [1.0, 2.0, 5.0]}).to_string()).status
}

fn versions(place: &str, numbers: &[&str]) -> Repository {
    let half = format!("{FIXTURES}/half_plus_two/1");
    let add = |it: Repository, number: &&str| it.copy(&format!("{place}/{number}"), &half);
    numbers.iter().fold(Repository::new(), add)
}

#[test]
fn every_version_of_a_saved_model_serves_without_a_variable() {
    for place in ["model/export/Servo", "model", "model/half"] {
        let repository = versions(place, &["1", "0002", "10"]);
        let Some(mut process) = hosted(&repository, &[]) else { return };
        assert_eq!(asked(&mut process, ""), 200, "{place}");
        for version in [1, 2, 10] {
            let attribute = format!("tfs-model-version={version}");
            assert_eq!(asked(&mut process, &attribute), 200, "{place} {version}");
        }
        assert_eq!(asked(&mut process, "tfs-model-version=3"), 404, "{place}");
    }
}

/// What that body gets, with the type of its answer.
fn invoked(process: &mut Process, kind: &str, attributes: &str, body: &str) -> (Value, String) {
    let mut client = Client::connect(process.address("sagemaker"));
    let headers = [("Content-Type", kind), ("X-Amzn-SageMaker-Custom-Attributes", attributes)];
    let reply = client.post("/invocations", &headers, body).expect(200);
    (reply.json(), reply.header("content-type").unwrap().to_owned())
}

#[test]
fn the_layout_of_the_folder_says_that_bodies_are_those_of_tensorflow_servings_container() {
    // The model of the container's own tests, and the bodies of those.
    let model = format!("{FIXTURES}/half_plus_three/1");
    let (row, list) = (json!([3.5, 4.0, 5.5]), "[1.0, 2.0, 5.0]");
    let (json_type, csv) = ("application/json", "text/csv");
    let lines = format!("{list}\n{list}");
    let objects = "{\"x\": [1.0, 2.0, 5.0]}\n{\"x\": [1.0, 2.0, 5.0]}";
    let cases = [
        (json_type, "{\"instances\": [1.0, 2.0, 5.0]}", row.clone()),
        (json_type, "{\"instances\": [[1.0, 2.0, 5.0], [1.0, 2.0, 5.0]]}", json!([row, row])),
        (json_type, list, json!([row])),
        (json_type, "[[1.0, 2.0, 5.0], [1.0, 2.0, 5.0]]", json!([row, row])),
        (json_type, "{\"x\": [1.0, 2.0, 5.0]}", json!([row])),
        (json_type, "1.0", json!([3.5])),
        (json_type, &*lines, json!([row, row])),
        (json_type, objects, json!([row, row])),
        ("application/jsonlines", &*lines, json!([row, row])),
        ("application/jsons", &*lines, json!([row, row])),
        ("application/jsonlines", list, json!([row])),
        (csv, "1.0", json!([3.5])),
        (csv, "0.0", json!([3.0])),
        (csv, "1.0\n2.0\n5.0", row.clone()),
        (csv, "1.0,2.0,5.0", json!([row])),
        (csv, "1.0,2.0,5.0\n1.0,2.0,5.0", json!([row, row])),
    ];
    for place in ["model/half_plus_three/00000123", "model/export/Servo/123", "model/123"] {
        let repository = Repository::new().copy(place, &model);
        let Some(mut process) = hosted(&repository, &[]) else { return };
        for (kind, body, expected) in &cases {
            let (given, kind_of_reply) = invoked(&mut process, kind, "", body);
            assert_eq!(given, json!({"predictions": expected}), "{place} {kind} {body}");
            assert_eq!(kind_of_reply, "application/json", "{place} {kind} {body}");
        }
        // The signature says that it takes floats. Its node takes texts.
        for (examples, expected) in
            [("{\"x\": 1.0}, {\"x\": 2.0}", json!([3.5, 4.0])), ("{\"x\": 1.0}", json!([3.5]))]
        {
            let body = format!(
                "{{\"signature_name\": \"tensorflow/serving/regress\", \"examples\": [{examples}]}}"
            );
            let (given, _) = invoked(&mut process, json_type, "tfs-method=regress", &body);
            assert_eq!(given, json!({"results": expected}), "{place} {examples}");
        }
    }
    // Rows of a declared shape.
    let half = format!("{FIXTURES}/half_plus_two/1");
    let repository = Repository::new().copy("model/half/1", &half);
    let mut process = hosted(&repository, &[]).unwrap();
    let (given, _) = invoked(&mut process, json_type, "", "[1.0]");
    assert_eq!(given, json!({"predictions": [[2.5]]}));
    let (given, _) = invoked(&mut process, csv, "", "1.0\n2.0");
    assert_eq!(given, json!({"predictions": [[2.5], [3.0]]}));
}

#[test]
fn a_variable_or_another_layout_goes_before_the_layout_of_tensorflow_serving() {
    let half = format!("{FIXTURES}/half_plus_two/1");
    let bare = json!([[2.5]]);
    // Triton has a folder in the version's.
    let repository = Repository::new().copy("model/half/1/model.savedmodel", &half);
    let Some(mut process) = hosted(&repository, &[]) else { return };
    assert_eq!(invoked(&mut process, "application/json", "", "[[1.0]]").0, bare);
    let repository = Repository::new().copy("model/half/1", &half);
    let toolkit = [("MUSTER_SAGEMAKER_DIALECT", "toolkit")];
    let mut process = hosted(&repository, &toolkit).unwrap();
    assert_eq!(invoked(&mut process, "application/json", "", "[[1.0]]").0, bare);
}

#[test]
fn a_model_is_asked_for_by_the_name_of_its_folder() {
    let places = [
        ("model/export/Servo", "Servo"),
        ("model", "model"),
        ("model/half", "half"),
        ("model/some/where/half", "half"),
    ];
    for (place, name) in places {
        let Some(mut process) = hosted(&versions(place, &["1"]), &[]) else { return };
        assert_eq!(asked(&mut process, &format!("tfs-model-name={name}")), 200, "{place}");
        assert_eq!(asked(&mut process, "tfs-model-name=other"), 404, "{place}");
    }
}

#[test]
fn where_a_variable_or_a_configuration_says_otherwise_the_latest_version_serves() {
    let repository = versions("model/half", &["1", "2"]);
    let triton = [("MUSTER_SAGEMAKER_DIALECT", "triton")];
    let Some(mut process) = hosted(&repository, &triton) else { return };
    let are_there = |process: &mut Process| {
        [1, 2].map(|it| asked(process, &format!("tfs-model-version={it}")) != 404)
    };
    assert_eq!(are_there(&mut process), [false, true]);
    let policy = "version_policy { latest { num_versions: 1 } }";
    let repository = repository.file("model/half/config.pbtxt", policy);
    let mut process = hosted(&repository, &[]).unwrap();
    assert_eq!(are_there(&mut process), [false, true]);
}

#[test]
fn of_several_saved_models_all_serve_and_the_first_or_the_named_one_is_the_default() {
    let repository = versions("model/b", &["1"]);
    let several = format!("{FIXTURES}/several/1");
    let repository = repository.copy("model/a/1", &several);
    let Some(mut process) = hosted(&repository, &[]) else { return };
    // The first has no input of that kind.
    assert_eq!(asked(&mut process, ""), 400);
    assert_eq!(asked(&mut process, "tfs-model-name=b"), 200);
    let named = [("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "b")];
    let mut process = hosted(&repository, &named).unwrap();
    assert_eq!(asked(&mut process, ""), 200);
}
