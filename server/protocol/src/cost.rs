//! What a request to a model of texts has taken, as headers of its reply.

use std::time::Duration;

use crate::{terms::Terms, vectors};
use inference::{error::Error, request::InferenceResponse, timings::Timings};

/// The device that computed the answer.
pub const TYPE: &str = "x-compute-type";
/// The time from the head of the request to its answer, in milliseconds.
pub const TIME: &str = "x-compute-time";
/// The same: all of it is counted as work.
pub const TOTAL_TIME: &str = "x-total-time";
const CHARACTERS: &str = "x-compute-characters";
const TOKENS: &str = "x-compute-tokens";
const TOKENIZATION_TIME: &str = "x-tokenization-time";
const QUEUE_TIME: &str = "x-queue-time";
const INFERENCE_TIME: &str = "x-inference-time";

/// The headers of a reply to texts of so many characters.
///
/// # Errors
/// When the response does not say how many tokens they were.
pub(crate) fn headers(
    terms: &Terms,
    characters: usize,
    response: &InferenceResponse,
) -> Result<Vec<(&'static str, String)>, Error> {
    let mut headers = vec![
        (TYPE, terms.device.to_owned()),
        (CHARACTERS, characters.to_string()),
        (TOKENS, vectors::tokens(response)?.to_string()),
    ];
    if let Some(Timings { queue, prepare, rows, .. }) = response.timings {
        let millis = |time: Duration| time.as_millis().to_string();
        headers.push((TOKENIZATION_TIME, millis(prepare)));
        headers.push((QUEUE_TIME, millis(queue.saturating_sub(prepare))));
        headers.push((INFERENCE_TIME, millis(rows)));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::samples;
    use backend::{DataType, NamedTensor, Shape, Tensor};
    use inference::task;

    #[test]
    fn the_time_for_tokens_is_no_time_in_the_queue() {
        let tokens = Tensor::zeros(DataType::Int64, Shape::new(&[1, 1])).unwrap();
        let mut response = samples::only("x", tokens.clone());
        response.outputs = vec![NamedTensor { name: task::TOKENS.into(), tensor: tokens }];
        let millis = Duration::from_millis;
        let (queue, prepare, rows) = (millis(9), millis(4), millis(20));
        let timings = Timings { queue, prepare, rows, ..Timings::starting_at(Instant::now()) };
        response.timings = Some(timings);
        let terms =
            Terms { shown_name: "m".into(), truncates: true, device: "gpu", prompts: Vec::new() };
        let headers = headers(&terms, 7, &response).unwrap();
        let lines: Vec<String> = headers.iter().map(|(name, it)| format!("{name}: {it}")).collect();
        let expected = [
            "x-compute-type: gpu",
            "x-compute-characters: 7",
            "x-compute-tokens: 0",
            "x-tokenization-time: 4",
            "x-queue-time: 5",
            "x-inference-time: 20",
        ];
        assert_eq!(lines, expected);
    }
}
