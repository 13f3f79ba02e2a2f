//! A request that failed, on its way to the reply.

use hyper::header::HeaderName;

use super::{parts::Parts, service::text};
use inference::error::Error;

/// A request that failed, as what renders its reply sees it.
#[derive(Clone, Copy)]
pub struct Failed<'a> {
    /// The head of the request.
    pub parts: &'a Parts,
    /// What went wrong.
    pub error: &'a Error,
    /// The name of the request in the log.
    pub id: &'a str,
}

impl Failed<'_> {
    /// The value of a header; `None` where it is absent or not text.
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        text(&self.parts.headers, name)
    }
}
