//! A call before its messages are read, and what a handler makes of it.

use std::{sync::Arc, time::Duration};

use h2::RecvStream;
use hyper::HeaderMap;

use super::{
    body::{Answers, Encoded},
    compress::level,
    layout,
    message::Messages,
    metadata,
    method::Method,
    service::Grpc,
};
use crate::exchange::compression::Encoding;

/// A call before its messages are read.
pub struct Context {
    /// What serves.
    pub front: Arc<Grpc>,
    /// Which call it is.
    pub method: Method,
    /// What the client said about it.
    pub metadata: HeaderMap,
    /// How long the client waits for its end; `None` for any time.
    pub timeout: Option<Duration>,
    /// How its messages are compressed, those that are.
    pub encoding: Option<Encoding>,
}

impl Context {
    /// The messages of the call.
    pub fn messages(&self, body: RecvStream) -> Messages<'_> {
        let way = match self.method {
            Method::Predict => layout::TENSOR_CONTENT,
            _ => layout::RAW_INPUT,
        };
        Messages::new(body, self.encoding, way, &self.front.settings.messages)
    }

    /// How its answers may be compressed: as the client takes it, where the operator wants it.
    pub fn reply_encoding(&self) -> Option<Encoding> {
        level(self.front.settings.grpc.compression).and_then(|_| metadata::accepted(&self.metadata))
    }
}

/// What a handler made.
pub enum Answered {
    /// One message, and how it is compressed, if it is.
    One(Encoded, Option<Encoding>),
    /// Messages to come, and how those are compressed that are.
    Many(Answers, Option<Encoding>),
}
