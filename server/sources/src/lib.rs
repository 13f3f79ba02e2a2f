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
mod fetched;
#[cfg(feature = "sources")]
mod http;
#[cfg(feature = "sources")]
mod hub;
#[cfg(feature = "sources")]
mod lock;
mod lock_use;
mod name;
#[cfg(not(feature = "sources"))]
mod no_sources;
pub mod source_settings;
#[cfg(feature = "sources")]
mod web;

#[cfg(feature = "sources")]
pub use error::SourceError;
#[cfg(feature = "sources")]
pub use fetch::fetch;
pub use fetched::Fetched;
pub use lock_use::LockUse;
pub use name::{HubName, Name, NameError, WebName};
#[cfg(not(feature = "sources"))]
pub use no_sources::{SourceError, fetch};
pub use source_settings::{HubSettings, Secret, SourceSettings};
