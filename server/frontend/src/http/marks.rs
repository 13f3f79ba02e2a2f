//! What every reply carries beside its own fields: the name of its request, where the time went, and what a page of
//! another site may read. Whatever leaves as a body of HTTP has been here.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    HeaderMap, Response,
    body::{Body, Frame, SizeHint},
};

use super::{
    body::{BrokenOff, Segments},
    cors,
    parts::Parts,
    server_timing,
};
use crate::exchange::request_id::{RequestIds, X_REQUEST_ID};
use inference::access::Origins;

/// What every reply carries. One for all connections.
#[derive(Debug, Default)]
pub struct Marks {
    /// Names requests that have none.
    pub request_ids: Arc<RequestIds>,
    /// Does a reply say where the time went?
    pub server_timing: bool,
    /// The pages that may read it.
    pub origins: Origins,
}

impl Marks {
    /// Marks the reply to a request. `total` is the time since its first byte; the clock is read for it, where it is
    /// said.
    pub fn put(
        &self,
        request: &Parts,
        response: Response<Segments>,
        total: impl FnOnce() -> Duration,
    ) -> Response<Marked> {
        let (mut head, body) = response.into_parts();
        head.headers.insert(X_REQUEST_ID, request.id.value());
        if self.server_timing {
            let value = server_timing::value(body.spent(), total());
            head.headers.insert(server_timing::SERVER_TIMING, value);
        }
        cors::share(&self.origins, &request.headers, &mut head.headers);
        Response::from_parts(head, Marked(body))
    }

    /// The lines of the head of a reply that is written by hand, as its request was not read.
    pub fn lines(&self, total: Duration) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, self.request_ids.one().value());
        if self.server_timing {
            headers.insert(server_timing::SERVER_TIMING, server_timing::value(None, total));
        }
        cors::share(&self.origins, &HeaderMap::new(), &mut headers);
        let line = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            format!("{name}: {}\r\n", value.to_str().unwrap_or_default())
        };
        headers.iter().map(line).collect()
    }
}

/// The body of a reply whose head is marked. Only [`Marks::put`] makes one, and [`Segments`] are no body of hyper's: so
/// no reply leaves without the marks.
#[derive(Debug)]
pub struct Marked(Segments);

impl Body for Marked {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.0.poll_next(context).map(|it| it.map(|it| it.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
