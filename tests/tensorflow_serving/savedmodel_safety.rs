//! What a SavedModel may reach: files of its own directory, and beyond it only where the operator lets it.

use std::{fs, os::unix::fs::symlink, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::support::{
    Form, Process, Repository, Tensor,
    control::EXPLICIT,
    root,
    savedmodels::{FIXTURES, flag, post, serve_those},
    skip,
    workers::workers,
};

fn fixture(name: &str) -> String {
    format!("{FIXTURES}/{name}")
}

/// Why that model is not ready.
fn problem(process: &mut Process, model: &str) -> String {
    process.client().get(&format!("/v2/models/{model}/ready")).error(503)
}

#[test]
fn files_outside_of_the_models_directory_are_not_followed_and_missing_ones_are_load_errors() {
    let words = fixture("words");
    let models = ["inside", "asset", "variables", "folder", "nowhere", "no_asset"];
    let repository = models.iter().fold(Repository::new(), |it, name| it.copy(name, &words));
    let repository = repository.copy("no_variables", &fixture("half_plus_two"));
    let repository = repository.copy("other", &words);
    let at = |place: &str| repository.path().join(place);
    let link = |place: &str, target: &Path| {
        let place = at(place);
        match place.is_dir() {
            true => fs::remove_dir_all(&place).unwrap(),
            false => fs::remove_file(&place).unwrap(),
        }
        symlink(target, place).unwrap();
    };
    fs::copy(at("other/1/assets/vocabulary.txt"), at("inside/own.txt")).unwrap();
    link("inside/1/assets/vocabulary.txt", Path::new("../../own.txt"));
    link("asset/1/assets/vocabulary.txt", &at("other/1/assets/vocabulary.txt"));
    link("variables/1/variables/variables.index", &at("other/1/variables/variables.index"));
    link("folder/1/assets", &at("other/1/assets"));
    link("nowhere/1/assets/vocabulary.txt", Path::new("/nowhere"));
    fs::remove_file(at("no_asset/1/assets/vocabulary.txt")).unwrap();
    fs::remove_dir_all(at("no_variables/1/variables")).unwrap();
    let flags = ["--strict-readiness=false"];
    let Some((mut process, _repository)) = serve_those(repository, &flags) else { return };
    for model in ["inside", "other"] {
        let input = Tensor::strings("text", &[1], &[b"bob"]);
        let reply = process.client().infer(model, &[input], Form::Binary, "").expect(200);
        let id = reply.outputs().into_iter().find(|it| it.name == "id").unwrap();
        assert_eq!(id.numbers(), [1.0]);
    }
    for (model, parts) in [
        ("asset", ["assets/vocabulary.txt", "out of the model's directory"]),
        ("variables", ["variables/variables.index", "out of the model's directory"]),
        ("folder", ["1/assets", "out of the model's directory"]),
        ("nowhere", ["assets/vocabulary.txt", "a link to what is not there"]),
        ("no_asset", ["assets/vocabulary.txt", "is not there"]),
        ("no_variables", ["their values are missing", "variables/variables.index"]),
    ] {
        let error = problem(&mut process, model);
        assert!(parts.iter().all(|it| error.contains(it)), "{model}: {error}");
    }
}

#[test]
fn a_graph_that_writes_files_is_refused_in_secure_mode_and_has_a_warning_without_it() {
    let models = || {
        Repository::new()
            .copy("writes", &fixture("writes"))
            .copy("half_plus_two", &fixture("half_plus_two"))
    };
    let flags = ["--strict-readiness=false", "--secure-mode=true"];
    let Some((mut process, _repository)) = serve_those(models(), &flags) else { return };
    let error = problem(&mut process, "writes");
    for part in ["/write'", "WriteFile", "--secure-mode"] {
        assert!(error.contains(part), "{error}");
    }
    let body = json!({"instances": [1.0]});
    post(&mut process.client(), "/v1/models/half_plus_two:predict", &body);
    let Some((mut process, _repository)) = serve_those(models(), &[]) else { return };
    process.client().get("/v2/models/writes/ready").expect(200);
    let log = process.log();
    let lines = log.iter().filter(|it| it.contains("reaches files of the server"));
    // One of its own may have tried it for the server.
    let is_apart = !workers(process.id()).is_empty();
    let is_where_it_runs = |it: &&String| it.contains("worker=") == is_apart;
    let lines: Vec<_> = lines.filter(|it| it.contains("WARN")).filter(is_where_it_runs).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("WriteFile") && lines[0].contains("model=writes"), "{lines:#?}");
}

