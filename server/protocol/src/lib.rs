//! Codecs: bytes to [`InferenceRequest`](inference::request::InferenceRequest), and
//! [`InferenceResponse`](inference::request::InferenceResponse) to bytes. Pure functions, one module per format;
//! none of them knows a model manager, a socket or a clock. Messages of gRPC have their codecs in
//! `frontend/grpc`, where their generated types are.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use bytes::Bytes;

pub mod aws;
pub mod body_model;
mod builtin;
pub mod cost;
pub mod csv;
pub mod elements;
pub mod errors;
pub mod eventstream;
pub mod expansion;
#[cfg(test)]
mod expansion_tests;
pub mod hub;
pub mod infinity;
mod inputs;
pub mod json;
pub mod kserve_v2;
pub mod libsvm;
pub mod matrix;
pub mod medium;
pub mod negotiate;
pub mod npy;
pub mod npz;
pub mod number;
pub mod openai;
mod parameter;
mod predictions;
pub mod recordio;
mod records;
mod reply;
mod reply_id;
pub mod reply_size;
pub mod rerank;
mod rows;
pub mod sagemaker;
#[cfg(test)]
mod samples;
mod shapes;
pub mod signature_name;
mod table;
pub mod tei;
pub mod terms;
mod texts;
pub mod tfs;
mod typed_outputs;
mod usage;
mod vectors;
pub mod xgboost;

/// A reply, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedReply {
    /// The value of `Content-Type`.
    pub content_type: Cow<'static, str>,
    /// Further headers; their names are in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body in pieces, to be written one after the other; tensors in them are not copied.
    pub body: Vec<Bytes>,
}

impl EncodedReply {
    /// A reply of one piece of JSON.
    pub fn json(body: Vec<u8>) -> EncodedReply {
        EncodedReply {
            content_type: Cow::Borrowed("application/json"),
            headers: Vec::new(),
            body: vec![body.into()],
        }
    }
}
