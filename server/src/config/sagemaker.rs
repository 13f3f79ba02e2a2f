//! SageMaker: who answers `/invocations`, and how.

use super::{
    environment::Environment,
    sources::Sources,
    value::{self, Parse},
    xgboost::{self, Xgboost},
};

/// The routes of the SageMaker port.
#[derive(Debug, Clone, PartialEq)]
pub struct SageMaker {
    /// `--sagemaker-default-model`: who answers `/invocations`; `None` for the only model.
    pub default_model: Option<String>,
    /// `--sagemaker-dialect`: what bodies are taken for where their content leaves a choice; `None` for `auto`.
    pub dialect: Option<Dialect>,
    /// With `auto`, whose container this one takes the place of, as far as the environment tells.
    pub vendor: Option<Dialect>,
    /// `--sagemaker-inference-type`: what bodies of KServe v2 are.
    pub inference_type: InferenceType,
    /// `--default-accept`: the reply's type where the client takes any.
    pub default_accept: Option<String>,
    /// `--sagemaker-batch`, `SAGEMAKER_BATCH`: a batch transform job, in which nothing is refused for having to wait,
    /// and replies are lines.
    pub batch: bool,
    /// Bodies and replies in XGBoost's dialect.
    pub xgboost: Xgboost,
}

/// The habits of one of SageMaker's containers, in bodies, replies and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// TensorFlow Serving's.
    Tfs,
    /// Triton's.
    Triton,
    /// Hugging Face's.
    HuggingFace,
    /// Those made with the inference toolkits, that of PyTorch among them.
    Toolkit,
    /// XGBoost's.
    Xgboost,
    /// MLflow's image.
    Mlflow,
}

/// What a KServe v2 request to `/invocations` is: Triton's inference types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InferenceType {
    /// A request as to `infer`.
    #[default]
    Infer,
    /// A flat object, answered with one.
    Generate,
    /// A flat object, answered with events.
    GenerateStream,
}

/// Variables that belong to one container, by the beginnings of their names; the first that is set counts. The
/// toolkits come last, because other containers are made with them.
const VENDORS: &[(&str, Dialect)] = &[
    ("SAGEMAKER_TFS_", Dialect::Tfs),
    ("SAGEMAKER_TRITON_", Dialect::Triton),
    ("HF_TASK", Dialect::HuggingFace),
    ("HF_MODEL_ID", Dialect::HuggingFace),
    ("SAGEMAKER_XGBOOST_", Dialect::Xgboost),
    ("SAGEMAKER_INFERENCE_OUTPUT", Dialect::Xgboost),
    ("SAGEMAKER_INFERENCE_ENSEMBLE", Dialect::Xgboost),
    ("MLFLOW_DEPLOYMENT_FLAVOR_NAME", Dialect::Mlflow),
    ("SAGEMAKER_TS_", Dialect::Toolkit),
    ("SAGEMAKER_MODEL_SERVER_", Dialect::Toolkit),
    ("SAGEMAKER_PROGRAM", Dialect::Toolkit),
    ("MMS_", Dialect::Toolkit),
];

/// Reads it.
pub(super) fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> SageMaker {
    let inference_type = sources.read("sagemaker-inference-type", inference_type, problems);
    SageMaker {
        default_model: sources.read("sagemaker-default-model", value::text, problems),
        dialect: sources.read("sagemaker-dialect", dialect, problems).flatten(),
        vendor: vendor(environment),
        inference_type: inference_type.unwrap_or_default(),
        default_accept: sources.read("default-accept", value::media_type, problems),
        batch: sources.read("sagemaker-batch", value::boolean, problems).unwrap_or(false),
        xgboost: xgboost::resolve(sources, problems),
    }
}

fn vendor(environment: &dyn Environment) -> Option<Dialect> {
    let mut set = environment.names();
    set.retain(|it| environment.variable(it).is_some_and(|value| !value.is_empty()));
    let vendor = VENDORS.iter().find(|(start, _)| set.iter().any(|it| it.starts_with(start)));
    vendor.map(|(_, dialect)| *dialect)
}

fn dialect(text: &str) -> Parse<Option<Dialect>> {
    match &*text.to_ascii_lowercase() {
        "auto" => Ok(None),
        "tfs" => Ok(Some(Dialect::Tfs)),
        "triton" => Ok(Some(Dialect::Triton)),
        "hf" => Ok(Some(Dialect::HuggingFace)),
        "toolkit" => Ok(Some(Dialect::Toolkit)),
        "xgboost" => Ok(Some(Dialect::Xgboost)),
        "mlflow" => Ok(Some(Dialect::Mlflow)),
        _ => Err("auto, tfs, triton, hf, toolkit, xgboost or mlflow".to_owned()),
    }
}

fn inference_type(text: &str) -> Parse<InferenceType> {
    match text {
        "infer" => Ok(InferenceType::Infer),
        "generate" => Ok(InferenceType::Generate),
        "generate_stream" => Ok(InferenceType::GenerateStream),
        _ => Err("infer, generate or generate_stream".to_owned()),
    }
}
