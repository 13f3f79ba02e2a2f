//! Formats that more than one protocol reads or writes: bytes to tensors of an
//! [`InferenceRequest`](inference::request::InferenceRequest), and tensors of an
//! [`InferenceResponse`](inference::request::InferenceResponse) to bytes. Pure functions, one module per format; none
//! of them knows a model manager, a socket or a clock.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use bytes::Bytes;

pub mod body_memo;
pub mod body_model;
mod booleans;
pub mod csv;
pub mod elements;
pub mod errors;
pub mod expansion;
#[cfg(test)]
mod expansion_tests;
pub mod inputs;
pub mod json;
pub mod kserve_v2;
pub mod libsvm;
pub mod matrix;
pub mod medium;
pub mod negotiate;
pub mod npy;
pub mod npz;
pub mod number;
pub mod parameter;
pub mod pipeline_body;
pub mod recordio;
pub mod records;
pub mod reply;
pub mod reply_size;
pub mod rows;
/// Signatures and requests for tests, here and in the crates above.
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod shapes;
pub mod signature_name;
pub mod table;
pub mod tfs;
pub mod typed_outputs;
pub mod vectors;

/// A reply, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedReply {
    /// The value of `Content-Type`.
    pub content_type: Cow<'static, str>,
    /// Bytes of JSON in front of raw tensors, which a header says; `None` where there are no such tensors.
    pub json_length: Option<usize>,
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
            json_length: None,
            headers: Vec::new(),
            body: vec![body.into()],
        }
    }
}
