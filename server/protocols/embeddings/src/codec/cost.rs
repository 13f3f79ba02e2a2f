//! What a request to a model of texts has taken, as headers of its reply.

use std::{sync::Arc, time::Duration};

use crate::codec::terms::Terms;
use formats::{EncodedReply, vectors};
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

/// What the headers of a reply need of its request.
#[derive(Debug, Clone)]
pub(crate) struct TextCost {
    /// Characters of all texts of the request.
    pub(crate) characters: usize,
    /// The terms of the request.
    pub(crate) terms: Arc<Terms>,
}

impl TextCost {
    /// The reply with this JSON and the headers.
    ///
    /// # Errors
    /// When the response does not say how many tokens the texts were.
    pub(crate) fn reply(
        &self,
        json: Vec<u8>,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        let headers = self.headers(response)?;
        Ok(EncodedReply { headers, ..EncodedReply::json(json) })
    }

    fn headers(&self, response: &InferenceResponse) -> Result<Vec<(&'static str, String)>, Error> {
        let mut headers = vec![
            (TYPE, self.terms.device.to_owned()),
            (CHARACTERS, self.characters.to_string()),
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
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use backend::{DataType, NamedTensor, Shape, Tensor};
    use formats::samples;
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
        let terms = Arc::new(Terms { device: "gpu", ..crate::codec::terms::sample() });
        let headers = TextCost { characters: 7, terms }.headers(&response).unwrap();
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
