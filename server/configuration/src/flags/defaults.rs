//! What a model gets whose configuration does not say: settings.

use super::{Setting, value};

const SECTION: &str = "Defaults of models";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "default-instance-count", "auto", "Instances of a model that does not say (instance_group.count); on GPUs, on each"),
    value(SECTION, "default-intra-op-threads", "auto", "Threads inside an operator, per instance, where the model does not say"),
    value(SECTION, "default-inter-op-threads", "auto", "Operators at the same time, per instance, where the model does not say"),
    value(SECTION, "default-max-batch-size", "", "max_batch_size of a model that can batch and does not say. Default: 4, or that of --backend-config, which goes before this"),
    value(SECTION, "default-dynamic-batching", "false", "Requests are merged also to a model that has max_batch_size, inputs and outputs written down, and nothing about batching"),
    value(SECTION, "default-queue-delay-us", "0", "Microseconds that a request may wait for company, where the model merges requests and does not say (max_queue_delay_microseconds)"),
    value(SECTION, "default-max-queue-size", "0", "Requests that may wait for a model that does not say (default_queue_policy.max_queue_size); 0 for any number"),
];
