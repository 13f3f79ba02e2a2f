//! What a model gets whose configuration does not say.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use super::{
    sources::{Origin, Sources},
    value,
};

/// How long a request may wait where a hosting platform gives it 60 s in all.
const HOSTED_QUEUE_TIMEOUT: Duration = Duration::from_secs(50);

/// What a model gets whose configuration does not say; `None` for the server's choice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelDefaults {
    /// `--default-instance-count`: copies of a model that run at the same time.
    pub instance_count: Option<NonZeroUsize>,
    /// `--default-intra-op-threads`: threads inside an operator, of one instance.
    pub intra_op_threads: Option<NonZeroUsize>,
    /// `--default-inter-op-threads`: operators at the same time, of one instance.
    pub inter_op_threads: Option<NonZeroUsize>,
    /// `--default-max-batch-size`: rows of a batch, of models that can batch.
    pub max_batch_size: Option<usize>,
    /// `--default-dynamic-batching`: are requests merged where nothing is said about it, though all else is?
    pub dynamic_batching: bool,
    /// `--default-queue-delay-us`: longest wait for company; `None` for none.
    pub queue_delay: Option<Duration>,
    /// `--default-max-queue-size`: requests that may wait; `None` for any number.
    pub max_queue_size: Option<NonZeroUsize>,
    /// `--queue-timeout`: longest wait in a queue; `None` for any.
    pub queue_timeout: Option<Duration>,
    /// `--eager-instances`: is every instance made when the model is loaded?
    pub eager_instances: bool,
    /// `--gpu-memory-margin`: part of a GPU's memory that is left free, from 0 to 1; `None` for no limit.
    pub gpu_memory_margin: Option<f64>,
    /// The settings among these that a foreign variable has set, and its name.
    pub variables: BTreeMap<&'static str, &'static str>,
}

/// What is known of the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) hosted: bool,
    /// A batch transform job: it has a time limit of its own.
    pub(super) batch: bool,
}

/// Reads it.
pub(super) fn resolve(
    sources: &Sources,
    start: Start,
    problems: &mut Vec<String>,
) -> ModelDefaults {
    let mut count = |name| sources.read(name, value::count_or_auto, problems).unwrap_or_default();
    let instance_count = count("default-instance-count");
    let intra_op_threads = count("default-intra-op-threads");
    let inter_op_threads = count("default-inter-op-threads");
    let transforms = sources.read("sagemaker-max-concurrent-transforms", value::count, problems);
    let queue = sources.read("default-max-queue-size", value::number, problems).unwrap_or(0);
    let queue_timeout = sources.read("queue-timeout", value::seconds_or_none, problems);
    let names = ["default-instance-count", "default-intra-op-threads", "default-inter-op-threads"];
    let more = ["default-max-batch-size", "default-queue-delay-us", "default-max-queue-size"];
    let variable = |name: &'static str| match sources.last(name)?.origin {
        Origin::Foreign(variable, _) => Some((name, variable)),
        Origin::CommandLine | Origin::Own(_) | Origin::Other(_) | Origin::Triton => None,
    };
    ModelDefaults {
        instance_count,
        intra_op_threads,
        inter_op_threads,
        max_batch_size: sources.read("default-max-batch-size", value::batch_size, problems),
        dynamic_batching: sources
            .read("default-dynamic-batching", value::boolean, problems)
            .unwrap_or(false),
        queue_delay: sources
            .read("default-queue-delay-us", value::microseconds, problems)
            .filter(|it| !it.is_zero()),
        // A job that may send so many requests at the same time must not be refused some of them.
        max_queue_size: NonZeroUsize::new(queue)
            .map(|it| transforms.map_or(it, |transforms| it.max(transforms))),
        queue_timeout: match queue_timeout {
            Some(given) => given,
            None => Some(HOSTED_QUEUE_TIMEOUT).filter(|_| start.hosted && !start.batch),
        },
        eager_instances: sources.read("eager-instances", value::boolean, problems).unwrap_or(false),
        gpu_memory_margin: sources.read("gpu-memory-margin", value::margin, problems),
        variables: names.into_iter().chain(more).filter_map(variable).collect(),
    }
}
