//! Which models are served: looked up by every request, changed by loads and unloads.
#![forbid(unsafe_code)]

pub mod cache;
mod config;
pub mod explain;
pub mod infer;
mod lifecycle;
mod load;
mod lock;
mod pipeline;
mod repository;
mod serving;
pub mod settings;
pub mod stores;

pub use crate::{
    lifecycle::{
        control::Control,
        load_override::LoadOverride,
        multi_model::{
            endpoint::{EndpointLoad, MultiModel},
            table::EndpointModel,
        },
        named_models::NamedModels,
        on_demand::OnDemand,
    },
    load::{load_settings::LoadSettings, loader::Loader},
    pipeline::text_model::{TextModel, TokenizeOptions},
    repository::{
        catalogue::Catalogue,
        local::{Found, FoundModel, Names},
        model_id::ModelId,
        model_list::{ListedModel, listed_models},
        user_script,
        version_labels::VersionLabels,
    },
    serving::{
        made_tensors::request_of_zeros,
        manager::{ModelManager, Snapshot},
        served::{Dispatch, ServedModel},
        state::{IndexEntry, Reason, State},
        validate::{Prepared, prepare, present},
    },
};
pub use config::{
    model::{LAYOUT, TF_SERVING},
    pbtxt::ConfigReader,
    raw,
};
pub use steps::TextToken;
