//! Requests that were not answered, counted by what happened, and the first one that was not answered well.

use std::time::Duration;

use serde::Serialize;

use crate::numbers;

/// Why there was no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// The connection could not be opened.
    Connect,
    /// It was closed or reset before the reply was complete.
    Reset,
    /// The reply did not come in time.
    Timeout,
    /// What came is not HTTP/1.
    Malformed,
}

impl Failure {
    pub(crate) const ALL: [Failure; 4] =
        [Failure::Connect, Failure::Reset, Failure::Timeout, Failure::Malformed];

    /// As it is counted.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Failure::Connect => "connect",
            Failure::Reset => "reset",
            Failure::Timeout => "timeout",
            Failure::Malformed => "malformed",
        }
    }
}

/// The first request of a measurement that got no 2xx reply.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstBad {
    /// Since the beginning of the measurement.
    #[serde(rename = "at_s", serialize_with = "numbers::seconds")]
    pub at: Duration,
    /// Users of that moment.
    pub users: usize,
    /// Index of the request in the plan.
    pub request: usize,
    /// Which of the requests that were sent within the measurement it was, from 1.
    pub number: u64,
    /// What came instead: the status, the content type and the beginning of the reply, or what went wrong with the
    /// connection.
    pub problem: String,
}

/// A reply that is not 2xx, in words: its status, its type where it says one, and the beginning of its body.
pub(crate) fn refusal(status: u16, content_type: &str, beginning: &str) -> String {
    let parts = [format!("status {status}"), content_type.to_owned(), beginning.to_owned()];
    let parts: Vec<String> = parts.into_iter().filter(|it| !it.is_empty()).collect();
    parts.join(", ")
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

    /// How many there were of one kind.
    pub(crate) fn of(&self, failure: Failure) -> u64 {
        match failure {
            Failure::Connect => self.connect,
            Failure::Reset => self.reset,
            Failure::Timeout => self.timeout,
            Failure::Malformed => self.malformed,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.connect + self.reset + self.timeout + self.malformed
    }
}
