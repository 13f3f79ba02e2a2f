//! An ensemble's configuration, completed and checked in itself. Pure.

use crate::config::{
    check::{
        check,
        ensemble::ensemble,
        report::{Report, name_of_folder},
    },
    complete::Completed,
    engines::Engines,
    open_ranks::OpenRanks,
};
use serving::config::{
    ensemble::EnsembleConfig,
    model::ConfigErrors,
    raw::{
        ModelConfig as RawConfig, ModelVersionPolicy,
        model_version_policy::{Latest, PolicyChoice},
    },
};

/// Completes and checks the configuration of `model`, the name of its folder.
///
/// # Errors
/// Everything that is wrong with it in itself, at once.
pub(crate) fn complete(
    raw: &RawConfig,
    model: &str,
    engines: &Engines,
) -> Result<(Completed, EnsembleConfig), ConfigErrors> {
    let mut report = Report::default();
    let mut raw = raw.clone();
    name_of_folder(&mut raw, model, &mut report);
    raw.max_batch_size.get_or_insert(0);
    let latest = Latest { num_versions: 1 };
    raw.version_policy
        .get_or_insert(ModelVersionPolicy { policy_choice: Some(PolicyChoice::Latest(latest)) });
    // Triton finds out whether an ensemble's answers are decoupled, and shows it of every one.
    raw.model_transaction_policy.get_or_insert_default();
    let config = check(&raw, engines, &OpenRanks::default(), &mut report);
    let steps = ensemble(&raw, &config.inputs, &config.outputs, &mut report);
    let ((raw, config, steps), warnings) = report.into_result(model, (raw, config, steps))?;
    Ok((Completed { raw, config, warnings }, steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::pbtxt::ConfigReader;

    const OUTER: &str = "platform: 'ensemble'
        input { name: 'x' data_type: TYPE_FP32 dims: 4 }
        output { name: 'y' data_type: TYPE_FP32 dims: 4 } ";

    fn step(model: &str, input: &str, output: &str) -> String {
        format!(
            "step {{ model_name: '{model}' model_version: -1 input_map {{ key: 'a' value: '{input}' }}
             output_map {{ key: 'b' value: '{output}' }} }} "
        )
    }

    fn problems(outer: &str, steps: &[String]) -> Vec<String> {
        let text = format!("{outer} ensemble_scheduling {{ {} }}", steps.concat());
        let raw = ConfigReader::default().parse_text("config.pbtxt", &text).unwrap();
        complete(&raw, "e", &Engines::default()).err().map(|it| it.problems).unwrap_or_default()
    }

    #[track_caller]
    fn refused(outer: &str, steps: &[String], expected: &[&str]) {
        assert_eq!(problems(outer, steps), expected);
    }

    #[test]
    fn what_triton_fills_in_is_filled_in() {
        let text = format!("{OUTER} ensemble_scheduling {{ {} }}", step("m", "x", "y"));
        let raw = ConfigReader::default().parse_text("config.pbtxt", &text).unwrap();
        let shown = complete(&raw, "e", &Engines::default()).unwrap().0.raw;
        assert_eq!((&*shown.name, shown.max_batch_size), ("e", Some(0)));
        assert!(shown.version_policy.is_some());
        assert_eq!(shown.model_transaction_policy.map(|it| it.decoupled), Some(false));
    }

    #[test]
    fn a_chain_is_fine() {
        refused(OUTER, &[step("m", "x", "t"), step("n", "t", "y")], &[]);
    }

    #[test]
    fn an_ensemble_has_steps_and_nothing_that_its_members_have() {
        refused(OUTER, &[], &["ensemble_scheduling has no step; expected at least one"]);
        let outer = format!(
            "{OUTER} backend: 'onnxruntime' instance_group {{ }} optimization {{ }} model_warmup {{ name: 'w' }}
             parameters {{ key: 'execution_timeout_seconds' value {{ string_value: '5' }} }}
             parameters {{ key: 'RERUN' value {{ string_value: 'never' }} }}"
        );
        let found = problems(&outer, &[step("m", "x", "y")]);
        for part in [
            "platform 'ensemble' goes with no backend, given 'onnxruntime'; leave it out",
            "an ensemble takes no instance_group: its members have instances",
            "an ensemble takes no optimization: its members are optimized",
            "an ensemble takes no model_warmup: its members are warmed up",
            "an ensemble takes no parameter EXECUTION_TIMEOUT_SECONDS: the runs of its members have limits",
            "an ensemble takes no parameter RERUN: its members say whether their runs may be made again",
        ] {
            assert!(found.iter().any(|it| it == part), "{part}: {found:#?}");
        }
        refused(
            OUTER,
            &["step { model_version: -2 }".to_owned()],
            &[
                "ensemble_scheduling.step[0]: model_name is missing",
                "ensemble_scheduling.step[0]: input_map is missing",
                "ensemble_scheduling.step[0]: output_map is missing",
                "ensemble_scheduling.step[0]: model_version is -2; expected a version, or -1 for the latest",
            ],
        );
        refused(
            OUTER,
            &[step("e", "x", "y")],
            &["ensemble_scheduling.step[0]: model_name 'e' is the ensemble itself"],
        );
    }

    #[test]
    fn a_circle_is_shown() {
        let steps = [step("m", "x", "y"), step("n", "u", "v"), step("o", "v", "u")];
        refused(
            OUTER,
            &steps,
            &[
                "the steps wait for each other: step[1] ('n') -> 'v' -> step[2] ('o') -> 'u' -> step[1] ('n')",
            ],
        );
    }

    #[test]
    fn every_tensor_is_written_once_and_used() {
        refused(
            OUTER,
            &[step("m", "x", "y"), step("n", "x", "y")],
            &[
                "tensor 'y' is written more than once: by output 'b' of step[0] ('m') and by output 'b' of \
               step[1] ('n')",
            ],
        );
        refused(
            OUTER,
            &[step("m", "x", "tensor"), step("n", "tensr", "y")],
            &[
                "tensor 'tensr', read by step[1] ('n'), is neither an input of the ensemble nor written \
                 by a step; did you mean 'tensor'?",
                "tensor 'tensor', written by output 'b' of step[0] ('m'), is not used; leave it out of \
                 output_map",
            ],
        );
        let outer = format!("{OUTER} input {{ name: 'z' data_type: TYPE_FP32 dims: 1 }}");
        refused(&outer, &[step("m", "x", "y")], &["input 'z' is used by no step"]);
        let outer = format!("{OUTER} output {{ name: 'z' data_type: TYPE_FP32 dims: 1 }}");
        refused(
            &outer,
            &[step("m", "x", "y")],
            &["output 'z' is written by no step: no output_map has it as a value"],
        );
    }
}
