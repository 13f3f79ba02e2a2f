//! Settings of SageMaker: the model that answers `/invocations`, and the form of the answers.

use super::xgboost;
use crate::codec::{
    invocations::{Dialect, InferenceType, Options, Top},
    xgboost::XgboostOptions,
};
use configuration::{
    Environment, Flag, Sources,
    compat::{Container, TellingVariable, variables::HF_TASK},
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("sagemaker-default-model", "", "The model behind /invocations. Default: the only one").named("NAME"),
    Flag::value("sagemaker-dialect", "auto", "What bodies to /invocations are where their content leaves a choice: auto, tfs, triton, hf, toolkit, xgboost, mlflow, builtin or jumpstart").named("DIALECT"),
    Flag::value("sagemaker-inference-type", "infer", "What KServe v2 bodies to /invocations are: infer, generate or generate_stream").named("TYPE"),
    Flag::value("default-accept", "", "Media type of a reply to a client that takes any. Default: the type of the request").named("TYPE"),
    Flag::boolean("sagemaker-batch", "false", "A batch transform job: nothing is refused for having to wait, and replies are lines"),
];

/// The routes of the SageMaker port.
#[derive(Debug, Clone, PartialEq)]
pub struct SageMakerSettings {
    /// `--sagemaker-default-model`: the model that answers `/invocations`; `None` for the only model.
    pub default_model: Option<String>,
    /// `--sagemaker-dialect`: what bodies are taken for where their content leaves a choice; `None` for `auto`.
    pub dialect: Option<Dialect>,
    /// With `auto`, whose container this one takes the place of, as far as the environment tells; `None` where a
    /// dialect is given.
    pub vendor: Option<Vendor>,
    /// How many classes a pipeline of the task in `HF_TASK` gives where a request leaves it open.
    pub usual_top: Top,
    /// `--sagemaker-inference-type`: what bodies of KServe v2 are.
    pub inference_type: InferenceType,
    /// `--default-accept`: the reply's type where the client takes any.
    pub default_accept: Option<String>,
    /// `--sagemaker-batch`, `SAGEMAKER_BATCH`: a batch transform job, in which nothing is refused for having to wait,
    /// and replies are lines.
    pub batch: bool,
    /// Bodies and replies in XGBoost's dialect.
    pub xgboost: XgboostOptions,
}

impl SageMakerSettings {
    /// Does this server take the place of TensorFlow Serving's container, as far as that is known?
    pub fn is_for_tensorflow_serving(&self) -> bool {
        let vendor = self.vendor.as_ref().map(|it| it.dialect);
        self.dialect.or(vendor) == Some(Dialect::Tfs)
    }

    /// Does nothing say whose container this server takes the place of?
    pub fn is_for_anyone(&self) -> bool {
        self.dialect.is_none() && self.vendor.is_none()
    }

    /// What decoding and encoding go by, where bodies have at most so many bytes.
    pub fn options(&self, largest_body: u64) -> Options {
        Options {
            dialect: self.dialect,
            vendor: self.vendor.as_ref().map(|it| it.dialect),
            usual_top: self.usual_top,
            inference_type: self.inference_type,
            default_accept: self.default_accept.clone(),
            batch: self.batch,
            largest_body: Some(largest_body),
            xgboost: self.xgboost.clone(),
        }
    }
}

/// The container that this one takes the place of, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vendor {
    /// Its dialect.
    pub dialect: Dialect,
    /// The variable that tells, which is set.
    pub variable: String,
}

impl Vendor {
    /// What follows, for the log.
    pub fn notice(&self) -> String {
        let container = match self.dialect {
            Dialect::Tfs => "TensorFlow Serving's container reads",
            Dialect::Triton => "Triton's container reads",
            Dialect::HuggingFace => "Hugging Face's container reads",
            Dialect::Toolkit => "containers made with the inference toolkits read",
            Dialect::Xgboost => "XGBoost's container reads",
            Dialect::Mlflow => "MLflow's image reads",
            Dialect::BuiltIn => "AWS's image algorithms read",
            Dialect::JumpStart => "JumpStart's models read",
        };
        let variable = &self.variable;
        format!("bodies of /invocations are read as {container} them, because {variable} is set")
    }
}

/// Reads it.
pub fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> SageMakerSettings {
    let inference_type = sources.read("sagemaker-inference-type", inference_type, problems);
    let dialect = sources.read("sagemaker-dialect", dialect, problems).flatten();
    SageMakerSettings {
        default_model: sources.read("sagemaker-default-model", value::text, problems),
        dialect,
        vendor: match dialect {
            Some(_) => None,
            None => vendor(environment, sources),
        },
        usual_top: Top::of_task(
            &environment.variable(HF_TASK).unwrap_or_default().to_string_lossy(),
        ),
        inference_type: inference_type.unwrap_or_default(),
        default_accept: sources.read("default-accept", value::media_type, problems),
        batch: sources.read("sagemaker-batch", value::boolean, problems).unwrap_or(false),
        xgboost: xgboost::resolve(sources, problems),
    }
}

/// The container that this one takes the place of.
fn vendor(environment: &dyn Environment, sources: &Sources) -> Option<Vendor> {
    let TellingVariable { name, container } = TellingVariable::of(environment, sources.flags())?;
    let dialect = match container {
        Container::TensorFlowServing => Dialect::Tfs,
        Container::Triton => Dialect::Triton,
        Container::HuggingFace => Dialect::HuggingFace,
        Container::Toolkit => Dialect::Toolkit,
        Container::Xgboost => Dialect::Xgboost,
        Container::Mlflow => Dialect::Mlflow,
    };
    Some(Vendor { dialect, variable: name })
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
        "builtin" => Ok(Some(Dialect::BuiltIn)),
        "jumpstart" => Ok(Some(Dialect::JumpStart)),
        _ => {
            Err("auto, tfs, triton, hf, toolkit, xgboost, mlflow, builtin or jumpstart".to_owned())
        }
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
