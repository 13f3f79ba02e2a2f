//! Models that are named one by one, as TensorFlow Serving does: which of their versions serve, what becomes of them
//! when the file or the directories change, and what is said of what is wrong.

use std::{fs, path::Path};

use crate::support::{
    Page, Process, Repository, Start, Traffic,
    control::wait_for_index,
    first_of, infer,
    model_config_file::{PORTS, config, start},
    root, row, wait_for,
};

const SOON: [&str; 2] =
    ["--model-config-file-poll-wait-seconds=0.05", "--file-system-poll-wait-seconds=0.05"];

/// Puts the file in its place at once, as a mounted configuration map is changed.
fn write(path: &Path, text: &str) {
    let aside = path.with_extension("new");
    fs::write(&aside, text).unwrap();
    fs::rename(&aside, path).unwrap();
}

/// Gives a model of the repository more versions, called as TensorFlow's exporters call them.
fn with_versions(repository: Repository, model: &str, versions: &[u64]) -> Repository {
    let add = |it: Repository, version: &u64| it.file(&format!("{model}/{version:08}/any"), "");
    versions.iter().fold(repository, add)
}

#[test]
fn the_models_of_the_file_serve_under_its_names_in_the_versions_of_its_policies() {
    let repository = Repository::identity("a", &[]).fixture("b", "mlp");
    let repository = with_versions(repository, "a", &[2, 3]);
    let all = "model_version_policy { all { } }";
    let text = config(&repository, &[("first", "a", all), ("second", "b", "")]);
    let repository = repository.file("models.config", text);
    let server = start(&repository, &[]).run();
    wait_for_index(&server, &["first:1 READY", "first:2 READY", "first:3 READY", "second:1 READY"]);
    assert_eq!(first_of(&server.post(&infer("first"), row(5))), 5.0);
    let status = server.get("/v1/models/first/versions/2").expect(200).text();
    assert!(status.contains("AVAILABLE"), "{status}");
    server.get("/v2/models/second/ready").expect(200);
    let refused = server.post("/v2/repository/models/first/load", "").error(503);
    assert!(refused.contains("--model-control-mode=explicit"), "{refused}");
}

#[test]
fn a_file_that_changes_replaces_the_whole_configuration_and_a_bad_one_changes_nothing() {
    let repository = with_versions(Repository::identity("a", &[]), "a", &[2]);
    let repository = repository.with_identity("b", &[]);
    let specific = |version: u64| {
        let policy = format!("model_version_policy {{ specific {{ versions: {version} }} }}");
        config(&repository, &[("a", "a", &policy)])
    };
    let file = repository.path().join("models.config");
    write(&file, &specific(1));
    let server = start(&repository, &SOON).run();
    wait_for_index(&server, &["a:1 READY"]);
    let traffic = Traffic::start(server.http(), "a", 4);
    traffic.wait_for_more(10);
    write(&file, &specific(2));
    wait_for_index(&server, &["a:1 UNAVAILABLE (unloaded)", "a:2 READY"]);
    write(&file, "model_config_list { config { name: 'a' } ");
    write(&file, &config(&repository, &[("a", "gone", "")]));
    traffic.wait_for_more(100);
    traffic.stop();
    server.get("/v2/models/a/versions/2/ready").expect(200);
    write(&file, &config(&repository, &[("b", "b", "")]));
    let gone = "UNAVAILABLE (unloaded)";
    wait_for_index(&server, &[&format!("a:1 {gone}"), &format!("a:2 {gone}"), "b:1 READY"]);
    server.post(&infer("a"), row(1)).error(404);
    assert_eq!(first_of(&server.post(&infer("b"), row(2))), 2.0);
}

