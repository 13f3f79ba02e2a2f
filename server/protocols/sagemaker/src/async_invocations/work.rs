//! The thread that runs asynchronous invocations, several at a time, and writes the outcome of each: the reply or the
//! failure, and a note.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::{Response, header::CONTENT_TYPE};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    async_invocations::{Input, Job, Objects, Runner, objects::ObjectError},
    codec::aws::{Location, Note, Outcome},
    facade::runtime::{Attempt, attempt},
    front::{Hosting, SageMaker},
};
use frontend::{
    drain::Guard,
    exchange::intake::Received,
    http::{Service, body::Segments, respond, service::text},
};
use inference::{error::Error, identifier::new_uuid, limits::Permit};

/// The ending of a note's name.
const NOTE: &str = ".json";

/// How long to wait before the budget is asked for memory again.
const NO_ROOM: Duration = Duration::from_millis(100);

/// The last notes must be written within this fraction of the server's patience: a store may stay silent for longer
/// than the process lives.
const LAST_NOTES: u32 = 8;

/// The reason of failure of invocations that the server has no time for.
const STOPPED: &str = "the server stopped before the invocation was done";

/// What runs jobs, and the store of their inputs and results.
struct Work {
    http: Service,
    sagemaker: SageMaker,
    objects: Arc<Objects>,
}

/// How a job ended.
enum Ended {
    /// With this body of that type. The permit is for a body that has none of its own.
    Reply { body: Vec<Bytes>, content_type: Option<String>, _held: Option<Permit> },
    /// With this body, for that reason.
    Failure { body: Bytes, reason: String },
}

impl Runner {
    /// Runs the queued jobs on a thread of its own, until the server closes. A job that has not begun by then is
    /// noted as failed, and so is a job that has not ended after `patience`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(
        self,
        http: Service,
        mut sagemaker: SageMaker,
        patience: Duration,
    ) -> io::Result<()> {
        // The queue ends when all fronts with a sender are gone: this one must not hold one.
        sagemaker.facade = None;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = http.serving.drain.guard();
        let objects = self.objects.clone();
        let run =
            move || runtime.block_on(self.run(Work { http, sagemaker, objects }, guard, patience));
        thread::Builder::new().name("async".to_owned()).spawn(run).map(drop)
    }

    async fn run(mut self, work: Work, mut guard: Guard, patience: Duration) {
        let work = Arc::new(work);
        let (stop, stopped) = watch::channel(false);
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = guard.closing() => break,
                Some(_) = running.join_next() => {}
                job = self.queue.recv(), if running.len() < self.concurrency => match job {
                    Some(job) => drop(running.spawn(work.clone().finish(job, stopped.clone()))),
                    None => break,
                },
            }
        }
        self.queue.close();
        let mut left = 0;
        while let Ok(job) = self.queue.try_recv() {
            left += 1;
            running.spawn(work.clone().give_up(job));
        }
        if 0 < left {
            tracing::warn!(left, "asynchronous invocations had not begun, and are noted as failed");
        }
        let all = async { while running.join_next().await.is_some() {} };
        if timeout(patience, all).await.is_err() {
            tracing::warn!(left = running.len(), "asynchronous invocations are given up");
            stop.send_replace(true);
            let all = async { while running.join_next().await.is_some() {} };
            if timeout(patience / LAST_NOTES, all).await.is_err() {
                tracing::error!(
                    left = running.len(),
                    "asynchronous invocations end without a note"
                );
            }
        }
    }
}

impl Work {
    /// Runs a job and writes its outcome.
    async fn finish(self: Arc<Self>, job: Job, mut stopped: watch::Receiver<bool>) {
        let allowed = job.timeout;
        let ended = match job.late(Instant::now()) {
            Some(reason) => failure(&reason),
            None => tokio::select! {
                ended = timeout(allowed, self.run(&job)) => ended.unwrap_or_else(|_| {
                    failure(&format!(
                        "the invocation took more than its {} seconds (InvocationTimeoutSeconds)",
                        allowed.as_secs()
                    ))
                }),
                // An error means that the sender is gone, which also ends the job.
                _ = stopped.wait_for(|it| *it) => failure(STOPPED),
            },
        };
        self.write(&job, ended).await;
    }

    /// Writes that a job has not begun.
    async fn give_up(self: Arc<Self>, job: Job) {
        self.write(&job, failure(STOPPED)).await;
    }

