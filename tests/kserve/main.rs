//! KServe's protocol with Triton's extensions over HTTP and gRPC, Vertex AI's port, and the table of everything that
//! Triton has.
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

mod compatibility; // the table of everything that Triton has, and what becomes of it
mod compression; // gzip and deflate, in both directions
mod decoupled; // models that answer in parts
mod extensions; // statistics, settings of traces and of the log, every address of Triton's table
mod generate; // generate and generate_stream
mod grpc; // every call over gRPC, what is wrong with each, streams, broken peers
mod kserve_v2; // health, metadata, inference as JSON and as binary tensors
#[cfg(not(any(
    feature = "isolation",
    feature = "pipelines",
    feature = "pytorch",
    feature = "stores",
    feature = "tensorflow",
    feature = "trees"
)))]
mod left_out; // a build without any feature
mod remembered; // requests that are alike, over one connection
mod shared_memory; // inputs and outputs in memory that clients share
mod statistics;
mod streaming; // replies that are streams, and large ones
mod vertex; // the port of Vertex AI // what is counted of a model
