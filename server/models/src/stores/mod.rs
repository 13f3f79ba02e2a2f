//! Model repositories in object stores: their models are fetched into a local directory, from which they are
//! loaded like any other. What has not changed is not fetched again.

mod cache;
mod connect;
mod credentials;
mod download;
mod error;
mod listing;
mod objects;
mod profile;
mod store;
pub mod store_settings;

pub use crate::stores::{
    error::{Refusal, StoreError},
    objects::{Object, Objects, Written},
    store::{Refreshed, Store},
    store_settings::{Provider, StoreSettings, StoreUrl, Variables},
};
