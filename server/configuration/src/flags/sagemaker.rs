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
    value(SECTION, "sagemaker-inference-output", "", "What replies in XGBoost's dialect say of each prediction, with commas between: predicted_label, labels, probability, probabilities, raw_score, raw_scores, predicted_score. Default: the prediction"),
    value(SECTION, "xgboost-csv", "lines", "Predictions in a CSV reply in XGBoost's dialect: lines, or joined by commas as from images before 2022"),
    value(SECTION, "libsvm-index-base", "auto", "Index of the first column in libsvm bodies: 0, 1, or auto for 1 where a body has no index 0"),
];
