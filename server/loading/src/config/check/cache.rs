//! Whether a model's answers may be kept: `response_cache`.

use crate::config::check::report::Report;
use serving::config::raw::{ModelConfig as RawConfig, model_config::SchedulingChoice};

/// Is it asked for? Noted where an answer depends on more than its request.
pub(super) fn response_cache(raw: &RawConfig, report: &mut Report) -> bool {
    if !raw.response_cache.is_some_and(|it| it.enable) {
        return false;
    }
    let excluded = [
        (
            "sequence_batching",
            matches!(raw.scheduling_choice, Some(SchedulingChoice::SequenceBatching(_))),
            "an answer depends on the requests before it",
        ),
        (
            "model_transaction_policy { decoupled: true }",
            raw.model_transaction_policy.is_some_and(|it| it.decoupled),
            "a request has any number of answers",
        ),
    ];
    for (field, _, why) in excluded.iter().filter(|(_, given, _)| *given) {
        report.problem(format!("response_cache {{ enable: true }} excludes {field}: {why}"));
    }
    true
}