#[test]
fn a_graph_that_came_with_a_request_reaches_files_only_where_the_operator_trusts_requests() {
    let graph = fs::read(root(&fixture("writes/1/saved_model.pb"))).unwrap();
    let body = json!({"parameters": {
        "config": "{\"backend\": \"tensorflow\"}",
        "file:1/saved_model.pb": STANDARD.encode(&graph),
    }});
    let load = |flags: &[&str]| {
        // The same model is the operator's own in the repository.
        let repository = Repository::new().copy("own", &fixture("writes"));
        let (mut process, _repository) = serve_those(repository, flags)?;
        let mut client = process.client();
        client.get("/v2/models/own/ready").expect(200);
        Some(client.post("/v2/repository/models/writes/load", &[], body.to_string()))
    };
    let flags = [EXPLICIT, "--load-model=own"];
    let Some(reply) = load(&flags) else { return };
    let error = reply.error(400);
    for part in ["/write'", "WriteFile", "--trust-load-requests=true"] {
        assert!(error.contains(part), "{error}");
    }
    load(&[&flags[..], &["--trust-load-requests=true"]].concat()).unwrap().expect(200);
}

#[test]
fn a_model_has_operators_from_the_libraries_that_its_configuration_names() {
    let library = flag().split_once('=').unwrap().1.to_owned();
    let operators = Path::new(&library).ancestors().nth(2).unwrap().join("text");
    let operators = operators.join("_whitespace_tokenizer.so");
    if !operators.is_file() {
        return skip(
            "operators of TensorFlow Text: python3 backends/tensorflow/prepare.py --text has not been run",
        );
    }
    let models = || {
        let config =
            format!("model_operations {{ op_library_filename: \"{}\" }}\n", operators.display());
        Repository::new()
            .copy("tokens", &fixture("tokens"))
            .file("tokens/config.pbtxt", config)
            .copy("half_plus_two", &fixture("half_plus_two"))
    };
    let Some((mut process, _repository)) = serve_those(models(), &[]) else { return };
    let body = json!({"inputs": ["ann  bob", "x"]});
    let reply = post(&mut process.client(), "/v1/models/tokens:predict", &body);
    // Each text has a last word of the model's own, a dot.
    let letters = [97, 110, 110, 98, 111, 98, 46, 120, 46];
    let expected = json!({"letters": letters, "words": [0, 3, 6, 7, 8, 9], "texts": [0, 3, 5]});
    assert_eq!(reply["outputs"], expected);

    let flags = ["--strict-readiness=false", "--secure-mode=true"];
    let Some((mut process, _repository)) = serve_those(models(), &flags) else { return };
    let error = problem(&mut process, "tokens");
    assert!(error.contains("libraries of operators are code"), "{error}");

    let plain = Repository::new()
        .copy("tokens", &fixture("tokens"))
        .copy("half_plus_two", &fixture("half_plus_two"));
    let flags = ["--strict-readiness=false"];
    let Some((mut process, _repository)) = serve_those(plain, &flags) else { return };
    let error = problem(&mut process, "tokens");
    for part in ["WhitespaceTokenizeWithOffsets", "model_operations", "op_library_filename"] {
        assert!(error.contains(part), "{error}");
    }
}
