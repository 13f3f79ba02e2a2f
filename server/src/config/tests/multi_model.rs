//! Facts about multi-model endpoints: their flags and the platform's variables.

use super::*;
use loading::settings::{ControlMode, MultiModel};

fn mode(args: &str, variables: &[&str]) -> Option<MultiModel> {
    config_at(&[], args, variables).control.multi_model
}

#[test]
fn the_platforms_variables_switch_it_on_with_one_port_and_no_models() {
    for variable in ["SAGEMAKER_MULTI_MODEL=True", "SAGEMAKER_MULTI_MODE=1"] {
        let config = config_at(&[], "serve", &[variable]);
        let given = config.control.multi_model.unwrap();
        assert_eq!(given.root, std::path::PathBuf::from("/opt/ml/models"));
        assert_eq!((given.budget, given.memory), (None, Some(16 * GIB)));
        assert!(config.hosted, "{variable}");
        assert_eq!((config.listeners.http, config.listeners.grpc), (None, None));
        assert_eq!(config.repository.from, ModelsFrom::Repositories(vec![]));
    }
    assert_eq!(config("", &["SAGEMAKER_MULTI_MODEL=false"]).control.multi_model, None);
    check_refused("", &["SAGEMAKER_MULTI_MODEL=x"], &["SAGEMAKER_MULTI_MODEL", "true or false"]);
}

#[test]
fn a_flag_switches_it_on_and_says_where_models_lie() {
    let flags = "--sagemaker-multi-model=true --sagemaker-models-root=m --model-memory-budget=1GiB";
    let given = mode(flags, &[]).unwrap();
    assert_eq!((given.root, given.budget), ("m".into(), Some(GIB)));
    let base = ["SAGEMAKER_MULTI_MODEL=true", "SAGEMAKER_BASE_DIR=/base"];
    assert_eq!(mode("serve", &base).unwrap().root, std::path::PathBuf::from("/base/models"));
}

#[test]
fn models_cannot_be_named_and_other_ways_to_load_them_are_without_effect() {
    let on = ["SAGEMAKER_MULTI_MODEL=true"];
    check_refused("serve m.onnx", &on, &["'muster serve m.onnx'", "POST /models"]);
    check_refused("--model-repository r", &on, &["--model-repository 'r'", "POST /models"]);
    // Triton's start script for SageMaker names a directory that it has just made.
    let empty = config_at(&["r/"], "--model-repository r", &on);
    assert_eq!(empty.repository.from, ModelsFrom::Repositories(vec![]));
    let config = config_at(&[], "--model-control-mode=explicit", &on);
    assert_eq!(config.control.mode, ControlMode::None);
    assert!(notices(&config).contains("--model-control-mode 'explicit'"));
}
