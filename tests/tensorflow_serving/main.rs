//! TensorFlow Serving's REST and gRPC, and SavedModels, which its clients ask.
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

#[cfg(feature = "tensorflow")]
mod any_rank; // inputs of which it is not known how many dimensions they have
#[cfg(feature = "tensorflow")]
mod instead_of_tfs; // what an operator of TensorFlow Serving has, as it is
#[cfg(feature = "tensorflow")]
mod savedmodel_broken; // files of a SavedModel that are cut, missing or in another form
#[cfg(feature = "tensorflow")]
mod savedmodel_examples; // examples to signatures of SavedModels that parse them, and the metadata of all signatures
#[cfg(feature = "tensorflow")]
mod savedmodel_keras; // what Keras exports, against what its `predict` says; that a library is fetched once
#[cfg(all(feature = "isolation", feature = "tensorflow"))]
mod savedmodel_safety; // which files and libraries a SavedModel may reach
#[cfg(feature = "tensorflow")]
mod savedmodel_settings; // which graph of a SavedModel runs, in which precision, and parameters without effect
#[cfg(feature = "tensorflow")]
mod savedmodel_signatures; // the signatures of a SavedModel by name: which one runs, what it takes, its metadata
#[cfg(feature = "tensorflow")]
mod savedmodel_warmup; // the requests that a SavedModel brings along
#[cfg(feature = "tensorflow")]
mod savedmodels; // TensorFlow behind the server: types, strings, tables, state, refusals
mod tfs; // TensorFlow Serving's REST API
mod tfs_grpc; // TensorFlow Serving's services over gRPC
mod tfs_metrics; // metrics with TensorFlow Serving's names