#[test]
fn what_is_wrong_with_a_file_that_has_changed_is_said_once_with_its_place() {
    let repository = Repository::identity("a", &[]);
    let file = repository.path().join("models.config");
    write(&file, &config(&repository, &[("a", "a", "")]));
    let name = format!("--model-config-file={}", file.display());
    let address = ["--http-address=127.0.0.1", "--drain-delay-secs=0"];
    let flags = [&[&*name], &PORTS[..], &SOON[..], &address[..]].concat();
    let mut server = Process::command(&flags, &[]);
    server.wait_ready();
    write(&file, "model_config_list {\n  config { nam: 'a' }\n}");
    let line = server.wait_for_line("changes nothing");
    assert!(line.contains("models.config:2:12: 'nam' is not a field of"), "{line}");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let said = server.log().iter().filter(|it| it.contains("changes nothing")).count();
    assert_eq!(said, 1);
    server.client().get("/v2/models/a/ready").expect(200);
}

#[test]
fn a_file_that_names_a_version_before_it_is_there_is_taken_up_when_it_is_and_told_of_once() {
    let repository = Repository::identity("a", &[]);
    let file = repository.path().join("models.config");
    write(&file, &config(&repository, &[("a", "a", "")]));
    let name = format!("--model-config-file={}", file.display());
    let flags = [&[&*name, "--http-address=127.0.0.1"], &PORTS[..], &SOON[..]].concat();
    let mut server = Process::command(&flags, &[]);
    server.wait_ready();
    let specific = "model_version_policy { specific { versions: 1 versions: 2 } }";
    let label = "version_labels { key: 'next' value: 2 }";
    write(&file, &config(&repository, &[("a", "a", &format!("{specific} {label}"))]));
    let line = server.wait_for_line("could be done");
    assert!(line.contains("'next' stands for version 2"), "{line}");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let said = server.log().iter().filter(|it| it.contains("could be done")).count();
    assert_eq!(said, 1);
    let repository = with_versions(repository, "a", &[2]);
    let mut client = server.client();
    wait_for("the label to count", || {
        (client.get("/v1/models/a/labels/next").status == 200).then_some(())
    });
    drop(repository);
}

#[test]
fn a_version_that_comes_serves_before_the_old_one_goes() {
    let repository = Repository::identity("a", &[]);
    let base_path = format!("--model-base-path={}", repository.at("a"));
    let flags = [&PORTS[..], &[&*base_path, "--model-name=m", SOON[1]]].concat();
    let server = Start::command(&flags).run();
    wait_for_index(&server, &["m:1 READY"]);
    let traffic = Traffic::start(server.http(), "m", 4);
    traffic.wait_for_more(10);
    let repository = with_versions(repository, "a", &[12]);
    wait_for_index(&server, &["m:1 UNAVAILABLE (unloaded)", "m:12 READY"]);
    traffic.wait_for_more(10);
    traffic.stop();
    drop(repository);
}