    /// Runs a job, and tries again while the server has no room for it.
    async fn run(&self, job: &Job) -> Ended {
        loop {
            let body = match self.body(&job.input).await {
                Ok(body) => body,
                Err(ObjectError::NoRoom) => {
                    sleep(NO_ROOM).await;
                    continue;
                }
                Err(problem) => return failure(&problem.to_string()),
            };
            let hosting = Hosting { http: &self.http, sagemaker: &self.sagemaker };
            match attempt(&hosting, &job.endpoint, &job.parts, body).await {
                Attempt::Done(response) => return self.reply(response).await,
                // A fetched body is fetched again for the next try, so that waiting jobs hold no memory.
                Attempt::Again(after) => sleep(after).await,
                Attempt::Failed(response, reason) => {
                    let body = response.body().pieces().flatten().copied().collect::<Vec<u8>>();
                    let body = body.into();
                    return Ended::Failure { body, reason };
                }
            }
        }
    }

    /// The body of a job.
    async fn body(&self, input: &Input) -> Result<Received, ObjectError> {
        let limits = &self.http.settings.body;
        let (bytes, permit) = match input {
            // The job holds the permit of these bytes.
            Input::Here(received) => {
                (received.bytes.clone(), limits.budget.take(0).ok_or(ObjectError::NoRoom)?)
            }
            Input::At(location) => {
                self.objects.read(location, limits.limit, &limits.budget).await?
            }
        };
        Ok(Received { bytes, permit })
    }

    /// Reads a reply to its end.
    async fn reply(&self, response: Response<Segments>) -> Ended {
        let content_type = text(response.headers(), &CONTENT_TYPE).map(str::to_owned);
        let mut inner = response.into_body();
        // A body of known length is in memory already, with a permit of its own.
        let mut held = match inner.size_hint().exact() {
            Some(_) => None,
            None => self.http.settings.body.budget.take(0),
        };
        let (mut body, mut length) = (Vec::new(), 0);
        while let Some(data) = inner.next().await {
            let data = match data {
                Ok(data) => data,
                Err(broken) => return failure(&broken.to_string()),
            };
            length += data.len();
            if let Some(held) = &mut held {
                held.cover(length);
            }
            body.push(data);
        }
        Ended::Reply { body, content_type, _held: held }
    }

    /// Writes the outcome of a job and its note. A failed write is logged.
    async fn write(&self, job: &Job, ended: Ended) {
        let (location, body, content_type, reason) = match ended {
            Ended::Reply { body, content_type, _held } => (&job.output, body, content_type, None),
            Ended::Failure { body, reason } => {
                (&job.failure, vec![body], Some("application/json".to_owned()), Some(reason))
            }
        };
        let written = self.put(job, location, body, content_type.as_deref()).await;
        // Without the reply, a note that names it would mislead.
        let (location, reason) = match written {
            Ok(location) => (location, reason),
            Err(problem) => (location.clone(), Some(problem.to_string())),
        };
        let input = match &job.input {
            Input::Here(_) => None,
            Input::At(location) => Some(location.to_string()),
        };
        let note = Note {
            inference_id: &job.inference_id,
            endpoint: &job.endpoint,
            content_type: text(&job.parts.headers, &CONTENT_TYPE),
            input: input.as_deref(),
            reply_type: content_type.as_deref(),
            output: &location.to_string(),
            outcome: reason.as_deref().map_or(Outcome::Completed, Outcome::Failed),
        };
        let note = vec![Bytes::from(note.encode())];
        let beside = job.output.with_suffix(NOTE);
        // The failed write is in the log already.
        let _ = self.put(job, &beside, note, Some("application/json")).await;
        let inference_id = &*job.inference_id;
        match reason {
            Some(reason) => {
                tracing::info!(inference_id, reason, "an asynchronous invocation failed");
            }
            None => tracing::debug!(inference_id, "an asynchronous invocation is done"),
        }
    }

    /// Writes an object under its name. Where the name is taken, writes it beside, because clients may give two
    /// results one name.
    async fn put(
        &self,
        job: &Job,
        location: &Location,
        body: Vec<Bytes>,
        content_type: Option<&str>,
    ) -> Result<Location, ObjectError> {
        let mut location = location.clone();
        let mut written = self.objects.write(&location, body.clone(), content_type).await;
        if written == Err(ObjectError::Taken) {
            location = location.with_suffix(&format!(".{}", new_uuid()));
            written = self.objects.write(&location, body, content_type).await;
        }
        let Err(problem) = written else { return Ok(location) };
        let error = problem.to_string();
        let inference_id = &*job.inference_id;
        tracing::error!(inference_id, error, "the result of an asynchronous invocation is lost");
        Err(problem)
    }
}

/// The outcome of a job that no model has answered.
fn failure(reason: &str) -> Ended {
    let body = respond::error_body(&Error::Unavailable(reason.to_owned()));
    Ended::Failure { body, reason: reason.to_owned() }
}
