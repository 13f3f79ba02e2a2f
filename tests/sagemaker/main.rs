//! `/ping` and `/invocations`: what a hosting platform and its clients ask.
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

#[cfg(all(feature = "pipelines", feature = "stores", feature = "tensorflow"))]
mod aws_facade; // what clients of SageMaker's runtime call
mod aws_suites; // what the tests of AWS's containers ask over HTTP
mod decoupled; // models that answer in any number of parts
mod hosting; // what a hosting platform starts, sets and asks, and its variables
mod invocation_bodies; // every body that the containers of SageMaker have taught clients to send
mod multi_model; // multi-model endpoints: models that a platform loads and unloads by keys
mod observability; // lines of metrics on standard output, captured data
mod sagemaker; // /ping and /invocations, content types, the layouts of a hosting platform
#[cfg(feature = "tensorflow")]
mod savedmodel_hosted; // which SavedModels of a hosting platform's folder serve, and in which versions
#[cfg(all(
    feature = "isolation",
    feature = "python",
    feature = "tensorflow",
    feature = "tensorflow_serving"
))]
mod script_handlers; // scripts with handlers around a SavedModel
#[cfg(all(feature = "isolation", feature = "python"))]
mod script_packages; // the packages that they ask for
#[cfg(all(feature = "isolation", feature = "python"))]
mod scripts; // archives with a script that loads the model
mod sessions; // stateful sessions on /invocations
#[cfg(all(feature = "isolation", feature = "python"))]
mod torchserve; // archives of TorchServe
mod websocket; // conversations in which each message is a request
#[cfg(feature = "trees")]
mod xgboost; // bodies and replies of XGBoost's container and of AWS's algorithms
