//! Which variables of other containers a model does not heed, as its configuration says something else. Pure.

use crate::{
    config::{choose::EngineChoice, engines::Engines},
    settings::model_defaults::ModelDefaults,
};
use serving::config::{
    raw::{ModelConfig as RawConfig, ModelDynamicBatching, model_config::SchedulingChoice},
    server_ports,
};

/// The variables, each with the reason. `raw` is the configuration as it was written, `completed` as it is used.
pub(crate) fn unapplied(
    raw: Option<&RawConfig>,
    completed: &RawConfig,
    choice: &EngineChoice,
    engines: &Engines,
    defaults: &ModelDefaults,
) -> Vec<String> {
    if defaults.variables.is_empty() {
        return Vec::new();
    }
    let has_option = |keys: &[&'static str]| {
        keys.iter().find(|key| choice.options.contains_key(**key)).map(|it| (*it).to_owned())
    };
    let batching = raw.and_then(dynamic_batching);
    let own_delay = batching.map_or(0, |it| it.max_queue_delay_microseconds);
    let own_queue = batching.and_then(|it| it.default_queue_policy.as_ref());
    let own_queue = own_queue.map_or(0, |it| it.max_queue_size);
    let is_one_by_one = dynamic_batching(completed).is_none();
    let reason = |setting: &str| match setting {
        "default-instance-count" => {
            let mut groups = raw.into_iter().flat_map(|it| &it.instance_group);
            groups.any(|it| 0 < it.count).then(|| "instance_group.count".to_owned())
        }
        "default-intra-op-threads" => has_option(&engines.intra_op_keys()),
        "default-inter-op-threads" => {
            has_option(engines.description(&choice.backend).inter_op_threads.as_slice())
        }
        "default-max-batch-size" => {
            let given = defaults.max_batch_size.and_then(|it| i32::try_from(it).ok());
            match raw.map_or(0, RawConfig::max_batch_size) {
                _ if given == Some(completed.max_batch_size()) => None,
                0 => Some("it is written down as one that does not batch, or cannot".to_owned()),
                own => Some(format!("max_batch_size {own}")),
            }
        }
        "default-queue-delay-us" if server_ports::sequence_batching(completed).is_some() => {
            Some("sequence_batching".to_owned())
        }
        "default-queue-delay-us" if is_one_by_one => Some("its requests are not merged".to_owned()),
        "default-queue-delay-us" => {
            (0 < own_delay).then(|| format!("max_queue_delay_microseconds {own_delay}"))
        }
        "default-max-queue-size" => (0 < own_queue).then(|| format!("max_queue_size {own_queue}")),
        _ => None,
    };
    let shown =
        |(setting, variable): (&&str, &&str)| Some(format!("{variable} ({})", reason(setting)?));
    defaults.variables.iter().filter_map(shown).collect()
}

fn dynamic_batching(raw: &RawConfig) -> Option<&ModelDynamicBatching> {
    match &raw.scheduling_choice {
        Some(SchedulingChoice::DynamicBatching(batching)) => Some(batching),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, num::NonZeroUsize};

    use super::*;
    use crate::config::{engines::usual, pbtxt::ConfigReader};

    fn defaults() -> ModelDefaults {
        let settings = [
            "default-instance-count",
            "default-intra-op-threads",
            "default-max-batch-size",
            "default-queue-delay-us",
            "default-max-queue-size",
        ];
        ModelDefaults {
            instance_count: NonZeroUsize::new(2),
            max_batch_size: Some(16),
            variables: settings.map(|it| (it, it)).into(),
            ..ModelDefaults::default()
        }
    }

    fn shown(text: &str, options: &[(&str, &str)]) -> Vec<String> {
        let raw = ConfigReader::default().parse_text("m", text).unwrap();
        let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let choice = EngineChoice {
            platform: String::new(),
            backend: "onnxruntime".to_owned(),
            default_model_filename: None,
            options: BTreeMap::from_iter(options),
        };
        unapplied(Some(&raw), &raw, &choice, &usual(), &defaults())
    }

    #[test]
    fn what_a_configuration_says_is_named_beside_the_variable_that_it_beats() {
        let config = "max_batch_size: 8 instance_group { count: 1 }
            dynamic_batching { max_queue_delay_microseconds: 5 default_queue_policy { max_queue_size: 7 } }";
        let expected = [
            "default-instance-count (instance_group.count)",
            "default-intra-op-threads (intra_op_thread_count)",
            "default-max-batch-size (max_batch_size 8)",
            "default-max-queue-size (max_queue_size 7)",
            "default-queue-delay-us (max_queue_delay_microseconds 5)",
        ];
        assert_eq!(shown(config, &[("intra_op_thread_count", "3")]), expected);
        // As many rows, whoever says so.
        assert!(shown("max_batch_size: 16", &[]).iter().all(|it| !it.contains("max-batch-size")));
    }

    #[test]
    fn what_it_does_not_say_is_applied_without_a_word() {
        let raw = ConfigReader::default().parse_text("m", "dynamic_batching { }").unwrap();
        let completed = RawConfig { max_batch_size: Some(16), ..raw };
        let choice = EngineChoice {
            platform: String::new(),
            backend: "onnxruntime".to_owned(),
            default_model_filename: None,
            options: BTreeMap::new(),
        };
        assert_eq!(
            unapplied(None, &completed, &choice, &usual(), &defaults()),
            Vec::<String>::new()
        );
    }
}
