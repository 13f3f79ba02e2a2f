//! Model repositories in object stores: their models are fetched into a local directory, from which they are
//! loaded like any other. What has not changed is not fetched again.
//!
//! Without the feature `stores` addresses and settings are read as ever, and no store can be opened.

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

#[cfg(not(feature = "stores"))]
pub use crate::stores::no_store::{Object, Objects, Store, Written};
pub use crate::stores::{
    error::{Refusal, StoreError},
    store_settings::{Provider, StoreSettings, StoreUrl, Variables},
};
#[cfg(feature = "stores")]
pub use crate::stores::{
    objects::{Object, Objects, Written},
    store::{Refreshed, Store},
};
