//! Facts about the choice whether TensorFlow uses oneDNN.

use super::*;

const VARIABLE: &str = "TF_ENABLE_ONEDNN_OPTS";

#[track_caller]
fn check(args: &str, variables: &[(&str, &str)], is_on: bool, reason: &str) {
    let args = args.split_whitespace().map(OsString::from);
    let args = std::iter::once(OsString::from("muster")).chain(args);
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
    let fake = Fake { variables: variables.collect(), ..Fake::default() };
    let found = super::onednn(args, &fake);
    assert_eq!(found.is_on, is_on, "{found:?}");
    assert!(found.reason.contains(reason), "{found:?}");
}

#[test]
fn it_is_on_unless_models_come_and_go() {
    check("", &[], true, "stay");
    check("--model-control-mode=none", &[], true, "stay");
    for flag in [
        "--sagemaker-multi-model=true",
        "--model-control-mode=poll",
        "--model-control-mode=EXPLICIT",
        "--model-load-on-demand=true --model-memory-budget=1000",
    ] {
        check(flag, &[], false, flag.split(['=', ' ']).next().unwrap());
    }
    check("serve", &[("SAGEMAKER_MULTI_MODEL", "true")], false, "SAGEMAKER_MULTI_MODEL");
}

#[test]
fn the_flag_goes_before_that_and_the_variable_of_tensorflow_before_the_flag() {
    let explicit = "--model-control-mode=explicit --tensorflow-onednn";
    check(&format!("{explicit}=on"), &[], true, "--tensorflow-onednn");
    check("--tensorflow-onednn=off", &[], false, "--tensorflow-onednn");
    check("--tensorflow-onednn=off", &[(VARIABLE, "1")], true, VARIABLE);
    check("--tensorflow-onednn=on", &[(VARIABLE, "0")], false, VARIABLE);
}
