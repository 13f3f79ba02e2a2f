//! One request on a pipeline: its texts become rows of the graph, which are jobs of their own and run with those of
//! other requests; what comes out of each is reduced to what is kept of it, and the rows of a text become its answer.
//!
//! No ensemble is built, and there is no second queue: rows of all requests wait in the queue of the graph. Inputs and
//! answers are tensors between codec and model, so every wire, the cache and traces have them without code of their
//! own.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::NamedTensor;

use crate::{
    infer::{
        parts::Leaving,
        prepared::{FEW, Preparing, Ready, prepare},
        rows::{Counted, bytes_of_output, room_for_texts, run_rows},
    },
    pipeline::{
        elsewhere::Effort,
        inputs,
        open::ServedPipeline,
        outputs::{Counts, Outputs},
        parameters::{self, Asked},
        row_error::error,
    },
};
use inference::{
    boxed::BoxFuture,
    error::Error,
    limits::Budget,
    request::Parameter,
    room::Room,
    signature::Port,
    task::{Medium, RESULT, TEXT, Task},
    timings::Timings,
    trace::Trace,
};
use schedule::{
    Scheduler, Submission,
    prepare::CancelToken,
    work::{Done, Work},
};
use steps::{Context, GraphOutput, Prepared, Reduced, ResultForm, RowError, Step};
use telemetry::metrics::{FailureReason, InputRefusal, ModelMetrics, PipelineStep};

/// Most numbers of a reply with the vectors of all tokens: some 80 MiB of JSON.
const MOST_FEATURES: usize = 1 << 22;

/// Bytes of a number in a reply as text, mostly.
const BYTES_OF_NUMBER: usize = 20;

/// What is asked of a pipeline.
pub(super) struct Asking<'a> {
    /// The task of the form that the request has.
    pub(super) task: Task,
    pub(super) pipeline: &'a Arc<ServedPipeline>,
    /// What the request says of how it is answered.
    pub(super) parameters: &'a [(Arc<str>, Parameter)],
    /// Its texts, checked; the rest is that of each of its rows.
    pub(super) submission: Submission,
    /// Of which decoded files take their bytes.
    pub(super) bytes: Option<&'a Arc<Budget>>,
    /// Of the model.
    pub(super) metrics: &'a ModelMetrics,
    pub(super) trace: Option<&'a Trace>,
}

/// Answers a request in texts.
///
/// # Errors
/// When a text or a parameter is not what the task takes, and those of the runs: the first, with which all fails.
///
/// # Cancel safety
/// Dropping the future withdraws all rows.
pub(super) fn run<'a>(
    scheduler: &'a Scheduler,
    asking: Asking<'a>,
) -> BoxFuture<'a, Result<Done, Error>> {
    Box::pin(answer(scheduler, asking))
}

