//! Programs beside the server: the load generator, the recommender, and clients that others wrote.
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

mod bench; // the load generator against this server
#[cfg(feature = "pipelines")]
mod check; // which models of a repository would be served
#[cfg(all(feature = "pipelines", feature = "tensorflow"))]
mod clients; // tritonclient, requests and the Prometheus parser, in Python
#[cfg(all(feature = "browser", feature = "pipelines"))]
mod docs_page; // the page for people, in a browser
#[cfg(all(feature = "browser", feature = "pipelines"))]
mod openapi; // the document of the API, and clients that are made of it
mod packages; // what users install
#[cfg(all(feature = "pipelines", feature = "trees"))]
mod pages; // the blocks of README and guides
mod parts; // answers in parts, as clients read them that others wrote
#[cfg(feature = "pipelines")]
mod predict; // one file to a model, and its answer
mod recommend; // which settings and which machine suit a model
mod recommend_api; // the same by SageMaker's operations
#[cfg(all(feature = "browser", feature = "pipelines"))]
mod reference; // the page of routes, and the routes that there are
