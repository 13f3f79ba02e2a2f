//! A batching parameters file of TensorFlow Serving → defaults for models whose configuration sets none.

use configuration::{Environment, Flag, Given, Notice, Origin, Sources, value};
use textproto::tensorflow::{batching_parameters, raw::BatchingParameters};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("batching-parameters-file", "", "File in the text format of protobufs that says how requests become batches of models whose configuration does not say: max_batch_size { value: 32 } batch_timeout_micros { value: 1000 }").named("FILE"),
];

/// TensorFlow Serving's defaults.
const MAX_BATCH_SIZE: i64 = 1000;
const MAX_ENQUEUED_BATCHES: i64 = 10;

/// The content of such a file, as muster's settings.
#[derive(Debug, Default, PartialEq)]
struct Batching {
    /// Field, setting, text.
    settings: Vec<(&'static str, &'static str, String)>,
    /// Fields without effect, each with the reason.
    ignored: Vec<&'static str>,
}

/// Offers the content of the batching parameters file as defaults of the settings.
pub(super) fn offer(
    sources: &mut Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) {
    let Some(file) = sources.read("batching-parameters-file", value::path, problems) else {
        return;
    };
    let shown = file.display().to_string();
    let read = environment.text_of(&file).map_err(|it| vec![format!("cannot read {shown}: {it}")]);
    let read = read
        .and_then(|it| batching_parameters(&shown, &it).map_err(|it| vec![it.to_string()]))
        .and_then(|it| batching(&it).map_err(|all| in_file(&shown, all)));
    match read {
        Ok(batching) => {
            for ignored in batching.ignored {
                let text = format!("without effect in {shown}: {ignored}");
                sources.notices.push(Notice::info(text));
            }
            offer_all(sources, batching.settings, &format!("of {shown}"));
        }
        Err(all) => {
            problems.extend(all.iter().map(|it| format!("--batching-parameters-file: {it}")));
        }
    }
}

/// Defaults of TensorFlow Serving's command: parameters of batches count only where batching is on, and have defaults
/// of their own there.
pub(super) fn offer_defaults(sources: &mut Sources, problems: &mut Vec<String>) {
    let on = sources.last("default-dynamic-batching").map(|it| value::boolean(&it.text));
    let file = sources.last("batching-parameters-file");
    match (on == Some(Ok(true)), file) {
        (true, None) => {
            let defaults = batching(&BatchingParameters::default()).unwrap_or_default();
            offer_all(sources, defaults.settings, "as with --enable_batching and no file");
        }
        (false, Some(file)) => problems.push(format!("{file}: needs --enable_batching=true")),
        (true, Some(_)) | (false, None) => {}
    }
}

fn offer_all(
    sources: &mut Sources,
    settings: Vec<(&'static str, &'static str, String)>,
    place: &str,
) {
    let given = settings.into_iter().map(|(field, name, text)| {
        let origin = Origin::Other(format!("{field} '{text}' {place}"));
        Given::new(name, text, origin)
    });
    sources.offer(given.collect());
}

fn in_file(file: &str, problems: Vec<String>) -> Vec<String> {
    problems.into_iter().map(|it| format!("{file}: {it}")).collect()
}

/// # Errors
/// All problems of the file.
fn batching(parameters: &BatchingParameters) -> Result<Batching, Vec<String>> {
    let mut problems = Vec::new();
    let mut number = |field: &str, value: Option<i64>, least: i64| {
        if let Some(value) = value.filter(|it| *it < least) {
            problems.push(format!("{field}: expected a whole number from {least}, got {value}"));
        }
    };
    number("max_batch_size", parameters.max_batch_size, 1);
    number("batch_timeout_micros", parameters.batch_timeout_micros, 0);
    number("max_enqueued_batches", parameters.max_enqueued_batches, 1);
    number("num_batch_threads", parameters.num_batch_threads, 1);
    let rows = parameters.max_batch_size.unwrap_or(MAX_BATCH_SIZE);
    let sizes = &parameters.allowed_batch_sizes;
    if !sizes.is_sorted_by(|a, b| a < b) {
        problems.push(format!("allowed_batch_sizes: expected rising numbers, got {sizes:?}"));
    }
    if let Some(last) = sizes.last().filter(|it| **it != rows) {
        problems.push(format!(
            "allowed_batch_sizes: expected the last one to be max_batch_size, {rows}, got {last}"
        ));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let batches = parameters.max_enqueued_batches.unwrap_or(MAX_ENQUEUED_BATCHES);
    let delay = parameters.batch_timeout_micros.unwrap_or(0);
    let mut settings = vec![
        ("max_batch_size", "default-max-batch-size", rows.to_string()),
        ("batch_timeout_micros", "default-queue-delay-us", delay.to_string()),
        (
            "max_enqueued_batches",
            "default-max-queue-size",
            batches.saturating_mul(rows).to_string(),
        ),
    ];
    if let Some(threads) = parameters.num_batch_threads {
        settings.push(("num_batch_threads", "default-instance-count", threads.to_string()));
    }
    let ignored = [
        (!sizes.is_empty(), "allowed_batch_sizes, as nothing is padded"),
        (
            parameters.pad_variable_length_inputs,
            "pad_variable_length_inputs: requests of unequal shapes do not share a batch",
        ),
        (
            parameters.enable_large_batch_splitting == Some(false),
            "enable_large_batch_splitting: false, as a request larger than max_batch_size is run in parts",
        ),
    ];
    let ignored = ignored.into_iter().filter(|it| it.0).map(|it| it.1).collect();
    Ok(Batching { settings, ignored })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Batching, Vec<String>> {
        batching(&batching_parameters("b", text).unwrap())
    }

    fn settings(text: &str) -> Vec<(&'static str, String)> {
        read(text).unwrap().settings.into_iter().map(|it| (it.1, it.2)).collect()
    }

    fn setting(name: &'static str, value: u64) -> (&'static str, String) {
        (name, value.to_string())
    }

    #[test]
    fn a_queue_of_batches_is_one_of_requests() {
        let text = "max_batch_size { value: 32 } batch_timeout_micros { value: 500 }
                    max_enqueued_batches { value: 4 } num_batch_threads { value: 2 }
                    thread_pool_name { value: 'pool' }";
        let expected = [
            setting("default-max-batch-size", 32),
            setting("default-queue-delay-us", 500),
            setting("default-max-queue-size", 128),
            setting("default-instance-count", 2),
        ];
        assert_eq!(settings(text), expected);
    }

    #[test]
    fn what_is_not_said_is_as_tensorflow_serving_has_it() {
        let expected = [
            setting("default-max-batch-size", 1000),
            setting("default-queue-delay-us", 0),
            setting("default-max-queue-size", 10_000),
        ];
        assert_eq!(settings(""), expected);
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let text = "max_batch_size { value: 0 } allowed_batch_sizes: [4, 2] num_batch_threads { value: -1 }";
        let expected = [
            "max_batch_size: expected a whole number from 1, got 0",
            "num_batch_threads: expected a whole number from 1, got -1",
            "allowed_batch_sizes: expected rising numbers, got [4, 2]",
            "allowed_batch_sizes: expected the last one to be max_batch_size, 0, got 2",
        ];
        assert_eq!(read(text).unwrap_err(), expected);
    }

    #[test]
    fn what_has_no_effect_is_named() {
        let text = "max_batch_size { value: 8 } allowed_batch_sizes: [4, 8] pad_variable_length_inputs: true
                    enable_large_batch_splitting { value: false }";
        assert_eq!(read(text).unwrap().ignored.len(), 3);
    }
}
