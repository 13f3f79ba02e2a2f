//! The SageMaker port: settings.

use super::{Setting, value};

const SECTION: &str = "SageMaker";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "allow-sagemaker", "true", "Serve /ping and /invocations"),
    value(SECTION, "sagemaker-address", "", "Address of the SageMaker port. Default: the HTTP address"),
    value(SECTION, "sagemaker-port", "8080", "The SageMaker port"),
    value(SECTION, "sagemaker-safe-port-range", "", "<lowest>-<highest>: all other ports must be in it; one that was not given is taken from it"),
    value(SECTION, "sagemaker-default-model", "", "The model behind /invocations. Default: the only one"),
    value(SECTION, "sagemaker-multi-model", "false", "A multi-model endpoint: models are loaded by POST /models, and none at the start"),
    value(SECTION, "sagemaker-models-root", "/opt/ml/models", "Where the models of such an endpoint lie"),
    value(SECTION, "sagemaker-dialect", "auto", "What bodies to /invocations are where their content leaves a choice: auto, tfs, triton, hf, toolkit, xgboost or mlflow"),
    value(SECTION, "sagemaker-inference-type", "infer", "What KServe v2 bodies to /invocations are: infer, generate or generate_stream"),
    value(SECTION, "default-accept", "", "Media type of a reply to a client that takes any. Default: that of the request's format"),
    value(SECTION, "sagemaker-batch", "false", "A batch transform job: nothing is refused for having to wait, and replies are lines"),
];
