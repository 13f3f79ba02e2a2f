//! What the exchange knows of a request before its body is decoded.

use std::{sync::Arc, time::Instant};

use flate2::Compression;
use hyper::{HeaderMap, header::HeaderName};

use super::{compression::Encoding, failure::Failure, request_id::RequestId};
use crate::serving::Serving;
use inference::{
    access::Forwarding,
    request::Sequence,
    signature::Signature,
    trace::{Trace, Transport},
};
use serving::ServedModel;

/// The header that names the client's trace of which the request is a part.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Does a request have one of these fields? Most have few fields, and to compare all of them takes less than to look up
/// one.
pub fn has_any(headers: &HeaderMap, names: &[HeaderName]) -> bool {
    headers.keys().any(|it| names.contains(it))
}

/// What differs between the wires.
pub struct Wire {
    /// Its name in traces.
    pub transport: Transport,
    /// The status of an answer.
    pub ok: u16,
    /// The header that says how a body is compressed.
    pub encoding_header: &'static str,
    /// The encoding in which the client takes a compressed reply, by its headers.
    pub accepted: fn(&HeaderMap) -> Option<Encoding>,
    /// Replies of fewer bytes are not compressed.
    pub smallest_compressed: usize,
}

/// What is known of a request before its body is decoded.
pub struct Call<'a> {
    /// The wire that it came over.
    pub wire: &'static Wire,
    /// The headers of HTTP, or the metadata of gRPC.
    pub headers: &'a HeaderMap,
    /// The client's name for it, where that is known already.
    pub id: Option<&'a str>,
    /// The name that it has in the head of its reply.
    pub named: Option<&'a RequestId>,
    /// When the wait for its first byte began; `None` where nothing is traced.
    pub began: Option<Instant>,
    /// When its answer becomes useless; `None` for never.
    pub deadline: Option<Instant>,
    /// How its body is compressed; `None` where it is plain, or inflated already.
    pub encoding: Option<Encoding>,
    /// The level at which its reply is compressed where the client accepts that; `None` for no compression.
    pub compression: Option<Compression>,
    /// The headers that become parameters; `None` for none.
    pub forwarding: Option<&'a Forwarding>,
    /// The sequence that the request is a part of, whatever its body says.
    pub sequence: Option<&'a Sequence>,
    /// What it is called that takes one answer to each request, and so no model that may give any number; `None` where
    /// all of them are sent.
    pub takes_one: Option<&'static str>,
}

impl Call<'_> {
    /// Begins the trace of a request for this model, where it is traced.
    pub fn begin_trace(&self, serving: &Serving, model: &ServedModel) -> Option<Arc<Trace>> {
        let Signature { model: name, version, .. } = &*model.signature;
        let parent = || self.headers.get(&TRACEPARENT).and_then(|it| it.to_str().ok());
        let began = self.began?;
        let trace = serving.tracing.begin_at(began, self.wire.transport, name, *version, parent)?;
        if let Some(named) = self.named {
            trace.named(&named.text());
        }
        Some(trace)
    }

    /// The encoding and level of this reply; `None` where it is not compressed.
    pub fn reply_compression(&self, length: usize) -> Option<(Encoding, Compression)> {
        let level = self.compression?;
        if length < self.wire.smallest_compressed {
            return None;
        }
        (self.wire.accepted)(self.headers).map(|encoding| (encoding, level))
    }

    /// A failure of this request, noted in its trace.
    pub fn failed(
        &self,
        trace: Option<&Arc<Trace>>,
        mut failure: Failure,
        model: &ServedModel,
    ) -> Failure {
        if failure.id.is_none() {
            failure.id = self.id.map(Arc::from);
        }
        failure.traced(&model.signature.model, trace)
    }
}
