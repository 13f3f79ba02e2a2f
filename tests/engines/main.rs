//! What runs models, and how requests come into its runs: engines, batches, sequences, ensembles, kept answers.
// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]
// What only tests of something that was left out of this build use.
#![cfg_attr(
    not(all(
        feature = "isolation",
        feature = "pipelines",
        feature = "pytorch",
        feature = "stores",
        feature = "tensorflow",
        feature = "trees"
    )),
    allow(dead_code, unused_imports)
)]

use test_support as support; // start a server, talk to it, make model repositories

mod batching; // what a configuration says about batches, queues and instances
mod cache; // answers that are kept
mod converted; // models in the form in which converters write them
#[cfg(all(feature = "pytorch", feature = "tensorflow"))]
mod engines; // every fixture by ONNX Runtime, against what Python's said
mod ensembles; // models that are made of other models
#[cfg(feature = "trees")]
mod estimators; // classifiers of XGBoost that stopped early, and categories that have names
#[cfg(feature = "trees")]
mod feature_names; // columns by the names that a file of trees has for its features
mod in_place_runs; // which runs are made on the thread that read their request, and few clients of a slow model
mod large_requests; // requests of more rows than a run has
#[cfg(feature = "trees")]
mod many_forests; // hundreds of tree models that come and go in one process
mod merging; // which models have the rows of several requests in one run
mod ragged; // batches of requests whose shapes differ
mod rate_limit; // resources that instances share
mod sequences;
#[cfg(feature = "trees")]
mod sklearn_outputs; // outputs of scikit-learn's estimators by the names of their methods
#[cfg(all(feature = "pytorch", feature = "tensorflow"))]
mod torchscript; // the libtorch engine behind the server: the same answers, models without a configuration, refusals
#[cfg(feature = "trees")]
mod trees; // files of XGBoost and LightGBM, found and answered as their libraries do // sequences of requests: state, controls, seats
