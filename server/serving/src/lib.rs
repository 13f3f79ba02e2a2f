//! What serves: the models, looked up by every request, and one request on one model. What loads them is not known here
//! but by the verbs of [`Control`].
#![forbid(unsafe_code)]

pub mod cache;
pub mod config;
pub mod content_hash;
pub mod control;
pub mod ensemble;
pub mod host;
pub mod infer;
mod known_models;
pub mod label_table;
pub mod labels;
pub mod lock;
pub mod made_tensors;
pub mod manager;
pub mod model_id;
pub mod own_readiness;
pub mod pipeline;
pub mod readiness;
pub mod run_room;
pub mod served;
pub mod state;
pub mod validate;

pub use config::{
    model::{AROUND, BEHIND, LAYOUT, SCRIPT, TF_SERVING},
    raw,
};
pub use control::{Control, EndpointLoad, EndpointModel, LoadOverride, MultiModel, OnDemand};
pub use host::{HostParts, Hosts, Rest, RestRequest};
pub use infer::stream::Responses;
pub use made_tensors::request_of_zeros;
pub use manager::{ModelManager, Snapshot};
pub use pipeline::text_model::{TextModel, TokenizeOptions};
pub use served::{Dispatch, ServedModel};
pub use state::{IndexEntry, Reason, State};
pub use steps::TextToken;
pub use validate::{Prepared, prepare, present};
