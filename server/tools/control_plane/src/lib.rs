//! What a server and the recommender beside it have in common: the replies to SageMaker's operations on jobs and
//! models, who may ask for them, and how the one process asks the other.
#![forbid(unsafe_code)]

mod host;
pub mod pipe;

pub use host::{Reply, misdirected};
