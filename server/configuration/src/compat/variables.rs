//! Names of variables that are read in more than one place.

/// Holds further options, separated as a shell does.
pub(super) const FURTHER_OPTIONS: &str = "SAGEMAKER_TRITON_ADDITIONAL_ARGS";

/// Where the platform puts models: the folder itself.
pub const MODEL_PATH: &str = "SAGEMAKER_MODEL_PATH";
/// Where the platform puts models: the folder above `model`.
pub const BASE_DIR: &str = "SAGEMAKER_BASE_DIR";
/// The port that the platform chose; with it the process is surely hosted.
pub const BIND_TO_PORT: &str = "SAGEMAKER_BIND_TO_PORT";
/// What a user's script is called.
pub const PROGRAM: &str = "SAGEMAKER_PROGRAM";
/// The folder that a user's script lies in.
pub const SUBMIT_DIRECTORY: &str = "SAGEMAKER_SUBMIT_DIRECTORY";
/// A model that is fetched from a hub, unless there are models here.
pub const HUB_MODEL: &str = "HF_MODEL_ID";
/// Every variable of the container of TensorFlow Serving that is about models begins so.
pub const TENSORFLOW: &str = "SAGEMAKER_TFS_";
/// Says that Hugging Face's container is meant, and what its pipeline is for.
pub const HF_TASK: &str = "HF_TASK";
/// Says that MLflow's image is meant, and nothing else.
pub(super) const MLFLOW_FLAVOR: &str = "MLFLOW_DEPLOYMENT_FLAVOR_NAME";
/// Says whether Vertex AI has started the process, and what for.
pub const VERTEX_MODE: &str = "AIP_MODE";
/// The mode in which Vertex AI wants predictions.
pub(super) const VERTEX_PREDICTION: &str = "PREDICTION";
