//! What the operator wants of models: where they are, when they are loaded, what those get that do not say.

pub mod control;
pub mod gpu_limit;
pub mod hosted_start;
pub mod model_defaults;
pub mod multi_model;
pub mod named_models;
pub mod repository;
pub mod user_scripts;

pub use control::{AtStart, ControlMode, ModelControl, OnDemand};
pub use gpu_limit::GpuLimit;
pub use hosted_start::{HostedStart, HostedWay, PlatformFolder};
pub use model_defaults::ModelDefaults;
pub use multi_model::MultiModel;
pub use named_models::{LabelRule, NamedModels};
pub use repository::{BackendSetting, FetchedPath, ModelsFrom, Repository};
pub use user_scripts::UserScripts;