async fn answer(scheduler: &Scheduler, asking: Asking<'_>) -> Result<Done, Error> {
    let Asking { task, pipeline, parameters, submission, bytes, metrics, trace } = asking;
    let (work, deadline) = (submission.work.clone(), submission.deadline);
    let began = Instant::now();
    let mut reply = Room::of(bytes, Room::REPLY);
    let ready = ready(scheduler, pipeline, task, &work, parameters, bytes, deadline);
    let ready = ready.await;
    let prepare = began.elapsed();
    metrics.pipeline_step(task.medium(), PipelineStep::Prepare, prepare);
    let ready = match ready {
        Ok((asked, ready, of_reply)) => {
            // Before the reply has room: nobody waits for this who has that.
            let first = room_for_texts(bytes, pipeline, &ready.prepared, deadline).await;
            if let Err(Error::DeadlineExceeded { .. }) = first {
                metrics.failure(FailureReason::Canceled);
            }
            // A reply that has no room is refused before its rows are run.
            let first = first.and_then(|first| reply.reserve(of_reply).map(|()| first));
            first.map(|first| (asked, ready, first))
        }
        Err(error) => Err(error),
    };
    // What was decided covers the rows until they have run.
    let (asked, Ready { prepared, rooms, here }, first) =
        ready.inspect_err(|it| match refusal(it) {
            Some(reason) => metrics.inputs_refused(reason),
            // What would wait too long has been counted where that was found.
            None if matches!(it, Error::OutOfBudget(_)) => metrics.failure(FailureReason::Rejected),
            None => {}
        })?;
    if let Some(bytes) = here {
        pipeline.pace.learn(bytes, prepare);
    }
    if let Some(trace) = trace {
        trace.prepared(began);
        trace.queued(&work.inputs);
    }
    metrics.inputs_ready(inputs::medium(task, &work.inputs), work.rows.max(1));
    let (mut started, mut rows) = (Vec::new(), Vec::new());
    for it in prepared {
        let counts = Counts { tokens: it.tokens(), is_truncated: it.truncated() > 0 };
        if task.medium() == Medium::Text {
            metrics.text_input(counts.tokens, counts.is_truncated);
        }
        started.push(Started { context: it.context, rows: it.rows.len(), counts });
        rows.extend(it.rows);
    }
    let leaving = Leaving::new(scheduler, submission.accepted);
    let mut counted = Counted { bytes, reply: &mut reply, first };
    let done = run_rows(scheduler, pipeline, &submission, rows, &mut counted).await;
    leaving.end();
    drop(rooms);
    let ended = Instant::now();
    let (reduced, timings) = scheduler.count_parts(done, submission.accepted)?;
    let answering = Answering { work, asked, started, deadline, reply };
    // Whoever has the outputs takes their bytes before these are given back.
    let (outputs, _reply) = finish(pipeline, task, answering, reduced).await?;
    metrics.pipeline_step(task.medium(), PipelineStep::Finish, ended.elapsed());
    if let Some(trace) = trace {
        trace.finished(ended);
    }
    let none = || Timings::starting_at(submission.accepted);
    let timings = timings.unwrap_or_else(none);
    let rows = ended.saturating_duration_since(timings.started);
    Ok(Done {
        outputs,
        parameters: Vec::new(),
        timings: Timings { queue: Duration::ZERO, prepare, rows, ..timings },
        again: false,
    })
}

/// What is asked for, the rows of all inputs, and how many bytes are kept for the reply, as far as that is known.
async fn ready(
    scheduler: &Scheduler,
    pipeline: &Arc<ServedPipeline>,
    task: Task,
    work: &Work,
    parameters: &[(Arc<str>, Parameter)],
    bytes: Option<&Arc<Budget>>,
    deadline: Option<Instant>,
) -> Result<(Asked, Ready, usize), Error> {
    let asked = parameters::read(task, parameters)?;
    let asked_for = &asked;
    let preparing =
        Preparing { pipeline, task, work, asked: asked_for, scheduler, deadline, bytes };
    let ready = prepare(preparing).await?;
    let mut of_reply = 0;
    if task.facts().gives_vectors_of_parts {
        let numbers = check_features(pipeline, &asked, &ready.prepared)?;
        let is_text = work.outputs.iter().any(|it| &**it == RESULT);
        let text = if is_text { BYTES_OF_NUMBER } else { 0 };
        of_reply = numbers.saturating_mul(size_of::<f32>() + text);
    }
    Ok((asked, ready, of_reply))
}

/// Under which reason a refusal is counted; `None` where the inputs are not at fault.
fn refusal(error: &Error) -> Option<InputRefusal> {
    Some(match error {
        Error::Overloaded { .. } | Error::DeadlineExceeded { .. } | Error::OutOfBudget(_) => {
            return None;
        }
        Error::InvalidParameter { name, .. } if name == TEXT => InputRefusal::TooLong,
        Error::InvalidParameter { .. } => InputRefusal::Parameter,
        Error::Tokenizer(_) => InputRefusal::Tokenizer,
        _ => InputRefusal::Input,
    })
}

