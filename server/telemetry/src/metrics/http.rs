//! Answered HTTP requests by protocol and status.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::lanes::Lanes;

/// Which family of addresses a request was for: the label `protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `/pipeline/...`, and what is posted to `/`.
    HuggingFace,
    /// `/v2/...`.
    KserveV2,
    /// `/v1/embeddings` and the list of models.
    OpenAi,
    /// Metrics, and unknown addresses.
    Other,
    /// `/v1/rerank`, `/v2/rerank`.
    Rerank,
    /// `/ping`, `/invocations`, `/models`.
    Sagemaker,
    /// `/v1/...`.
    TensorflowServing,
    /// `/embed` and the like.
    TextEmbeddingsInference,
}

impl Protocol {
    /// Every protocol, in the order of the declaration.
    const ALL: [Protocol; 8] = [
        Protocol::HuggingFace,
        Protocol::KserveV2,
        Protocol::OpenAi,
        Protocol::Other,
        Protocol::Rerank,
        Protocol::Sagemaker,
        Protocol::TensorflowServing,
        Protocol::TextEmbeddingsInference,
    ];

    /// The value of the label.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::HuggingFace => "hugging_face",
            Protocol::KserveV2 => "kserve_v2",
            Protocol::OpenAi => "openai",
            Protocol::Other => "other",
            Protocol::Rerank => "rerank",
            Protocol::Sagemaker => "sagemaker",
            Protocol::TensorflowServing => "tensorflow_serving",
            Protocol::TextEmbeddingsInference => "text_embeddings_inference",
        }
    }
}

/// Slots for each protocol: one for every status below 600, of which 0 stands for whatever is not one.
const SLOTS: usize = 600;

/// One counter for every protocol and status, whether it has been seen or not.
pub(super) struct HttpRequests(Lanes<Box<[AtomicU64]>>);

impl HttpRequests {
    pub(super) fn new() -> HttpRequests {
        HttpRequests(Lanes::new())
    }

    pub(super) fn count(&self, protocol: Protocol, status: u16) {
        let slot = match status {
            100..600 => usize::from(status),
            _ => 0,
        };
        let none = || (0..Protocol::ALL.len() * SLOTS).map(|_| AtomicU64::new(0)).collect();
        if let Some(count) = self.0.mine(none).get(protocol as usize * SLOTS + slot) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// What has been seen: protocol, status (`other` where it is not one of HTTP), count.
    pub(super) fn seen(&self) -> impl Iterator<Item = (Protocol, String, u64)> {
        let slots = Protocol::ALL.into_iter().flat_map(|it| (0..SLOTS).map(move |at| (it, at)));
        slots.enumerate().filter_map(|(at, (protocol, status))| {
            let lanes = self.0.all().filter_map(|it| it.get(at));
            let count: u64 = lanes.map(|it| it.load(Relaxed)).sum();
            let status = if status == 0 { "other".to_owned() } else { status.to_string() };
            (count > 0).then_some((protocol, status, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_and_status_has_its_own_count() {
        let requests = HttpRequests::new();
        for protocol in Protocol::ALL {
            for status in [0, 99, 100, 200, 200, 599, 600, u16::MAX] {
                requests.count(protocol, status);
            }
        }
        let seen: Vec<_> = requests.seen().collect();
        let expect: Vec<_> = Protocol::ALL
            .into_iter()
            .flat_map(|protocol| {
                [("other", 4), ("100", 1), ("200", 2), ("599", 1)]
                    .map(|(status, count)| (protocol, status.to_owned(), count))
            })
            .collect();
        assert_eq!(seen, expect);
    }
}
