//! Who decides about batches: the configuration by Triton's rules, or the server. Pure.

use super::{
    check::Report,
    config::{Decider, Mode},
    raw::{ModelConfig as RawConfig, ModelDynamicBatching, model_config::SchedulingChoice},
};

/// Decides from what the user wrote; `None` is no configuration at all. `everywhere` is the server's own
/// setting, which wins.
///
/// A field that is given with its default value cannot be told from one that is not given.
pub(super) fn mode(
    given: Option<&RawConfig>,
    everywhere: Option<Decider>,
    report: &mut Report,
) -> Mode {
    if let Some(decider) = everywhere {
        return Mode { decider, reason: "the server's setting for all models" };
    }
    let Some(given) = given else {
        return Mode { decider: Decider::Auto, reason: "the model has no configuration" };
    };
    let parameter = given.parameters.get("scheduling").map(|it| it.string_value.as_str());
    match parameter {
        Some("auto") => return Mode { decider: Decider::Auto, reason: "parameter scheduling" },
        Some("triton") => {
            return Mode { decider: Decider::Explicit, reason: "parameter scheduling" };
        }
        Some(other) => {
            report.problem(format!("parameter scheduling is '{other}'; expected auto or triton"));
        }
        None => {}
    }
    let (decider, reason) = match &given.scheduling_choice {
        Some(SchedulingChoice::DynamicBatching(it)) if *it == ModelDynamicBatching::default() => {
            (Decider::Auto, "dynamic_batching is given without any field")
        }
        Some(SchedulingChoice::DynamicBatching(_)) => {
            (Decider::Explicit, "dynamic_batching is given with fields")
        }
        _ if given.max_batch_size > 0 => {
            (Decider::Explicit, "max_batch_size is given without dynamic_batching")
        }
        _ => (Decider::Auto, "neither max_batch_size nor dynamic_batching is given"),
    };
    Mode { decider, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::pbtxt::ConfigReader;

    #[track_caller]
    fn check(text: &str, expected: Decider) {
        let raw = ConfigReader::default().from_text("", text).unwrap();
        let mut report = Report::default();
        assert_eq!(mode(Some(&raw), None, &mut report).decider, expected);
        assert!(report.problems.is_empty());
    }

    #[test]
    fn what_is_not_said_is_left_to_the_server() {
        assert_eq!(mode(None, None, &mut Report::default()).decider, Decider::Auto);
        check("", Decider::Auto);
        check("instance_group { count: 2 }", Decider::Auto);
        check("max_batch_size: 8 dynamic_batching { }", Decider::Auto);
    }

    #[test]
    fn what_is_said_is_done() {
        check("max_batch_size: 8", Decider::Explicit);
        check("dynamic_batching { max_queue_delay_microseconds: 1 }", Decider::Explicit);
    }

    #[test]
    fn the_parameter_wins_over_fields_and_the_server_over_both() {
        let auto = "parameters { key: 'scheduling' value { string_value: 'auto' } }";
        check(&format!("max_batch_size: 8 {auto}"), Decider::Auto);
        check(
            "parameters { key: 'scheduling' value { string_value: 'triton' } }",
            Decider::Explicit,
        );
        let raw = ConfigReader::default().from_text("", auto).unwrap();
        let everywhere = Some(Decider::Explicit);
        let mode = mode(Some(&raw), everywhere, &mut Report::default());
        assert_eq!(mode.decider, Decider::Explicit);
    }
}
