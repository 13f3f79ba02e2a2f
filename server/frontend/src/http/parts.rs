//! The head of a request as handlers see it: that of HTTP, with the name that the request has.

use std::sync::Arc;

use hyper::{
    HeaderMap, Method, Uri, Version,
    http::{Extensions, request},
};

use crate::exchange::request_id::RequestId;
use formats::{body_memo::BodyMemo, kserve_v2::ReplyFormat};

/// The head of a request.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The method.
    pub method: Method,
    /// The address.
    pub uri: Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The header fields.
    pub headers: HeaderMap,
    /// What the connection knows of the request.
    pub extensions: Extensions,
    /// The name that the request has in the head of its reply.
    pub id: RequestId,
    /// What its connection remembers of requests before it; `None` for a request that is the only one.
    pub memo: Option<Arc<BodyMemo<Arc<ReplyFormat>>>>,
}

impl Parts {
    /// The head of the request with that name.
    pub fn new(parts: request::Parts, id: RequestId) -> Parts {
        let request::Parts { method, uri, version, headers, extensions, .. } = parts;
        Parts { method, uri, version, headers, extensions, id, memo: None }
    }

    /// The head of a request over a connection that has others.
    pub fn of_connection(
        parts: request::Parts,
        id: RequestId,
        memo: &Arc<BodyMemo<Arc<ReplyFormat>>>,
    ) -> Parts {
        let request::Parts { method, uri, version, headers, extensions, .. } = parts;
        Parts { method, uri, version, headers, extensions, id, memo: Some(memo.clone()) }
    }
}
