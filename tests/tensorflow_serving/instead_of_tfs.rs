//! What an operator of TensorFlow Serving has, as it is: a file of models with labels, and what SavedModels say of
//! their own sessions.

use serde_json::json;

use crate::support::{
    Repository,
    savedmodels::{FIXTURES, instead_of_tfs, post, serve_those},
};

#[test]
fn a_file_of_models_with_platform_labels_and_two_versions_serves_them() {
    let versions = Repository::new()
        .copy("models/half/1", &format!("{FIXTURES}/half_plus_two/1"))
        .copy("models/half/2", &format!("{FIXTURES}/half_plus_two/1"));
    let base = versions.at("models/half");
    let text = format!(
        "model_config_list {{ config {{ name: 'half' base_path: '{base}' model_platform: 'tensorflow'\n\
         model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}\n\
         version_labels {{ key: 'stable' value: 1 }} version_labels {{ key: 'canary' value: 2 }} }} }}"
    );
    let repository = versions.file("models.config", text);
    let file = format!("--model_config_file={}", repository.at("models.config"));
    let Some(mut process) = instead_of_tfs(&[&*file]) else { return };
    let mut client = process.client();
    for place in ["", "/labels/stable", "/labels/canary", "/versions/1", "/versions/2"] {
        let path = format!("/v1/models/half{place}:predict");
        let reply = post(&mut client, &path, &json!({"instances": [1.0, 2.0, 5.0]}));
        assert_eq!(reply, json!({"predictions": [2.5, 3.0, 4.5]}), "{place}");
    }
    let status = client.get("/v1/models/half").expect(200).json();
    let states = status["model_version_status"].as_array().unwrap();
    assert!(states.len() == 2 && states.iter().all(|it| it["state"] == "AVAILABLE"), "{status}");
    let about: Vec<String> =
        process.log().into_iter().filter(|it| it.contains("platform")).collect();
    assert!(about.is_empty(), "{about:?}");
}

#[test]
fn what_a_saved_model_says_of_its_session_is_heeded_or_named() {
    // Fields 1 to 3 of session_overrides; tfrt_runtime_config; critical.
    let config = [0x0a, 6, 0x0a, 0, 0x12, 0, 0x18, 1, 0x12, 0, 0x18, 1];
    let file = |model: &str| format!("{model}/1/assets.extra/saved_model_config.pb");
    let half = format!("{FIXTURES}/half_plus_two");
    let repository = Repository::new()
        .copy("own", &half)
        .file(&file("own"), config)
        .copy("damaged", &half)
        .file(&file("damaged"), [0x0a, 9])
        .copy("none", &half);
    let flags = ["--strict-readiness=false"];
    let Some((mut process, _repository)) = serve_those(repository, &flags) else { return };
    let line = process.wait_for_line("its saved_model_config.pb");
    let said = "the meta optimizer is off; without effect here: session_overrides.remote_op_remap_config, \
                session_overrides.batch_op_rewriter_config, tfrt_runtime_config, critical";
    assert!(line.contains(said) && line.contains("own"), "{line}");
    let mut client = process.client();
    for model in ["own", "none"] {
        let path = format!("/v1/models/{model}:predict");
        let reply = post(&mut client, &path, &json!({"instances": [1.0]}));
        assert_eq!(reply, json!({"predictions": [2.5]}));
    }
    let error = client.get("/v2/models/damaged/ready").error(503);
    assert!(error.contains("saved_model_config.pb: is no SavedModelConfig"), "{error}");
}