#[test]
fn a_model_without_a_name_is_called_default_and_directories_need_not_be_followed() {
    let repository = Repository::identity("a", &[]);
    let base_path = format!("--model-base-path={}", repository.at("a"));
    let flags = [&PORTS[..], &[&*base_path, "--file-system-poll-wait-seconds=0"]].concat();
    let server = Start::command(&flags).run();
    wait_for_index(&server, &["default:1 READY"]);
    let repository = with_versions(repository, "a", &[2]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    wait_for_index(&server, &["default:1 READY"]);
    drop(repository);
}

#[test]
fn a_saved_model_without_tensorflows_library_says_how_to_convert_it() {
    let model = "tests/fixtures/savedmodels/half_plus_two/1";
    let repository = Repository::new().copy("half/00000001", model);
    let text = config(&repository, &[("half", "half", "")]);
    let repository = repository.file("models.config", text);
    let nowhere = "--tensorflow-library=/nowhere/libtensorflow_cc.so.2";
    let server = start(&repository, &["--strict-readiness=false", nowhere]).run();
    let status = wait_for("the failure", || {
        let index = server.post("/v2/repository/index", "").text();
        index.contains("UNAVAILABLE").then_some(index)
    });
    assert!(status.contains("tf2onnx.convert --saved-model"), "{status}");
    // Converted beside it, it is served.
    let model = fs::read(root("tests/fixtures/models/mlp/1/model.onnx")).unwrap();
    let repository = repository.file("half/00000001/model.onnx", model);
    let mut again = start(&repository, &[]).run();
    wait_for_index(&again, &["half:1 READY"]);
    again.begin_stop();
}

#[test]
fn a_start_with_a_bad_file_ends_with_all_that_is_wrong() {
    let repository = Repository::identity("a", &[]);
    let refused = |text: &str| {
        fs::write(repository.path().join("models.config"), text).unwrap();
        start(&repository, &[]).try_run().err().expect("it must not start").to_string()
    };
    let error =
        refused("model_config_list {\n config { name: 'a' base: 'b' }\n config { version: 1 }\n}");
    for part in ["models.config:2:21: 'base'", "models.config:3:11: 'version'"] {
        assert!(error.contains(part), "{error}");
    }
    let error = refused("model_config_list { config { name: 'a' } config { base_path: '/b' } }");
    for part in ["config[0].base_path: expected", "config[1].name: expected"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_directory_that_is_not_there_yet_is_waited_for() {
    let repository = Repository::identity("a", &[]);
    let text = config(&repository, &[("a", "a", ""), ("b", "b", "")]);
    let repository = repository.file("models.config", text);
    let server = start(&repository, &SOON).run();
    let index = server.post("/v2/repository/index", "").text();
    assert!(index.contains("cannot list base_path"), "{index}");
    let repository = repository.with_identity("b", &[]);
    wait_for_index(&server, &["a:1 READY", "b:1 READY"]);
    drop(repository);
}

#[test]
fn where_models_are_is_said_once() {
    let repository = Repository::identity("a", &[]).file("models.config", "");
    let other = format!("--model-repository={}", repository.at(""));
    let error = start(&repository, &[&other]).config().unwrap_err();
    assert!(error.contains("does not go with --model-config-file"), "{error}");
    let error = start(&repository, &["--model-control-mode=explicit"]).config().unwrap_err();
    assert!(error.contains("expected none or poll"), "{error}");
    let missing = format!("--model-config-file={}", repository.at("missing"));
    let error = Start::command(&[&missing]).config().unwrap_err();
    assert!(
        error.contains("expected a file in the text format of protobufs, there is none"),
        "{error}"
    );
    let empty = start(&repository, &[]).run();
    empty.get("/v2/health/ready").expect(200);
}

#[test]
fn labels_of_the_file_are_found_by_rest() {
    let repository = with_versions(Repository::identity("a", &[]), "a", &[2, 3]);
    let labels = "model_version_policy { all { } } \
                  version_labels { key: 'stable' value: 2 } version_labels { key: 'next' value: 3 }";
    let text = config(&repository, &[("a", "a", labels)]);
    let repository = repository.file("models.config", text);
    let server = start(&repository, &[]).run();
    let body = r#"{"instances":[[5,2,3,4]]}"#;
    for (label, version) in [("stable", "2"), ("next", "3")] {
        let path = format!("/v1/models/a/labels/{label}");
        let reply = server.post(&format!("{path}:predict"), body).expect(200).json();
        assert_eq!(reply["predictions"][0][0], 5.0);
        let status = server.get(&path).expect(200).json();
        let states = status["model_version_status"].as_array().unwrap();
        assert_eq!((states.len(), &states[0]["version"]), (1, &version.into()), "{status}");
        assert_eq!(states[0]["state"], "AVAILABLE");
        let counted = format!("nv_inference_request_success{{model=\"a\",version=\"{version}\"}}");
        assert_eq!(Page::read(server.http()).value(&counted), 1.0);
    }
    server.post("/v1/models/a/labels/other:predict", body).error(400);
    server.get("/v1/models/a/labels/other").error(400);
}
