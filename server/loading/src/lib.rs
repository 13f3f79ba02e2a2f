//! What loads: repositories and what lies in them, `config.pbtxt`, the steps from files to a version that serves, and
//! when which model is loaded.
#![forbid(unsafe_code)]

pub mod check_report;
mod config;
pub mod explain;
mod lifecycle;
mod load;
mod repository;
pub mod settings;

pub use crate::{
    config::pbtxt::ConfigReader,
    lifecycle::{
        check::{CheckDepth, CheckedModel, CheckedModels, CheckedVersion},
        control::Control,
        named_models::NamedModels,
        start::{NotServed, StartError},
    },
    load::{load_settings::LoadSettings, loader::Loader},
    repository::{
        catalogue::Catalogue,
        local::{FoundModel, FoundModels, Names},
        model_list::{ListedModel, listed_models},
        user_script,
    },
};
