//! How many bytes the replies to those who send texts take while they are written.

use super::{
    hub, infinity, openai,
    rerank::{RerankFormat, ScoreFormat},
    tei,
};
use formats::{
    reply_form::ReplyForm,
    reply_size::{self, TextForm},
};
use inference::{request::InferenceResponse, signature::Signature};

impl ReplyForm for openai::EmbeddingsFormat {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        match self.is_base64 {
            true => {
                let rows = response.outputs.iter().filter_map(|it| it.tensor.shape().rows());
                let bytes = response.outputs.iter().map(|it| it.tensor.byte_len());
                let beside = rows.max().unwrap_or(0).saturating_mul(TextForm::LABELLED.element);
                bytes.sum::<usize>() / 3 * 4 + beside
            }
            false => reply_size::of_response(response, TextForm::PLAIN, rough),
        }
    }
}

impl ReplyForm for tei::per_token::PerTokenFormat {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, _: usize) -> usize {
        joined(response)
    }
}

impl ReplyForm for tei::predict::PredictFormat {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, _: usize) -> usize {
        joined(response)
    }
}

/// Bytes of a reply of which each row has written its own part.
fn joined(response: &InferenceResponse) -> usize {
    response.outputs.iter().map(|it| it.tensor.byte_len()).fold(2, usize::saturating_add)
}

impl ReplyForm for tei::similarity::SimilarityFormat {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::PLAIN, rough)
    }
}

impl ReplyForm for tei::embed::EmbedFormat {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::PLAIN, rough)
    }
}

impl ReplyForm for RerankFormat {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        let scores = reply_size::of_response(response, TextForm::LABELLED, rough);
        scores.saturating_add(self.repeated())
    }
}

impl ReplyForm for hub::HubFormat {
    fn expanded(&self, signature: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        match self {
            hub::HubFormat::Ranking(format) => format.expanded(signature, response, rough),
            // Candidates are written twice.
            hub::HubFormat::Rows(_) => {
                reply_size::of_response(response, TextForm::LABELLED, rough).saturating_mul(2)
            }
        }
    }
}

impl ReplyForm for ScoreFormat {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::LABELLED, rough)
    }
}

impl ReplyForm for infinity::ClassifyFormat {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::LABELLED, rough)
    }
}
