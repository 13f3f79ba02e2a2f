//! The forms of HTTP replies: which of their outputs lie in shared memory, and how many bytes they take while they are
//! written.

use backend::NamedTensor;
use inference::{request::InferenceResponse, signature::Signature};
use protocol::{
    hub, infinity,
    kserve_v2::{self, SharedParts, classify::classes_expanded, generate::Framing},
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
    fn expanded(&self, signature: &Signature, response: &InferenceResponse, rough: usize) -> usize;
}

impl ReplyForm for kserve_v2::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        self.shared.take()
    }

    fn expanded(&self, signature: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        let plain = response.outputs.iter().filter(|it| {
            let form = self.of(&it.name);
            !form.shared && form.classes.is_none() && !form.binary
        });
        let plain = reply_size::of_outputs(plain, TextForm::PLAIN, rough);
        let classes = response.outputs.iter().map(|NamedTensor { name, tensor }| {
            let form = self.of(name);
            let classes = form.classes.filter(|_| !form.shared);
            classes.map_or(0, |it| {
                let labels = signature.output(name).map(|it| &*it.labels).unwrap_or_default();
                classes_expanded(tensor, signature.batches(), it, labels, rough)
            })
        });
        classes.fold(plain, usize::saturating_add)
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

    fn expanded(&self, signature: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        use sagemaker::ReplyFormat;
        let form = match self {
            ReplyFormat::KserveV2(format) => return format.expanded(signature, response, rough),
            ReplyFormat::Line(format) => return format.expanded(signature, response, rough),
            ReplyFormat::Results(results) => return results.expanded(signature, response, rough),
            ReplyFormat::Xgboost(reply) => return reply.expanded(response, rough),
            // The tensor as it is, behind a header.
            ReplyFormat::Npy => return 0,
            ReplyFormat::HuggingFace(_)
            | ReplyFormat::HuggingFaceLines(..)
            | ReplyFormat::HuggingFaceCsv => TextForm::LABELLED,
            ReplyFormat::Objects(_) | ReplyFormat::Algorithm(_) => TextForm::QUOTED,
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

impl ReplyForm for tfs::Results {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        let form = match self {
            tfs::Results::Predictions(_) => TextForm::PLAIN,
            tfs::Results::Classes(_) | tfs::Results::Values(_) => TextForm::LABELLED,
        };
        reply_size::of_response(response, form, rough)
    }
}

impl ReplyForm for Framing {
    fn expanded(&self, _: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        reply_size::of_response(response, TextForm::PLAIN, rough)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use backend::{DataType, Shape, Tensor};

    use super::*;
    use inference::signature::Port;
    use protocol::kserve_v2::OutputFormat;

    #[test]
    fn classes_with_long_numbers_and_labels_are_counted() {
        let labels: Arc<[String]> = [(); 100].map(|()| "l".repeat(500)).into();
        let port = Port {
            name: "y".into(),
            dtype: DataType::Fp64,
            dims: vec![None],
            any_rank: false,
            scalar: false,
            optional: false,
            labels,
            text_codes: Default::default(),
        };
        let signature = Signature {
            model: "m".into(),
            version: 1,
            max_batch_size: 1,
            graph_checks_shapes: false,
            takes_missing: false,
            most_rows: None,
            inputs: Vec::new(),
            outputs: vec![port],
            on_request: Vec::new(),
            pipeline: None,
            named: None,
        };
        let tensor = Tensor::from_vec(Shape::new(&[1, 100]), vec![-1.7e308; 100]).unwrap();
        let outputs = vec![NamedTensor { name: "y".into(), tensor }];
        let response = InferenceResponse {
            model: "m".into(),
            version: 1,
            id: None,
            rows: Some(1),
            outputs,
            timings: None,
        };
        let form = OutputFormat { classes: Some(100), ..OutputFormat::default() };
        let outputs = vec![("y".into(), form)];
        let format = kserve_v2::ReplyFormat { outputs, ..kserve_v2::ReplyFormat::default() };
        let reply = kserve_v2::encode(&format, &signature, &response).unwrap();
        let written: usize = reply.body.iter().map(|it| it.len()).sum();
        // The texts of the classes are there beside those of the JSON.
        assert!(2 * written <= format.expanded(&signature, &response, 0));
    }
}
