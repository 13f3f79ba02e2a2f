//! Models that come and go, where they come from, their configurations, and what operators see of it all.
// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]
// What only tests of something that was left out of this build use.
#![cfg_attr(
    not(all(
        feature = "isolation",
        feature = "pipelines",
        feature = "pytorch",
        feature = "sources",
        feature = "stores",
        feature = "tensorflow",
        feature = "trees"
    )),
    allow(dead_code, unused_imports)
)]

use test_support as support; // start a server, talk to it, make model repositories

#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod broken_models;
mod changing_files; // files of models that change while they serve, with equal lengths and times
mod config_sizes; // numbers in configurations that become sizes, and files that come with a load
mod control; // loading and unloading by request
mod drain; // stopping under load
#[cfg(all(feature = "pipelines", feature = "sources"))]
mod faulty_sources; // what goes wrong with every kind of source: busy, elsewhere, refusing, a full disk
#[cfg(all(feature = "pipelines", feature = "sources"))]
mod hub; // models by their names on a hub
#[cfg(all(feature = "pipelines", feature = "sources"))]
mod images; // models in a registry of images
mod lifecycle; // starting, and starts that fail
#[cfg(all(feature = "pipelines", feature = "sources"))]
mod locked; // models by name that are held by digests: at an address, and in a lock file
mod log_settings; // the log, changed while it is written
mod metrics; // the metrics page
#[cfg(all(feature = "pipelines", feature = "sources", feature = "trees"))]
mod mlflow; // models of MLflow's registry
mod model_config; // alternatives, checksums, libraries, files by name, priorities, buckets
mod model_config_file; // models that are named one by one, their versions and reloads
mod on_demand; // loading at the first request, and making room
mod poll; // following the repository
mod reload; // what changes while requests come
#[cfg(all(feature = "pipelines", feature = "stores", feature = "tensorflow"))]
mod store_control; // models of such repositories, loaded by request and while the server runs
#[cfg(all(feature = "pipelines", feature = "stores", feature = "tensorflow"))]
mod stores; // repositories in object stores, against one that speaks S3
mod terminal; // colours and progress
mod tracing; // traces of requests, in files, at a collector and in the log // what does not load says why, and the others serve
