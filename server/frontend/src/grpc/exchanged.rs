//! Inference over gRPC, for every protocol: the exchange with the head of a call, and its answer as a message.

use std::{collections::VecDeque, time::Instant};

use bytes::Bytes;

use super::{body::Encoded, compress::level, context::Context, message::ENCODING, metadata};
use crate::exchange::{Answer, Call, Wire, rendering::Code};
use inference::{
    error::Error,
    trace::{Trace, Transport},
};

/// The wire of gRPC.
const WIRE: &Wire = &Wire {
    transport: Transport::Grpc,
    ok: Code::Ok as u16,
    encoding_header: ENCODING,
    accepted: metadata::accepted,
    smallest_compressed: 0,
};

/// When the wait for a request began, and when its answer becomes useless.
#[derive(Clone, Copy)]
pub struct Times {
    /// `None` where nothing is traced.
    pub began: Option<Instant>,
    /// `None` for never.
    pub deadline: Option<Instant>,
}

impl Times {
    /// The times of a call that begins now.
    pub fn now(context: &Context) -> Times {
        let serving = &context.front.serving;
        Times { began: serving.tracing.now(), deadline: serving.deadline(context.timeout) }
    }
}

/// What the exchange needs to know of a call.
pub fn call<'a>(context: &'a Context, times: Times, id: Option<&'a str>) -> Call<'a> {
    let settings = &context.front.settings;
    Call {
        wire: WIRE,
        headers: &context.metadata,
        id,
        named: Some(&context.id),
        began: times.began,
        deadline: times.deadline,
        // `None`: messages are inflated one by one, before their model is known.
        encoding: None,
        compression: level(settings.grpc.compression),
        forwarding: settings.forwarding.as_deref(),
        sequence: None,
        takes_one: Some("the RPC"),
    }
}

/// The pieces of the message that is written.
impl From<Answer<VecDeque<Bytes>>> for Encoded {
    fn from(answer: Answer<VecDeque<Bytes>>) -> Encoded {
        let Answer { reply, permit, trace, spent: _ } = answer;
        Encoded { pieces: reply, permit: Some(permit), sending: trace.map(Trace::sending) }
    }
}

/// The error of a message whose end names another model than its start.
pub fn named_twice() -> Error {
    let problem = "the model, its version and the request are named twice and differ; expected one name for each";
    Error::InvalidRequest(problem.to_owned())
}
