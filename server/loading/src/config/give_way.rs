//! What a configuration says of settings that the server's own go before. Pure.

use crate::{config::engines::Engines, settings::model_defaults::ModelDefaults};
use serving::config::raw::{ModelConfig as RawConfig, model_config::SchedulingChoice};

/// Takes out of a configuration what `defaults` say, too (`--defaults-over-config`), so that they apply to the model as
/// if it had never been written down. A model without a batch dimension stays without one.
pub(crate) fn give_way(raw: &mut RawConfig, defaults: &ModelDefaults, engines: &Engines) {
    if defaults.instance_count.is_some() {
        raw.instance_group.iter_mut().for_each(|it| it.count = 0);
    }
    let intra = defaults.intra_op_threads.map(|_| engines.intra_op_keys()).unwrap_or_default();
    let inter = defaults.inter_op_threads.map(|_| engines.inter_op_keys()).unwrap_or_default();
    raw.parameters.retain(|key, _| !intra.iter().chain(&inter).any(|it| key == it));
    let rows = defaults.max_batch_size.and_then(|it| i32::try_from(it).ok());
    let rows = rows.filter(|it| 0 < *it && 0 < raw.max_batch_size());
    raw.max_batch_size = rows.or(raw.max_batch_size);
    let Some(SchedulingChoice::DynamicBatching(batching)) = &mut raw.scheduling_choice else {
        return;
    };
    if let Some(rows) = rows {
        batching.preferred_batch_size.retain(|it| *it <= rows);
    }
    if defaults.queue_delay.is_some() {
        batching.max_queue_delay_microseconds = 0;
    }
    if let (Some(_), Some(policy)) = (defaults.max_queue_size, &mut batching.default_queue_policy) {
        policy.max_queue_size = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroUsize, time::Duration};

    use super::*;
    use crate::config::{engines::usual, pbtxt::ConfigReader};

    const WRITTEN: &str = "max_batch_size: 64 instance_group { count: 3 kind: KIND_CPU } \
        parameters { key: \"intra_op_thread_count\" value { string_value: \"7\" } } \
        parameters { key: \"team\" value { string_value: \"search\" } } \
        dynamic_batching { preferred_batch_size: [ 4, 32 ] max_queue_delay_microseconds: 900 \
        default_queue_policy { max_queue_size: 5 } }";

    fn after(text: &str, defaults: &ModelDefaults) -> RawConfig {
        let mut raw = ConfigReader::default().parse_text("m", text).unwrap();
        give_way(&mut raw, defaults, &usual());
        raw
    }

    #[test]
    fn what_nobody_sets_stays_as_it_is_written() {
        let written = ConfigReader::default().parse_text("m", WRITTEN).unwrap();
        assert_eq!(after(WRITTEN, &ModelDefaults::default()), written);
    }

    #[test]
    fn what_the_servers_settings_say_is_as_if_it_had_not_been_written() {
        let defaults = ModelDefaults {
            instance_count: NonZeroUsize::new(1),
            intra_op_threads: NonZeroUsize::new(2),
            max_batch_size: Some(8),
            queue_delay: Some(Duration::from_micros(100)),
            max_queue_size: NonZeroUsize::new(9),
            ..ModelDefaults::default()
        };
        let expected = "max_batch_size: 8 instance_group { kind: KIND_CPU } \
            parameters { key: \"team\" value { string_value: \"search\" } } \
            dynamic_batching { preferred_batch_size: [ 4 ] default_queue_policy { } }";
        let expected = ConfigReader::default().parse_text("m", expected).unwrap();
        assert_eq!(after(WRITTEN, &defaults), expected);
        // Dimensions name all of it.
        assert_eq!(after("max_batch_size: 0", &defaults).max_batch_size, Some(0));
        assert_eq!(after("", &defaults).max_batch_size, None);
    }
}
