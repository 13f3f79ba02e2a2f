//! Which engine is found for what, and the words when none is.

use super::*;
use crate::config::{
    engines::{told_by_content, usual},
    pbtxt::ConfigReader,
};

fn chosen(
    model: &str,
    text: Option<&str>,
    files: &[&str],
    completion: Completion,
) -> Result<EngineChoice, ConfigErrors> {
    let raw = text.map(|it| ConfigReader::default().parse_text("", it).unwrap());
    let files: Vec<String> = files.iter().map(|&it| it.to_owned()).collect();
    let found = VersionFiles { model, directory: Path::new("/repository/m/1"), files: &files };
    choose(raw.as_ref(), found, &usual(), completion)
}

#[track_caller]
fn check(text: &str, files: &[&str], platform: &str, backend: &str, file: Option<&str>) {
    let choice = chosen("m", Some(text), files, Completion::On).unwrap();
    assert_eq!((choice.platform.as_str(), choice.backend.as_str()), (platform, backend));
    assert_eq!(choice.default_model_filename.as_deref(), file);
}

#[track_caller]
fn refused(text: &str, files: &[&str], expected: &str) {
    let errors = chosen("m", Some(text), files, Completion::On).unwrap_err();
    assert_eq!(errors.to_string(), format!("configuration of model 'm': {expected}"));
}

#[test]
fn the_file_tells_the_engine_in_a_fixed_order() {
    check("", &["model.onnx"], "onnxruntime_onnx", "onnxruntime", Some("model.onnx"));
    check("", &["model.pt", "x"], "pytorch_libtorch", "pytorch", Some("model.pt"));
    check("", &["model.pt2"], "torch_aoti", "pytorch", Some("model.pt2"));
    check("", &["model.pt", "model.onnx"], "onnxruntime_onnx", "onnxruntime", Some("model.onnx"));
    let named = "default_model_filename: 'net.onnx'";
    check(named, &["net.onnx", "model.pt"], "onnxruntime_onnx", "onnxruntime", Some("net.onnx"));
}

#[test]
fn platform_and_backend_complete_each_other() {
    check(
        "platform: 'onnxruntime_onnx'",
        &[],
        "onnxruntime_onnx",
        "onnxruntime",
        Some("model.onnx"),
    );
    check("backend: 'onnxruntime'", &[], "onnxruntime_onnx", "onnxruntime", Some("model.onnx"));
    check("platform: 'libtorch'", &[], "pytorch_libtorch", "pytorch", Some("model.pt"));
    check("backend: 'pytorch'", &["model.pt2"], "torch_aoti", "pytorch", Some("model.pt2"));
    check("backend: 'identity'", &[], "", "identity", None);
}

#[test]
fn a_file_outside_of_the_models_folder_is_refused_before_any_engine_opens_it() {
    refused(
        "backend: 'onnxruntime' default_model_filename: '../../x.onnx'",
        &[],
        "default_model_filename: '../../x.onnx' leads out of the model's folder; expected a \
         relative path without '..'",
    );
}

#[test]
fn the_only_file_of_a_format_is_the_model_whatever_its_name() {
    let file = |text, files: &[&str]| -> Result<(String, String), ConfigErrors> {
        let choice = chosen("m", text, files, Completion::On)?;
        Ok((choice.backend, choice.default_model_filename.unwrap_or_default()))
    };
    let found = |backend: &str, file: &str| Ok((backend.to_owned(), file.to_owned()));
    assert_eq!(file(None, &["resnet.onnx", "labels.txt"]), found("onnxruntime", "resnet.onnx"));
    assert_eq!(file(None, &["net.pth"]), found("pytorch", "net.pth"));
    assert_eq!(file(None, &["onnx", "onnx/model.onnx"]), found("onnxruntime", "onnx/model.onnx"));
    let backend = Some("backend: 'onnxruntime'");
    assert_eq!(file(backend, &["resnet.onnx"]), found("onnxruntime", "resnet.onnx"));
    assert_eq!(file(backend, &["a.onnx", "b.onnx"]), found("onnxruntime", "model.onnx"));
    assert_eq!(file(None, &["model.onnx", "b.onnx"]), found("onnxruntime", "model.onnx"));
    file(None, &["a.onnx", "b.onnx"]).unwrap_err();
}

#[test]
fn the_ending_of_the_name_tells_the_engine_when_no_file_does() {
    let choice = chosen("copy.identity", None, &[], Completion::On).unwrap();
    assert_eq!(choice.backend, "identity");
}

#[test]
fn settings_reach_the_engine_under_their_names() {
    let text = "backend: 'onnxruntime' optimization { graph { level: 1 } }
                parameters { key: 'execution_mode' value { string_value: '1' } }";
    let options = chosen("m", Some(text), &[], Completion::On).unwrap().options;
    let options: Vec<(&str, &str)> =
        options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(options, [("execution_mode", "1"), ("optimization.graph.level", "1")]);
}

