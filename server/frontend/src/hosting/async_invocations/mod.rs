//! Asynchronous invocations: a bounded queue of them between the clients that are answered at once and the thread that
//! runs them and writes what becomes of them.

mod objects;
mod work;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::http::request::Parts;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::exchange::intake::Received;
use crate::settings::aws::AsyncInvocations;
use inference::error::Error;
use models::stores::StoreSettings;
use objects::Objects;
use protocol::aws::Location;

/// An invocation that was taken.
pub struct Job {
    /// The endpoint's name.
    pub endpoint: String,
    /// Its headers, as the model's container would see them.
    pub parts: Parts,
    /// Its body.
    pub input: Input,
    /// Where the reply goes; the note on what became of the invocation beside it, with `.json` behind its name.
    pub output: Location,
    /// Where a failure goes.
    pub failure: Location,
    /// The client's name for it, or the one that it was given.
    pub inference_id: String,
    /// It must have begun by then.
    pub until: Instant,
    /// The time from its arrival to that.
    pub wait: Duration,
    /// How long it may run.
    pub timeout: Duration,
}

/// The body of an invocation.
pub enum Input {
    /// It came with the request.
    Here(Received),
    /// It is to be fetched.
    At(Location),
}

impl Job {
    /// Why it is not begun at that time any more; `None` when it may be.
    fn late(&self, now: Instant) -> Option<String> {
        let late = self.until < now;
        late.then(|| {
            let wait = self.wait.as_secs();
            format!("the invocation waited for more than its {wait} seconds (RequestTTLSeconds)")
        })
    }
}

/// The entrance of the queue.
pub struct Submitter {
    queue: mpsc::Sender<Job>,
    /// Bucket and prefix of all results.
    output: (String, String),
    /// Buckets and prefixes below which inputs lie; empty where they may lie anywhere.
    inputs: Vec<(String, String)>,
}

/// The other end of it: what waits to be run.
pub struct Runner {
    queue: mpsc::Receiver<Job>,
    objects: Arc<Objects>,
    concurrency: usize,
}

/// A queue as the settings say.
pub fn queue(settings: &AsyncInvocations, stores: &StoreSettings) -> (Submitter, Runner) {
    // At the bound, clients are told to come back later: they have been promised nothing yet.
    let (sender, receiver) = mpsc::channel(settings.queue.get());
    let runner = Runner {
        queue: receiver,
        objects: Arc::new(Objects::new(&settings.objects, stores)),
        concurrency: settings.concurrency.get(),
    };
    let (output, inputs) = (settings.output.clone(), settings.inputs.clone());
    (Submitter { queue: sender, output, inputs }, runner)
}

impl Submitter {
    /// Puts an invocation behind the others.
    ///
    /// # Errors
    /// When too many wait, or the server is on its way out.
    pub fn push(&self, job: Job) -> Result<(), Error> {
        self.queue.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::OutOfBudget(format!(
                "{} asynchronous invocations wait already, and no more may (--async-queue)",
                self.queue.max_capacity()
            )),
            TrySendError::Closed(_) => Error::ShuttingDown,
        })
    }

    /// May clients have this read?
    pub fn may_read(&self, input: &Location) -> bool {
        let mut inputs = self.inputs.iter();
        self.inputs.is_empty() || inputs.any(|(bucket, prefix)| input.is_below(bucket, prefix))
    }

    /// The place of a result with that name, below an extension of the path of all results; `None` where that is no
    /// place.
    pub fn result(&self, extension: Option<&str>, name: &str) -> Option<Location> {
        let (bucket, prefix) = &self.output;
        let extension = extension.unwrap_or_default().trim_matches('/');
        let parts = [prefix, extension, name].into_iter().filter(|it| !it.is_empty());
        Location::new(bucket, &parts.collect::<Vec<_>>().join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::aws::ObjectsAt;

    #[test]
    fn what_has_waited_for_too_long_is_not_begun() {
        let (now, wait) = (Instant::now(), Duration::from_secs(60));
        let result = Location::new("b", "k").unwrap();
        let job = Job {
            endpoint: "e".to_owned(),
            parts: hyper::Request::new(()).into_parts().0,
            input: Input::At(result.clone()),
            output: result.clone(),
            failure: result,
            inference_id: "i".to_owned(),
            until: now + wait,
            wait,
            timeout: wait,
        };
        assert_eq!(job.late(now + wait), None);
        let reason = job.late(now + wait + Duration::from_millis(1)).unwrap();
        assert!(reason.contains("60 seconds (RequestTTLSeconds)"), "{reason}");
    }

    #[test]
    fn results_lie_below_the_output_and_its_extension() {
        let result = |prefix: &str, extension: Option<&str>| {
            let settings = AsyncInvocations {
                objects: ObjectsAt::Folder("/spool".into()),
                output: ("b".to_owned(), prefix.to_owned()),
                inputs: Vec::new(),
                queue: std::num::NonZeroUsize::MIN,
                concurrency: std::num::NonZeroUsize::MIN,
            };
            let (submitter, _) = queue(&settings, &StoreSettings::default());
            submitter.result(extension, "x.out").map(|it| it.to_string())
        };
        assert_eq!(result("", None).as_deref(), Some("s3://b/x.out"));
        assert_eq!(result("p/q", None).as_deref(), Some("s3://b/p/q/x.out"));
        assert_eq!(result("p", Some("/team/")).as_deref(), Some("s3://b/p/team/x.out"));
        assert_eq!(result("p", Some("../other")), None);
    }
}
