//! The time that a request has taken, as headers of its reply.

use std::time::Instant;

use hyper::{
    Response,
    header::{HeaderName, HeaderValue},
};

use crate::codec::cost;
use frontend::http::body::Segments;

/// Adds the time since the request began.
pub fn add_times(response: &mut Response<Segments>, began: Instant) {
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    for name in [cost::TIME, cost::TOTAL_TIME] {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(took));
    }
}
