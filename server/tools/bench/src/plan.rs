//! What a run does: to whom, what, how fast, how long.

use std::{fmt, sync::Arc, time::Duration};

use serde::Serialize;

use crate::{Check, Error, Interval, Progress, Request, Target, Traffic};

/// Where open-loop requests lie in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// As many independent users send them: exponentially distributed distances.
    Poisson,
    /// At equal distances.
    Constant,
}

/// What decides that the next request is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// A connection sends its next request when it has read the reply.
    Closed,
    /// The same with users that come and go, each over a connection of its own.
    Users(Traffic),
    /// Requests are due at their own times and wait where no connection is free.
    Open {
        /// Requests per second.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
}

/// Ends a run early: it is shown the windows that have ended so far, and says whether that is enough.
pub type Enough = dyn Fn(&[Interval]) -> bool + Send + Sync;

/// A run. Made by [`Plan::new`], then changed field by field.
#[derive(Clone)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// Sent in turn; at least one.
    pub requests: Vec<Request>,
    /// Closed unless changed.
    pub load: Load,
    /// Connections, each with at most one request on its way; 1 unless changed. Without effect where the load has
    /// users.
    pub connections: usize,
    /// Time before the measurement in which requests are sent and not counted; none unless changed.
    pub warm_up: Duration,
    /// How long requests are sent and counted. Those on their way at its end are waited for and counted.
    /// 10 seconds unless changed; this or `count` must be there. Without effect where the load has users.
    pub duration: Option<Duration>,
    /// Most requests that are counted.
    pub count: Option<u64>,
    /// Longest a request may be on its way before it is given up, from when it was handed to a connection;
    /// 30 seconds unless changed.
    pub timeout: Duration,
    /// Latency above which a reply does not count as good.
    pub deadline: Option<Duration>,
    /// A process that serves, for its processor time: counted with all its descendants.
    pub pid: Option<u32>,
    /// May it be gone when the measurement begins? What it uses is not known then; otherwise it is an error.
    pub may_go: bool,
    /// The server's page of metrics, which is asked what its GPUs are used for with each sample; `/metrics` where there
    /// is no path.
    pub metrics: Option<Target>,
    /// What the answers must be.
    pub check: Check,
    /// Of the random arrivals.
    pub seed: u64,
    /// Told how far the run has come.
    pub progress: Option<Arc<Progress>>,
    /// Asked each second and after each window.
    pub enough: Option<Arc<Enough>>,
}

impl Plan {
    /// A closed loop over one connection for 10 seconds.
    pub fn new(target: Target, requests: Vec<Request>) -> Plan {
        Plan {
            target,
            requests,
            load: Load::Closed,
            connections: 1,
            warm_up: Duration::ZERO,
            duration: Some(Duration::from_secs(10)),
            count: None,
            timeout: Duration::from_secs(30),
            deadline: None,
            pid: None,
            may_go: false,
            metrics: None,
            check: Check::Nothing,
            seed: 0,
            progress: None,
            enough: None,
        }
    }

    /// Most connections at a time.
    pub(crate) fn most_connections(&self) -> usize {
        match &self.load {
            Load::Users(traffic) => traffic.most_users(),
            Load::Closed | Load::Open { .. } => self.connections,
        }
    }

    /// How long requests are sent, where no number of them ends it.
    pub(crate) fn time(&self) -> Option<Duration> {
        match &self.load {
            Load::Users(traffic) => Some(traffic.duration()),
            Load::Closed | Load::Open { .. } => self.duration,
        }
    }

    /// Are its requests gRPC calls?
    pub(crate) fn is_grpc(&self) -> bool {
        self.requests.first().is_some_and(Request::is_grpc)
    }

    /// Does it make sense?
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if self.requests.is_empty() {
            return Err(Error::plan("requests", "expected at least one"));
        }
        if self.requests.iter().any(|it| it.is_grpc() != self.is_grpc()) {
            return Err(Error::plan("requests", "expected HTTP/1.1 or gRPC, not both"));
        }
        if self.connections == 0 {
            return Err(Error::plan("connections", "expected at least 1, given 0"));
        }
        if let Load::Users(traffic) = &self.load {
            traffic.validate()?;
        }
        if let Load::Open { rate, .. } = self.load
            && !(rate.is_finite() && (1e-3..=1e8).contains(&rate))
        {
            let problem = format!("expected 0.001 to 100,000,000 requests/s, given {rate}");
            return Err(Error::plan("rate", problem));
        }
        if self.time().is_none() && self.count.is_none() {
            return Err(Error::plan("duration", "expected a duration or a number of requests"));
        }
        for (setting, value) in [("duration", self.time()), ("timeout", Some(self.timeout))] {
            if value.is_some_and(|it| it.is_zero()) {
                return Err(Error::plan(setting, "expected more than nothing, given 0"));
            }
        }
        if self.count == Some(0) {
            return Err(Error::plan("count", "expected at least 1, given 0"));
        }
        match &self.check {
            Check::EveryBody(hashes) if hashes.len() != self.requests.len() => {
                let problem = format!(
                    "expected one hash for each of the {} requests, given {}",
                    self.requests.len(),
                    hashes.len()
                );
                Err(Error::plan("check", problem))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Plan {
    /// Who it is for and how much; not the bodies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("target", &self.target)
            .field("requests", &self.requests.len())
            .field("load", &self.load)
            .field("connections", &self.connections)
            .field("duration", &self.duration)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
