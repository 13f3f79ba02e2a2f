//! What a server has said so far: lines of its log, where it listens, what it has loaded.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::Value;

/// Lines of the log that are kept for a failure.
const LAST_LINES: usize = 20;

/// Guards what the server has said.
#[derive(Debug, Default)]
pub(crate) struct Log {
    said: Mutex<Said>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The last lines.
    pub(crate) lines: VecDeque<String>,
    /// Where `/invocations` is.
    pub(crate) address: Option<String>,
    /// Where the addresses of the KServe v2 protocol are.
    pub(crate) http: Option<String>,
    /// Where the page of metrics is.
    pub(crate) metrics: Option<String>,
    pub(crate) ready: bool,
    /// The line that says what each model has become that was loaded.
    pub(crate) loaded: Vec<Value>,
    /// Streams that have ended, of two.
    pub(crate) silent: usize,
}

impl Log {
    /// Reads a stream to its end.
    pub(crate) fn listen(&self, stream: impl Read) {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            let text = |name: &str| event.get(name).and_then(Value::as_str);
            let mut said = self.said();
            match (text("message"), text("service")) {
                (Some("listening"), Some("sagemaker")) => {
                    said.address = text("address").map(str::to_owned);
                }
                (Some("listening"), Some("http")) => {
                    said.http = text("address").map(str::to_owned);
                }
                (Some("listening"), Some("metrics")) => {
                    said.metrics = text("address").map(str::to_owned);
                }
                (Some("ready to serve"), _) => said.ready = true,
                (Some("model is ready"), _) => said.loaded.push(event),
                _ => {}
            }
            if said.lines.len() == LAST_LINES {
                said.lines.pop_front();
            }
            said.lines.push_back(line);
            self.changed.notify_all();
        }
        self.said().silent += 1;
        self.changed.notify_all();
    }

    /// What was said by now.
    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something that the server says, at the latest until then.
    pub(crate) fn wait(&self, is: impl Fn(&Said) -> bool, until: Instant) {
        let said = self.said();
        let left = until.saturating_duration_since(Instant::now());
        // What has come of it is read by the caller.
        drop(self.changed.wait_timeout_while(said, left, |it| !is(it)));
    }
}