#[test]
fn a_model_without_a_sign_of_its_engine_is_refused_with_what_was_looked_for() {
    refused(
        "",
        &["weights.bin", "readme"],
        "there is no model in '/repository/m/1', which holds weights.bin, readme; expected \
         model.onnx or model.savedmodel or saved_model.pb or model.pt",
    );
    let errors = chosen("m", None, &["model.onnx"], Completion::Off).unwrap_err();
    assert_eq!(
        errors.problems,
        ["neither backend nor platform is given, and auto-completion is off"]
    );
}

#[test]
fn a_wrong_pair_names_both() {
    refused(
        "platform: 'onnxruntime_onnx' backend: 'pytorch'",
        &[],
        "platform 'onnxruntime_onnx' goes with backend 'onnxruntime', given 'pytorch'",
    );
    refused(
        "platform: 'onnx_runtime_onnx'",
        &[],
        "platform 'onnx_runtime_onnx' is not known; expected one of tensorrt_plan, \
         onnxruntime_onnx, tensorflow_savedmodel, pytorch_libtorch, torch_aoti; did you mean 'onnxruntime_onnx'?",
    );
}

#[test]
fn an_engine_that_the_server_lacks_is_named_with_the_nearest() {
    refused(
        "backend: 'onnx_runtime'",
        &[],
        "backend 'onnx_runtime' is not among this server's: identity, onnxruntime, pytorch, tensorflow; \
         did you mean 'onnxruntime'?",
    );
    refused(
        "",
        &["model.plan"],
        "backend 'tensorrt' is not among this server's: identity, onnxruntime, pytorch, tensorflow; \
         serve the ONNX file that the plan was built from",
    );
}

#[test]
fn of_what_only_other_servers_have_it_is_said_what_to_do() {
    refused(
        "backend: 'vllm'",
        &[],
        "backend 'vllm' is not among this server's: identity, onnxruntime, pytorch, tensorflow; muster serves no models \
         that write a text token by token",
    );
    refused(
        "backend: 'mlflow'",
        &[],
        "backend 'mlflow' is not among this server's: identity, onnxruntime, pytorch, tensorflow; leave the \
         backend out: the MLmodel of MLflow's folder tells how it is served",
    );
}

#[test]
fn what_is_not_supported_is_refused_before_anything_is_loaded() {
    refused(
        "backend: 'onnxruntime' runtime: 'other.so' model_transaction_policy { decoupled: true }",
        &[],
        "2 problems\n- model_transaction_policy { decoupled: true } is not supported: the backend 'onnxruntime' gives \
         each request one answer\n\
         - runtime 'other.so' is not supported; expected nothing, or 'libtriton_onnxruntime.so'",
    );
}

#[test]
fn a_saved_model_is_for_tensorflow_unless_there_is_an_onnx_model_beside_it() {
    let choice = chosen("m", None, &["saved_model.pb", "variables"], Completion::On).unwrap();
    assert_eq!(choice.backend, "tensorflow");
    assert_eq!(choice.default_model_filename.as_deref(), Some("saved_model.pb"));
    let choice = chosen("m", None, &["saved_model.pb", "model.onnx"], Completion::On).unwrap();
    assert_eq!(choice.backend, "onnxruntime");
}

#[test]
fn a_named_file_that_is_not_there_is_named() {
    let folder = std::env::temp_dir().join(format!("muster-choose-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let raw = ConfigReader::default().parse_text("", "default_model_filename: 'net'").unwrap();
    let found = VersionFiles { model: "m", directory: &folder, files: &["model.onnx".to_owned()] };
    let errors = choose(Some(&raw), found, &usual(), Completion::On).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
    let expected = format!(
        "default_model_filename: there is no 'net' in '{}', which holds model.onnx",
        folder.display()
    );
    assert_eq!(errors.problems, [expected]);
}

#[test]
fn a_file_of_a_usual_name_that_is_no_model_by_its_content_is_told_what_it_is() {
    let folder = std::env::temp_dir().join(format!("muster-content-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let problem = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).unwrap();
        let files = [name.to_owned()];
        let found = VersionFiles { model: "m", directory: &folder, files: &files };
        choose(None, found, &told_by_content(), Completion::On).unwrap_err().to_string()
    };
    for name in ["model.ubj", "model.joblib"] {
        let text = problem(name, b"");
        let expected = format!(
            "expected model.ubj. {}: this is an empty file; copy or download it again",
            folder.join(name).display()
        );
        assert!(text.ends_with(&expected), "{text}");
        let text = problem(name, b"cposix\n");
        assert!(text.contains("it has the name of a model, but not the content of one"), "{text}");
    }
    // A name that others have, too, says nothing.
    let text = problem("notes.joblib", b"cposix\n");
    assert!(text.ends_with("expected model.ubj"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}
