//! How requests wait and are merged: `dynamic_batching` and its queue policies.

use std::time::Duration;

use crate::config::check::report::Report;
use serving::config::{
    model::{DynamicBatching, QueuePolicy, Scheduling, TimeoutAction},
    raw::{
        ModelConfig as RawConfig, ModelDynamicBatching, ModelQueuePolicy,
        model_config::SchedulingChoice, model_queue_policy::TimeoutAction as RawAction,
    },
};

/// Each level is a queue of its own, and every batch looks at all of them.
const MOST_LEVELS: u64 = 1000;

pub(super) fn scheduling(
    raw: &RawConfig,
    max_batch_size: usize,
    report: &mut Report,
) -> Scheduling {
    match &raw.scheduling_choice {
        Some(SchedulingChoice::DynamicBatching(it)) => {
            Scheduling::Dynamic(dynamic_batching(it, max_batch_size, report))
        }
        // Sequences are read, and the others refused, elsewhere.
        _ => Scheduling::Plain,
    }
}

fn dynamic_batching(
    raw: &ModelDynamicBatching,
    max_batch_size: usize,
    report: &mut Report,
) -> DynamicBatching {
    let mut preferred_batch_sizes = Vec::with_capacity(raw.preferred_batch_size.len());
    for (i, &size) in raw.preferred_batch_size.iter().enumerate() {
        match usize::try_from(size) {
            Ok(size) if (1..=max_batch_size).contains(&size) => preferred_batch_sizes.push(size),
            _ => report.problem(format!(
                "dynamic_batching.preferred_batch_size[{i}] is {size}; expected 1 to \
                 max_batch_size, which is {max_batch_size}"
            )),
        }
    }
    preferred_batch_sizes.sort_unstable();
    preferred_batch_sizes.dedup();

    let policy = match &raw.default_queue_policy {
        Some(it) => queue_policy("default_queue_policy", it, report),
        None => queue_policy("default_queue_policy", &ModelQueuePolicy::default(), report),
    };
    let policies = raw.priority_queue_policy.iter().map(|(&level, it)| {
        (level, queue_policy(&format!("priority_queue_policy {level}"), it, report))
    });
    let batching = DynamicBatching {
        preferred_batch_sizes,
        max_queue_delay: Duration::from_micros(raw.max_queue_delay_microseconds),
        preserve_ordering: raw.preserve_ordering,
        priority_levels: raw.priority_levels,
        default_priority_level: raw.default_priority_level,
        default_queue_policy: policy,
        priority_queue_policies: policies.collect(),
    };
    check_priorities(&batching, report);
    check_ordering(&batching, report);
    batching
}

fn check_priorities(batching: &DynamicBatching, report: &mut Report) {
    let (levels, default) = (batching.priority_levels, batching.default_priority_level);
    if levels == 0 {
        let ignored = [
            ("default_priority_level", default != 0),
            ("priority_queue_policy", !batching.priority_queue_policies.is_empty()),
        ];
        for (field, _) in ignored.iter().filter(|(_, given)| *given) {
            report.warn(format!("dynamic_batching.{field} is ignored: priority_levels is 0"));
        }
        return;
    }
    if levels > MOST_LEVELS {
        report.problem(format!(
            "dynamic_batching.priority_levels is {levels}; expected at most {MOST_LEVELS}"
        ));
    }
    if !(1..=levels).contains(&default) {
        report.problem(format!(
            "dynamic_batching.default_priority_level is {default}; expected 1 to priority_levels, \
             which is {levels}"
        ));
    }
    for level in batching.priority_queue_policies.keys().filter(|it| !(1..=levels).contains(it)) {
        report.problem(format!(
            "dynamic_batching.priority_queue_policy has the key {level}; expected 1 to \
             priority_levels, which is {levels}"
        ));
    }
}

fn check_ordering(batching: &DynamicBatching, report: &mut Report) {
    if !batching.preserve_ordering {
        return;
    }
    if batching.priority_levels > 1 {
        report.problem(format!(
            "dynamic_batching.preserve_ordering excludes priorities: priority_levels is {}, \
             expected 0 or 1",
            batching.priority_levels
        ));
    }
    let policies = batching.priority_queue_policies.values();
    let delays = |it: &QueuePolicy| {
        it.timeout_action == TimeoutAction::Delay && !it.default_timeout.is_zero()
    };
    if policies.chain([&batching.default_queue_policy]).any(delays) {
        report.problem(
            "dynamic_batching.preserve_ordering excludes a queue policy with timeout_action DELAY \
             and a timeout; expected REJECT",
        );
    }
}

fn queue_policy(field: &str, raw: &ModelQueuePolicy, report: &mut Report) -> QueuePolicy {
    let timeout_action = match RawAction::try_from(raw.timeout_action) {
        Ok(RawAction::Reject) => TimeoutAction::Reject,
        Ok(RawAction::Delay) => TimeoutAction::Delay,
        Err(_) => {
            report.problem(format!(
                "dynamic_batching.{field}: timeout_action {} is not known; expected REJECT or DELAY",
                raw.timeout_action
            ));
            TimeoutAction::Reject
        }
    };
    QueuePolicy {
        timeout_action,
        default_timeout: Duration::from_micros(raw.default_timeout_microseconds),
        allow_timeout_override: raw.allow_timeout_override,
        max_queue_size: raw.max_queue_size.try_into().unwrap_or(usize::MAX),
    }
}
