//! Requests that were not answered, counted by what happened, and the first one that was not answered well.

use std::time::Duration;

use serde::Serialize;

use crate::numbers;

/// The first request of a measurement that got no 2xx reply.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FirstBad {
    /// Since the beginning of the measurement.
    #[serde(rename = "at_s", serialize_with = "numbers::seconds")]
    pub at: Duration,
    /// Users of that moment.
    pub users: usize,
    /// Index of the request in the plan.
    pub request: usize,
}

/// Requests that got no reply, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// The connection could not be opened.
    pub connect: u64,
    /// It was closed or reset before the reply was complete. A request is not sent again: a server that
    /// closes idle connections without a word shows here.
    pub reset: u64,
    /// The reply did not come within the timeout.
    pub timeout: u64,
    /// What came is not HTTP/1.
    pub malformed: u64,
}

impl Failures {
    /// Counts those of `other`, too.
    pub(crate) fn add(&mut self, other: Failures) {
        self.connect += other.connect;
        self.reset += other.reset;
        self.timeout += other.timeout;
        self.malformed += other.malformed;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.connect + self.reset + self.timeout + self.malformed
    }
}
