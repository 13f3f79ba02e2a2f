//! A model's configuration in the terms of the scheduler.

use std::{num::NonZeroUsize, time::Duration};

use crate::{
    config::{check::settings::asked_priority, run_limit},
    load::load_settings::LoadSettings,
};
use schedule::{
    NICENESS, QueueSettings, RunLimit, TimeFollows,
    policy::BatchPolicy,
    queue::{self},
    row_check::RowCheck,
};
use serving::config::{
    model::{DynamicBatching, ModelConfig, Priority, QueuePolicy, Scheduling, TimeoutAction},
    raw,
};

/// How this model's requests are scheduled.
pub(crate) fn scheduler_settings(config: &ModelConfig, server: &LoadSettings) -> QueueSettings {
    let plain = QueueSettings {
        model: config.name.as_str().into(),
        batching: BatchPolicy::one_by_one(),
        queue_policies: vec![queue::QueuePolicy {
            max_size: server.defaults.max_queue_size.map(NonZeroUsize::get),
            default_timeout: server.defaults.queue_timeout,
            ..queue::QueuePolicy::default()
        }],
        default_level: 0,
        preserve_ordering: false,
        hold: server.scheduling.hold,
        longest_stay: server.scheduling.longest_stay,
        caller_runs_below: server.scheduling.caller_runs_below,
        time_follows: TimeFollows::Shapes,
        spin: server.scheduling.spin,
        row_check: RowCheck::Off,
        packing: None,
        keep_costs: None,
        run_limit: run_limit(config, server),
        watchdog: server.watchdog.clone(),
        busy: server.busy.clone(),
        niceness: niceness(config.priority),
    };
    match &config.scheduling {
        // Sequences have a scheduler of their own.
        Scheduling::Plain | Scheduling::Sequences(_) => plain,
        Scheduling::Dynamic(dynamic) => {
            merged(plain, dynamic, config.max_batch_size, server.defaults.queue_timeout)
        }
    }
}

/// How long a run of this model may take.
pub(crate) fn run_limit(config: &ModelConfig, server: &LoadSettings) -> RunLimit {
    // A wrong value has been refused.
    run_limit::of(&config.parameters).ok().flatten().unwrap_or(server.scheduling.run_limit)
}

/// By how much the threads of a model are nicer than the process.
pub(crate) fn niceness(priority: Priority) -> i32 {
    match priority {
        Priority::Max => 0,
        Priority::Default => NICENESS,
        Priority::Min => 2 * NICENESS,
    }
}

/// The same of a configuration that has not been checked.
pub(crate) fn asked_niceness(raw: Option<&raw::ModelConfig>) -> i32 {
    niceness(raw.and_then(|it| asked_priority(it).ok()).unwrap_or(Priority::Default))
}

fn merged(
    plain: QueueSettings,
    dynamic: &DynamicBatching,
    max_batch_size: usize,
    queue_timeout: Option<Duration>,
) -> QueueSettings {
    let queue_policy = |it: &QueuePolicy| queue_policy(it, queue_timeout);
    let mut preferred_rows = dynamic.preferred_batch_sizes.clone();
    preferred_rows.sort_unstable();
    if preferred_rows.is_empty() {
        preferred_rows.push(max_batch_size);
    }
    let level = |number: u64| {
        let own = dynamic.priority_queue_policies.get(&number);
        queue_policy(own.unwrap_or(&dynamic.default_queue_policy))
    };
    // Without priorities there is one level, under the default policy.
    let queue_policies = match dynamic.priority_levels {
        0 => vec![queue_policy(&dynamic.default_queue_policy)],
        levels => (1..=levels).map(level).collect(),
    };
    let default_level = usize::try_from(dynamic.default_priority_level).unwrap_or(0);
    QueueSettings {
        batching: BatchPolicy {
            max_rows: max_batch_size,
            preferred_rows,
            max_delay: dynamic.max_queue_delay,
        },
        queue_policies,
        default_level: default_level.saturating_sub(1),
        preserve_ordering: dynamic.preserve_ordering,
        ..plain
    }
}

/// `longest` is the wait that is too long where the model does not say. It does where it puts late requests off.
fn queue_policy(policy: &QueuePolicy, longest: Option<Duration>) -> queue::QueuePolicy {
    let longest = longest.filter(|_| policy.timeout_action == TimeoutAction::Reject);
    queue::QueuePolicy {
        max_size: Some(policy.max_queue_size).filter(|it| *it > 0),
        default_timeout: Some(policy.default_timeout).filter(|it| !it.is_zero()).or(longest),
        allow_timeout_override: policy.allow_timeout_override,
        timeout_action: match policy.timeout_action {
            TimeoutAction::Reject => queue::TimeoutAction::Reject,
            TimeoutAction::Delay => queue::TimeoutAction::Delay,
        },
    }
}
