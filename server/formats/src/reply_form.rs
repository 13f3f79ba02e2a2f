//! How many bytes a reply takes while it is written, and which of its outputs lie in shared memory.

use backend::NamedTensor;
use inference::{request::InferenceResponse, signature::Signature};

use crate::{
    kserve_v2::{self, SharedParts, classify::classes_expanded, generate::Framing},
    reply_size::{self, TextForm},
    tfs,
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
    use crate::kserve_v2::OutputFormat;
    use inference::signature::Port;

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
