//! Facts about the choice of a container's dialect, and of the forms of bodies.

use super::config;
use sagemaker::codec::invocations::{Dialect, InferenceType};

#[test]
fn the_dialect_is_given_or_follows_from_the_variables_of_a_container() {
    let read = |args: &str, variables: &[&str]| {
        let sagemaker = config(args, variables).sagemaker;
        (sagemaker.dialect, sagemaker.vendor.map(|it| it.dialect))
    };
    assert_eq!(read("", &[]), (None, None));
    assert_eq!(read("--sagemaker-dialect=HF", &[]), (Some(Dialect::HuggingFace), None));
    let tfs = Some(Dialect::Tfs);
    assert_eq!(read("--sagemaker-dialect=auto", &["SAGEMAKER_TFS_VERSION=2"]), (None, tfs));
    // Containers that are made with the toolkits have these variables set, too.
    let both = ["SAGEMAKER_PROGRAM=inference.py", "HF_TASK=fill-mask"];
    assert_eq!(read("", &both), (None, Some(Dialect::HuggingFace)));
    assert_eq!(read("", &["HF_TASK="]), (None, None));
    // An operator who chooses a dialect needs no hint.
    assert_eq!(
        read("--sagemaker-dialect=mlflow", &["HF_TASK=fill-mask"]),
        (Some(Dialect::Mlflow), None)
    );
    for idle in [
        "SAGEMAKER_TS_MIN_WORKERS",
        "SAGEMAKER_MODEL_SERVER_VMARGS",
        "MMS_MAX_RESPONSE_SIZE",
        "MMS_X",
    ] {
        assert_eq!(read("", &[&format!("{idle}=1")]), (None, None), "{idle}");
    }
    for meant in ["SAGEMAKER_TS_BATCH_SIZE", "SAGEMAKER_MODEL_SERVER_WORKERS", "MMS_JOB_QUEUE_SIZE"]
    {
        let found = read("", &[&format!("{meant}=2")]);
        assert_eq!(found, (None, Some(Dialect::Toolkit)), "{meant}");
    }
}

#[test]
fn the_inference_type_is_one_of_tritons() {
    let read = |args: &str| config(args, &[]).sagemaker.inference_type;
    assert_eq!(read(""), InferenceType::Infer);
    assert_eq!(read("--sagemaker-inference-type=generate_stream"), InferenceType::GenerateStream);
}
