//! muster: a model server.
#![forbid(unsafe_code)]

pub mod config;
pub mod logging;
pub mod machine;

pub mod health;

pub mod error;
pub mod identifier;
pub mod request;
pub mod sessions;
pub mod signature;
pub mod textproto;

pub mod access;
pub mod aligned;

pub mod drain;
pub mod limits;
pub mod metrics;

pub mod schedule;

pub mod stores;

pub mod models;

pub mod cache;
pub mod capture;
pub mod emf;

pub mod infer;

pub mod memory;
pub mod serving;
pub mod trace;

pub mod protocol;
pub mod shared;
pub mod tensorflow;

pub mod net;

pub mod grpc;
pub mod http;

pub mod app;
