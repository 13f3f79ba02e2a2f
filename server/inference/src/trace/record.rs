//! One trace while its request is under way: what happened when, and to what.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{NamedTensor, Turn};

use super::config::TraceLevels;

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Over HTTP.
    Http,
    /// Over gRPC.
    Grpc,
    /// From inside the server.
    Inside,
}

/// What happens to a request, in the order of a request that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Its head has come.
    ReceiveStart,
    /// Its body has.
    ReceiveEnd,
    /// It is decoded, and accepted.
    RequestStart,
    /// Of texts: their tokens are made.
    PrepareStart,
    /// Of texts: the rows of the graph are there.
    PrepareEnd,
    /// It waits for an instance.
    QueueStart,
    /// An instance takes it, with others or alone.
    ComputeStart,
    /// The engine begins.
    ComputeInputEnd,
    /// The engine is done.
    ComputeOutputStart,
    /// Its outputs are cut out of those of its batch.
    ComputeEnd,
    /// Of texts: what is kept of the rows becomes the answer.
    FinishStart,
    /// Of texts: it is there.
    FinishEnd,
    /// Its response is made.
    ResponseComplete,
    /// The model is done with it.
    RequestEnd,
    /// The encoded answer goes to its connection.
    SendStart,
    /// All of it has gone.
    SendEnd,
}

impl Moment {
    /// Triton's name; what Triton has not has one of its kind.
    pub(super) fn name(self, transport: Transport) -> &'static str {
        let of_front = |http, grpc| if transport == Transport::Grpc { grpc } else { http };
        match self {
            Moment::ReceiveStart => of_front("HTTP_RECV_START", "GRPC_WAITREAD_START"),
            Moment::ReceiveEnd => of_front("HTTP_RECV_END", "GRPC_WAITREAD_END"),
            Moment::RequestStart => "REQUEST_START",
            Moment::PrepareStart => "PREPARE_START",
            Moment::PrepareEnd => "PREPARE_END",
            Moment::QueueStart => "QUEUE_START",
            Moment::ComputeStart => "COMPUTE_START",
            Moment::ComputeInputEnd => "COMPUTE_INPUT_END",
            Moment::ComputeOutputStart => "COMPUTE_OUTPUT_START",
            Moment::ComputeEnd => "COMPUTE_END",
            Moment::FinishStart => "FINISH_START",
            Moment::FinishEnd => "FINISH_END",
            Moment::ResponseComplete => "INFER_RESPONSE_COMPLETE",
            Moment::RequestEnd => "REQUEST_END",
            Moment::SendStart => of_front("HTTP_SEND_START", "GRPC_SEND_START"),
            Moment::SendEnd => of_front("HTTP_SEND_END", "GRPC_SEND_END"),
        }
    }
}

/// Which tensors those are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// As the client gave them.
    QueueInput,
    /// As the engine gets them.
    BackendInput,
    /// As the engine gave them.
    BackendOutput,
}

/// What was decided when the request came.
#[derive(Debug, Clone)]
pub(super) struct Sampled {
    /// The number of the trace.
    pub(super) id: u64,
    /// The number of the trace of which this one is a part.
    pub(super) parent_id: Option<u64>,
    pub(super) levels: TraceLevels,
    /// Traces in one file.
    pub(super) log_frequency: u64,
    /// Names of spans, where there are to be some.
    pub(super) spans: Option<Spans>,
}

/// Names by which spans refer to each other.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    pub(super) trace: [u8; 16],
    /// That of the client, or of the model of which this one is a part.
    pub(super) parent: Option<[u8; 8]>,
    /// That of the request; `None` for one from inside.
    pub(super) root: Option<[u8; 8]>,
    pub(super) model: [u8; 8],
}

/// What happened to one request.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) transport: Transport,
    pub(super) model: Arc<str>,
    pub(super) version: u64,
    /// The signature that is run, of a model whose file has names for them.
    pub(super) signature: Option<Arc<str>>,
    /// The client's name for it in its body.
    pub(super) request_id: Option<Arc<str>>,
    /// Its name in the head of its reply.
    pub(super) x_request_id: Option<Arc<str>>,
    /// Almost in order.
    pub(super) stamps: Vec<(Moment, Instant)>,
    pub(super) tensors: Vec<(Activity, NamedTensor)>,
    pub(super) rows: Option<usize>,
    /// Rows of the whole batch.
    pub(super) batch_rows: Option<usize>,
    /// Where it ran in a process of its model's own.
    pub(super) turn: Option<Turn>,
    /// As the front's protocol has it.
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
}

impl Record {
    pub(super) fn new(transport: Transport, model: Arc<str>, version: u64) -> Record {
        Record {
            transport,
            model,
            version,
            signature: None,
            request_id: None,
            x_request_id: None,
            // As many as there are moments.
            stamps: Vec::with_capacity(12),
            tensors: Vec::new(),
            rows: None,
            batch_rows: None,
            turn: None,
            status: None,
            error: None,
        }
    }

    /// The name that the client knows it by.
    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.request_id.as_ref().or(self.x_request_id.as_ref())
    }

    /// When something happened, if it did.
    pub(super) fn at(&self, moment: Moment) -> Option<Instant> {
        self.stamps.iter().find(|it| it.0 == moment).map(|it| it.1)
    }

    /// From one moment to another, if both have been.
    pub(super) fn between(&self, from: Moment, to: Moment) -> Option<Duration> {
        Some(self.at(to)?.saturating_duration_since(self.at(from)?))
    }
}

/// A trace that is over.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) sampled: Sampled,
    pub(super) record: Record,
}
