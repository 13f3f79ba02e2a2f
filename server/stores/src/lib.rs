//! Model repositories in object stores: their models are fetched into a local directory, from which they are
//! loaded like any other. What has not changed is not fetched again.
//!
//! Without the feature `stores` addresses and settings are read as ever, and no store can be opened.
#![forbid(unsafe_code)]

#[cfg(feature = "stores")]
mod cache;
#[cfg(feature = "stores")]
mod connect;
#[cfg(feature = "stores")]
mod credentials;
#[cfg(feature = "stores")]
mod download;
mod error;
#[cfg(feature = "stores")]
mod listing;
#[cfg(not(feature = "stores"))]
mod no_store;
#[cfg(feature = "stores")]
mod objects;
#[cfg(feature = "stores")]
mod profile;
#[cfg(feature = "stores")]
mod store;
pub mod store_settings;
#[cfg(feature = "stores")]
mod words;

pub use error::{Refusal, StoreError};
#[cfg(not(feature = "stores"))]
pub use no_store::{Object, Objects, Store, Written};
#[cfg(feature = "stores")]
pub use objects::{Object, Objects, Written};
#[cfg(feature = "stores")]
pub use store::{Refreshed, Store};
pub use store_settings::{Provider, StoreSettings, StoreUrl, Variables};
