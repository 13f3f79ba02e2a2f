//! What a model gets whose configuration does not say.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use configuration::{
    Flag, Origin, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("default-instance-count", "auto", "Instances of a model that does not say (instance_group.count); on GPUs, on each").named("COUNT"),
    Flag::value("default-intra-op-threads", "auto", "Threads inside an operator, per instance, where the model does not say").named("COUNT"),
    Flag::value("default-inter-op-threads", "auto", "Operators at the same time, per instance, where the model does not say").named("COUNT"),
    Flag::value("default-max-batch-size", "", "max_batch_size of a model that can batch and does not say. --backend-config goes before this flag. Default: 4").named("COUNT"),
    Flag::boolean("defaults-over-config", "false", "What --default-instance-count, --default-intra-op-threads, --default-inter-op-threads, --default-max-batch-size, --default-queue-delay-us and --default-max-queue-size say goes before what files of configurations say of the same"),
    Flag::boolean("default-dynamic-batching", "false", "Requests are merged also to a model that has max_batch_size, inputs and outputs written down, and nothing about batching"),
    Flag::boolean("strict-max-batch-size", "false", "A request of more rows than the max_batch_size that a model's configuration says is refused, as Triton does, instead of run in parts"),
    Flag::value("default-queue-delay-us", "0", "Microseconds that a request may wait for company, where the model merges requests and does not say (max_queue_delay_microseconds)").named("MICROSECONDS"),
    Flag::value("default-max-queue-size", "0", "Requests that may wait for a model that does not say (default_queue_policy.max_queue_size); 0 for any number").named("COUNT"),
    Flag::value("sagemaker-max-concurrent-transforms", "", "Requests that a batch transform job sends at the same time: no default of a queue is shorter").named("COUNT"),
    Flag::value("queue-timeout", "", "Longest wait in a queue in seconds, then the answer is 503; 0 or none for any. Where the model does not say (default_timeout_microseconds). Default: 50 where a hosting platform starts `serve`, but none in batch transform jobs and elsewhere").named("SECONDS"),
    Flag::boolean("eager-instances", "false", "Make every instance when its model is loaded, so that it is not ready before; otherwise further ones are made when they are needed"),
    Flag::value("gpu-memory-margin", "", "Part of each GPU's memory that ONNX models leave free, from 0 to 1: the instances of a model there share the rest in equal parts. Default: no limit").named("FRACTION"),
];

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
    /// `--defaults-over-config`: do the numbers among these go before what configurations say?
    pub over_config: bool,
    /// `--default-dynamic-batching`: are requests merged where nothing is said about it, though all else is?
    pub dynamic_batching: bool,
    /// `--strict-max-batch-size`: does a `max_batch_size` that is written down bound requests, too?
    pub strict_max_batch_size: bool,
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
pub struct Start {
    /// A hosting platform started the process.
    pub hosted: bool,
    /// A batch transform job: it has a time limit of its own.
    pub batch: bool,
}

/// Reads it.
pub fn resolve(sources: &Sources, start: Start, problems: &mut Vec<String>) -> ModelDefaults {
    let mut count = |name| sources.read(name, value::threads_or_auto, problems).unwrap_or_default();
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
        max_batch_size: sources.read("default-max-batch-size", batch_size, problems),
        over_config: sources
            .read("defaults-over-config", value::boolean, problems)
            .unwrap_or(false),
        dynamic_batching: sources
            .read("default-dynamic-batching", value::boolean, problems)
            .unwrap_or(false),
        strict_max_batch_size: sources
            .read("strict-max-batch-size", value::boolean, problems)
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
        gpu_memory_margin: sources.read("gpu-memory-margin", margin, problems),
        variables: names.into_iter().chain(more).filter_map(variable).collect(),
    }
}

/// A part of a whole that is not the whole.
fn margin(text: &str) -> Parse<f64> {
    let part = text.parse().ok().filter(|it| (0.0..1.0).contains(it));
    part.ok_or_else(|| "a number from 0 to below 1, as 0.2".to_owned())
}

/// What fits into `max_batch_size`.
fn batch_size(text: &str) -> Parse<usize> {
    let size = text.parse().ok().filter(|&it| i32::try_from(it).is_ok());
    size.ok_or_else(|| format!("a whole number from 0 to {}", i32::MAX))
}
