//! Asynchronous invocations: a bounded queue between the request, which is answered at once, and the thread that runs
//! the invocation and writes its result.

mod objects;
mod work;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{self, error::TrySendError};

use crate::{codec::aws::Location, settings::aws::AsyncInvocations};
use frontend::{exchange::intake::Received, http::parts::Parts};
use inference::error::Error;
use objects::Objects;
use stores::StoreSettings;

/// An invocation that was accepted.
pub struct Job {
    /// The endpoint's name.
    pub endpoint: String,
    /// Its headers, as the model's container would see them.
    pub parts: Parts,
    /// Its body.
    pub input: Input,
    /// Where the reply goes. The note on the outcome lies beside it, under the same name with `.json` at the end.
    pub output: Location,
    /// Where a failure goes instead.
    pub failure: Location,
    /// The client's name for it, or a generated one.
    pub inference_id: String,
    /// The invocation fails where it has not begun by then.
    pub until: Instant,
    /// The longest wait: the time from its arrival to `until`.
    pub wait: Duration,
    /// The longest run.
    pub timeout: Duration,
}

/// The body of an invocation.
pub enum Input {
    /// The body came with the request.
    Here(Received),
    /// The body lies in an object that is read when the invocation runs.
    At(Location),
}

impl Job {
    /// Why it may not begin at that time any more; `None` when it may.
    fn late(&self, now: Instant) -> Option<String> {
        let late = self.until < now;
        late.then(|| {
            let wait = self.wait.as_secs();
            format!("the invocation waited for more than its {wait} seconds (RequestTTLSeconds)")
        })
    }
}

/// The sending end of the queue.
pub struct Submitter {
    queue: mpsc::Sender<Job>,
    /// Bucket and prefix of all results.
    output: (String, String),
    /// Buckets and prefixes below which inputs lie; empty where they may lie anywhere.
    inputs: Vec<(String, String)>,
}

/// The receiving end of the queue, with what it takes to run invocations.
pub struct Runner {
    queue: mpsc::Receiver<Job>,
    objects: Arc<Objects>,
    concurrency: usize,
}

/// Both ends of a queue with these settings.
pub fn queue(settings: &AsyncInvocations, stores: &StoreSettings) -> (Submitter, Runner) {
    // At the bound, a new invocation is refused with a retry time: the client has no promise yet.
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
    /// Queues an invocation behind the others.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] when the queue is full, [`Error::ShuttingDown`] when the server stops.
    pub fn push(&self, job: Job) -> Result<(), Error> {
        self.queue.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::OutOfBudget(format!(
                "{} asynchronous invocations wait already, and no more may (--async-queue)",
                self.queue.max_capacity()
            )),
            TrySendError::Closed(_) => Error::ShuttingDown,
        })
    }

    /// May clients name this object as an input?
    pub fn may_read(&self, input: &Location) -> bool {
        let mut inputs = self.inputs.iter();
        self.inputs.is_empty() || inputs.any(|(bucket, prefix)| input.is_below(bucket, prefix))
    }

    /// The place of a result with that name. `extension` is a path below the prefix of all results. `None` where the
    /// two make no valid place.
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
    use frontend::exchange::request_id::RequestIds;

    #[test]
    fn what_has_waited_for_too_long_is_not_begun() {
        let (now, wait) = (Instant::now(), Duration::from_secs(60));
        let result = Location::new("b", "k").unwrap();
        let job = Job {
            endpoint: "e".to_owned(),
            parts: Parts::new(hyper::Request::new(()).into_parts().0, RequestIds::default().one()),
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
