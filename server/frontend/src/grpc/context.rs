//! The head of a call as handlers get it, and the answer that they return.

use std::{sync::Arc, time::Duration};

use h2::RecvStream;
use hyper::HeaderMap;

use super::{
    body::{Answers, Encoded},
    compress::level,
    message::Messages,
    metadata,
    service::Grpc,
    services::Facts,
};
use crate::exchange::compression::Encoding;

/// The head of a call, before its messages are read.
pub struct Context {
    /// The models, limits and settings.
    pub front: Arc<Grpc>,
    /// What is known of its method.
    pub facts: Facts,
    /// The metadata that the client sent.
    pub metadata: HeaderMap,
    /// How long the client waits for the end of the call; `None` for any time.
    pub timeout: Option<Duration>,
    /// The encoding of the compressed messages.
    pub encoding: Option<Encoding>,
}

impl Context {
    /// The messages of the call.
    pub fn messages(&self, body: RecvStream) -> Messages<'_> {
        let limits = match self.facts.has_data {
            true => &self.front.settings.messages,
            false => &self.front.control,
        };
        let calls = self.front.serving.footprint.yielding().clone();
        Messages::new(body, self.encoding, self.facts.first_tensor, limits, calls)
    }

    /// The encoding of answers: one that the client accepts, where the operator wants compression.
    pub fn reply_encoding(&self) -> Option<Encoding> {
        level(self.front.settings.grpc.compression).and_then(|_| metadata::accepted(&self.metadata))
    }
}

/// The answer of a handler.
pub enum Answered {
    /// One message, and the encoding of its compression; `None` for plain.
    One(Encoded, Option<Encoding>),
    /// A stream of messages, and the encoding of those that are compressed.
    Many(Answers, Option<Encoding>),
}
