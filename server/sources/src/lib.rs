//! Models by name: of a hub, a registry or an address. [`fetch`] brings one into a directory of this machine before the
//! server starts. Nothing that a client sends gets here.
//!
//! Without the feature `sources` names and settings are read as ever, and nothing can be fetched.
#![forbid(unsafe_code)]

#[cfg(feature = "sources")]
mod cache;
#[cfg(feature = "sources")]
mod choose;
#[cfg(feature = "sources")]
mod digest;
#[cfg(feature = "sources")]
mod download;
#[cfg(feature = "sources")]
mod error;
#[cfg(feature = "sources")]
mod fetch;
#[cfg(feature = "sources")]
mod http;
#[cfg(feature = "sources")]
mod hub;
#[cfg(feature = "sources")]
mod lock;
mod lock_use;
#[cfg(feature = "sources")]
mod mlflow;
#[cfg(feature = "sources")]
mod mlflow_api;
mod mlflow_name;
mod name;
#[cfg(not(feature = "sources"))]
mod no_sources;
#[cfg(feature = "sources")]
mod oci;
#[cfg(feature = "sources")]
mod oci_helper;
#[cfg(feature = "sources")]
mod oci_layers;
#[cfg(feature = "sources")]
mod oci_login;
#[cfg(feature = "sources")]
mod oci_manifest;
mod oci_name;
pub mod source_settings;
#[cfg(feature = "sources")]
mod web;

#[cfg(feature = "sources")]
pub use error::SourceError;
#[cfg(feature = "sources")]
pub use fetch::fetch;
pub use lock_use::LockUse;
pub use mlflow_name::{MlflowName, MlflowVersion};
pub use name::{FORMS, HubName, Name, NameError, WebName};
#[cfg(not(feature = "sources"))]
pub use no_sources::{SourceError, fetch};
pub use oci_name::{OciName, OciReference};
pub use source_settings::{HubSettings, MlflowSettings, Secret, SourceSettings};
