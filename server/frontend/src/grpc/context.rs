//! The head of a call as handlers get it, and the answer that they return.

use std::{ops::Range, sync::Arc, time::Duration};

use h2::RecvStream;
use hyper::HeaderMap;

use super::{
    body::{Answers, Encoded},
    compress::level,
    layout::FieldPath,
    message::Messages,
    metadata,
    service::Grpc,
};
use crate::exchange::{compression::Encoding, request_id::RequestId};
use formats::body_memo::BodyMemo;
use inference::access::Need;

/// What is known of a method before its messages are read.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The access that a client needs to call it.
    pub need: Need,
    /// Do its messages have inputs or files, which are as large as the client likes? All others are short.
    pub has_data: bool,
    /// The fields that lead to the first raw tensor of a message, which is to lie aligned.
    pub first_tensor: FieldPath,
}

/// Where a message names its model and the version of it.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The bytes of the model's name.
    pub model: Range<usize>,
    /// The bytes of the version; none for the highest.
    pub version: Range<usize>,
}

/// What a connection gives each of its calls.
pub struct Given {
    /// The name of the call.
    pub id: RequestId,
    /// What all calls of the connection remember.
    pub memo: Arc<BodyMemo<Names>>,
}

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
    /// The name that the call has in the metadata of its reply.
    pub id: RequestId,
    /// What its connection remembers of calls before it.
    pub memo: Arc<BodyMemo<Names>>,
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
