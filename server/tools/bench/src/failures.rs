//! Requests that were not answered, counted by what happened, and the first one that was not answered well.

use std::time::Duration;

use serde::Serialize;

use crate::numbers;

/// Why there was no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoReply {
    /// The connection could not be opened.
    Connect,
    /// It was closed or reset before the reply was complete.
    Reset,
    /// The reply did not come in time.
    Timeout,
    /// What came is not HTTP/1.
    Malformed,
}

impl NoReply {
    pub(crate) const ALL: [NoReply; 4] =
        [NoReply::Connect, NoReply::Reset, NoReply::Timeout, NoReply::Malformed];

    /// As it is counted.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            NoReply::Connect => "connect",
            NoReply::Reset => "reset",
            NoReply::Timeout => "timeout",
            NoReply::Malformed => "malformed",
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
    pub(crate) fn of(&self, failure: NoReply) -> u64 {
        match failure {
            NoReply::Connect => self.connect,
            NoReply::Reset => self.reset,
            NoReply::Timeout => self.timeout,
            NoReply::Malformed => self.malformed,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.connect + self.reset + self.timeout + self.malformed
    }
}
