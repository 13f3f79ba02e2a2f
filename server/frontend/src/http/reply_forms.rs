//! The forms of HTTP replies: which of their outputs lie in shared memory, and how many bytes they take while they are
//! written.

use inference::request::InferenceResponse;
use protocol::{
    hub, infinity,
    kserve_v2::{self, SharedParts, generate::Framing},
    openai,
    reply_size::{self, TextForm},
    rerank::{RerankFormat, ScoreFormat},
    sagemaker, tei, tfs,
};

/// A form of a reply.
pub trait ReplyForm {
    /// Takes the list of inputs and outputs that lie in shared memory out of the form.
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        None
    }

    /// Bytes of memory that writing the reply takes at most, besides the outputs. An estimate of up to `rough` bytes
    /// may be rough, because a precise one takes as long as to write the reply.
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize;
}

impl ReplyForm for kserve_v2::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        self.shared.take()
    }

    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        let text = |wanted: bool| {
            response.outputs.iter().filter(move |it| {
                let form = self.of(&it.name);
                !form.shared && form.classes.is_some() == wanted && (wanted || !form.binary)
            })
        };
        let plain = reply_size::of_outputs(text(false), TextForm::PLAIN, rough);
        plain.saturating_add(reply_size::of_outputs(text(true), TextForm::LABELLED, rough))
    }
}

impl ReplyForm for sagemaker::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        match self {
            sagemaker::ReplyFormat::KserveV2(format) => format.take_shared(),
            sagemaker::ReplyFormat::Line(format) => format.take_shared(),
            _ => None,
        }
    }

    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        use sagemaker::ReplyFormat;
        let form = match self {
            ReplyFormat::KserveV2(format) => return format.expanded(response, rough),
            ReplyFormat::Line(format) => return format.expanded(response, rough),
            ReplyFormat::Results(results) => return results.expanded(response, rough),
            // The tensor as it is, behind a header.
            ReplyFormat::Npy => return 0,
            ReplyFormat::HuggingFace(_)
            | ReplyFormat::HuggingFaceLines(..)
            | ReplyFormat::HuggingFaceCsv => TextForm::LABELLED,
            ReplyFormat::Objects(_) | ReplyFormat::Xgboost(_) | ReplyFormat::Algorithm(_) => {
                TextForm::QUOTED
            }
            ReplyFormat::Generate(_)
            | ReplyFormat::Rows
            | ReplyFormat::Columns
            | ReplyFormat::Bare
            | ReplyFormat::JsonLines(_)
            | ReplyFormat::Csv => TextForm::PLAIN,
        };
        reply_size::of_response(response, form, rough)
    }
}

impl ReplyForm for openai::EmbeddingsFormat {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
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
    fn expanded(&self, response: &InferenceResponse, _: usize) -> usize {
        joined(response)
    }
}

impl ReplyForm for tei::predict::PredictFormat {
    fn expanded(&self, response: &InferenceResponse, _: usize) -> usize {
        joined(response)
    }
}

/// Bytes of a reply of which each row has written its own part.
fn joined(response: &InferenceResponse) -> usize {
    response.outputs.iter().map(|it| it.tensor.byte_len()).fold(2, usize::saturating_add)
}

impl ReplyForm for tei::similarity::SimilarityFormat {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::PLAIN, rough)
    }
}

impl ReplyForm for tei::embed::EmbedFormat {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::PLAIN, rough)
    }
}

impl ReplyForm for RerankFormat {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        let scores = reply_size::of_response(response, TextForm::LABELLED, rough);
        scores.saturating_add(self.repeated())
    }
}

impl ReplyForm for hub::HubFormat {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        match self {
            hub::HubFormat::Ranking(format) => format.expanded(response, rough),
            // Candidates are written twice.
            hub::HubFormat::Rows(_) => {
                reply_size::of_response(response, TextForm::LABELLED, rough).saturating_mul(2)
            }
        }
    }
}

impl ReplyForm for ScoreFormat {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::LABELLED, rough)
    }
}

impl ReplyForm for infinity::ClassifyFormat {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::LABELLED, rough)
    }
}

impl ReplyForm for tfs::Results {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        let form = match self {
            tfs::Results::Predictions(_) => TextForm::PLAIN,
            tfs::Results::Classes(_) | tfs::Results::Values(_) => TextForm::LABELLED,
        };
        reply_size::of_response(response, form, rough)
    }
}

impl ReplyForm for Framing {
    fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::PLAIN, rough)
    }
}