/// One input whose rows run.
struct Started {
    context: Context,
    /// Rows of the graph.
    rows: usize,
    counts: Counts,
}

/// What an answer is made of beside what came of its rows.
struct Answering {
    work: Work,
    asked: Asked,
    started: Vec<Started>,
    deadline: Option<Instant>,
    /// Has taken what is kept of the rows.
    reply: Room,
}

/// The wanted outputs, of what is left of the rows of each input, and the room that they have.
async fn finish(
    pipeline: &Arc<ServedPipeline>,
    task: Task,
    answering: Answering,
    reduced: Vec<Reduced>,
) -> Result<(Vec<NamedTensor>, Room), Error> {
    let is_short = task.facts().is_short && reduced.len() <= FEW;
    let Answering { work, asked, started, deadline, mut reply } = answering;
    let around = pipeline.clone();
    let finish = move |wanted: &CancelToken| {
        let texts = match task.facts().repeats_text {
            true => inputs::texts(&work.inputs, TEXT)?,
            false => Vec::new(),
        };
        let is_text = task.medium() == Medium::Text;
        let is_best_only = is_text && asked.parameters.top_k.is_best_only();
        let mut outputs = Outputs::new(&work.outputs)?;
        let mut reduced = reduced.into_iter();
        for (at, input) in started.into_iter().enumerate() {
            wanted.check()?;
            let rows = reduced.by_ref().take(input.rows).collect();
            let is_wanted = || wanted.check().is_ok();
            let answer = around.steps.finish_while(input.context, rows, &is_wanted);
            let answer = answer.map_err(|it| match wanted.check() {
                Err(stopped) if it == RowError::Stopped => stopped,
                _ => error(it),
            })?;
            let text = texts.get(at).copied().unwrap_or_default();
            for part in answer.apart() {
                let before = outputs.bytes();
                outputs.push(&part, &ResultForm { text, is_best_only }, input.counts)?;
                reply.take_and_keep(outputs.bytes() - before)?;
            }
        }
        // They are copied to become tensors.
        reply.take(outputs.bytes())?;
        Ok((outputs.finish()?, reply))
    };
    pipeline.work(Effort::short_if(is_short), deadline, finish).await
}

/// Numbers of the reply, where they are no more than are given. The vectors of all tokens, or of all patches of an
/// image, are thousands of times as long as a text.
fn check_features(
    pipeline: &ServedPipeline,
    asked: &Asked,
    prepared: &[Prepared],
) -> Result<usize, Error> {
    let tokens: usize = prepared.iter().map(Prepared::tokens).sum();
    // What the graph gives counts, whatever the folder says.
    let of_graph = |tokens: usize| {
        let port = |it: &GraphOutput| pipeline.graph.output(&it.name);
        let with_tokens = pipeline.steps.outputs().iter().filter(|it| it.has_tokens);
        let numbers = |it: &Port| bytes_of_output(it, tokens) / it.dtype.size().unwrap_or(1);
        with_tokens.filter_map(port).map(numbers).max().unwrap_or(0)
    };
    let of_folder = tokens.saturating_mul(pipeline.steps.dimensions().unwrap_or(1));
    let of_tokens = of_folder.max(of_graph(tokens));
    let of_patches = match asked.parameters.pool {
        true => 0,
        false => prepared.len().saturating_mul(pipeline.steps.patch_numbers()),
    };
    let numbers = of_tokens.max(of_patches);
    // One input is answered in any case.
    if numbers <= MOST_FEATURES || prepared.len() == 1 && of_tokens <= MOST_FEATURES {
        return Ok(numbers);
    }
    let of = match of_patches {
        0 => format!("{tokens} tokens"),
        _ => format!("{} images", prepared.len()),
    };
    Err(Error::InvalidRequest(format!(
        "the vectors of these {of} are {numbers} numbers, at most {MOST_FEATURES} are given in one reply; send fewer \
         inputs at once"
    )))
}
