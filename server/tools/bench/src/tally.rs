//! Counts what happens to the requests of a run. Pure.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use crate::{Failures, FirstWrong, check::WrongReply, failures::NoReply};

/// Three digits of a latency are kept: percentiles are right within 0.1 %.
const DIGITS: u8 = 3;
/// Longer latencies count as this one: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;
/// A request that was late by more than this was sent late by the generator.
pub(crate) const LATE: Duration = Duration::from_millis(1);

/// Characters of a reply that are shown.
const SHOWN: usize = 300;

/// The counts of one run.
#[derive(Debug)]
pub(crate) struct Tally {
    deadline: Option<Duration>,
    /// Of 2xx replies, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// Of replies with another status, in nanoseconds.
    pub(crate) refusal_latency: Histogram<u64>,
    /// 2xx replies within the deadline.
    pub(crate) good: u64,
    /// Replies by status.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// The beginning of the first body with a status that is not 2xx, on one line.
    pub(crate) refusals: BTreeMap<u16, String>,
    pub(crate) failures: Failures,
    /// What went wrong with the first request of each kind of failure.
    pub(crate) problems: BTreeMap<NoReply, String>,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Requests that waited for a free connection (open loop).
    pub(crate) waited: u64,
    /// Requests that the generator sent late although a connection was free.
    pub(crate) late: u64,
    /// Requests that were due and never sent (open loop).
    pub(crate) unsent: u64,
    /// Replies that a check found wrong, those of the warm-up included.
    pub(crate) wrong: u64,
    /// Replies that were checked, likewise.
    pub(crate) checked: u64,
    /// The first of those that were wrong.
    pub(crate) first_wrong: Option<FirstWrong>,
    /// Connections that were opened after the first ones, likewise.
    pub(crate) reconnects: u64,
}

impl Tally {
    pub(crate) fn new(deadline: Option<Duration>) -> Tally {
        let histogram =
            || Histogram::new_with_max(LONGEST, DIGITS).expect("the bounds are constants that fit");
        Tally {
            deadline,
            latency: histogram(),
            refusal_latency: histogram(),
            good: 0,
            statuses: BTreeMap::new(),
            refusals: BTreeMap::new(),
            failures: Failures::default(),
            problems: BTreeMap::new(),
            bytes_sent: 0,
            bytes_received: 0,
            waited: 0,
            late: 0,
            unsent: 0,
            wrong: 0,
            checked: 0,
            first_wrong: None,
            reconnects: 0,
        }
    }

    /// Counts what the other has counted, too.
    pub(crate) fn add(&mut self, other: &Tally) {
        let same = "all histograms have the same bounds";
        self.latency.add(&other.latency).expect(same);
        self.refusal_latency.add(&other.refusal_latency).expect(same);
        self.good += other.good;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (status, body) in &other.refusals {
            self.refusals.entry(*status).or_insert_with(|| body.clone());
        }
        self.failures.add(other.failures);
        for (failure, problem) in &other.problems {
            self.problems.entry(*failure).or_insert_with(|| problem.clone());
        }
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.waited += other.waited;
        self.late += other.late;
        self.unsent += other.unsent;
        self.wrong += other.wrong;
        self.checked += other.checked;
        if self.first_wrong.is_none() {
            self.first_wrong.clone_from(&other.first_wrong);
        }
        self.reconnects += other.reconnects;
    }

    /// The body of a reply that is not 2xx, of which the first of each status is kept.
    pub(crate) fn refusal(&mut self, status: u16, body: &[u8]) {
        self.refusals.entry(status).or_insert_with(|| beginning(body));
    }

    /// What a check has found of a reply.
    pub(crate) fn checked(&mut self, request: usize, found: Result<(), WrongReply>) {
        self.checked += 1;
        if let Err(problem) = found {
            self.wrong += 1;
            let problem = problem.to_string();
            self.first_wrong.get_or_insert(FirstWrong { request, problem });
        }
    }

    /// A complete reply.
    pub(crate) fn reply(&mut self, status: u16, latency: Duration, bytes: u64) {
        *self.statuses.entry(status).or_default() += 1;
        self.bytes_received += bytes;
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if (200..300).contains(&status) {
            self.latency.saturating_record(nanoseconds);
            self.good += u64::from(self.deadline.is_none_or(|deadline| latency <= deadline));
        } else {
            self.refusal_latency.saturating_record(nanoseconds);
        }
    }

    /// A request without a reply.
    pub(crate) fn failure(&mut self, failure: NoReply, problem: &str) {
        self.problems.entry(failure).or_insert_with(|| problem.to_owned());
        match failure {
            NoReply::Connect => self.failures.connect += 1,
            NoReply::Reset => self.failures.reset += 1,
            NoReply::Timeout => self.failures.timeout += 1,
            NoReply::Malformed => self.failures.malformed += 1,
        }
    }

    /// A request that was due at `lag` before it was sent, `own_lag` of which a connection was free.
    pub(crate) fn sent(&mut self, bytes: usize, lag: Duration, own_lag: Duration) {
        self.bytes_sent += bytes as u64;
        self.waited += u64::from(lag > own_lag);
        self.late += u64::from(own_lag > LATE);
    }

    /// Replies of any status.
    pub(crate) fn replies(&self) -> u64 {
        self.statuses.values().sum()
    }
}

/// The first characters of a body, on one line.
pub(crate) fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.replace(|it: char| it.is_control(), " ");
    text.trim_ascii().chars().take(SHOWN).collect()
}
