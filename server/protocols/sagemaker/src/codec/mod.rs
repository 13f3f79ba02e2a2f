//! Codecs of `/invocations` and of AWS's own messages. Pure.

pub mod aws;
mod builtin;
pub mod eventstream;
#[cfg(test)]
mod expansion_tests;
pub mod invocations;
mod predictions;
pub mod xgboost;
