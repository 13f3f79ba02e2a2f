//! The pipelines that bodies with texts and files are for.

use std::{ops::Range, sync::Arc};

use inference::{
    signature::{Form, Pipeline, Signature},
    task::{Medium, Task},
};

use crate::signatures::port;

/// Inputs of a text, and of a model with a tower for images and one for texts.
const TEXT: &[&str] = &["text BYTES [1]"];
const PAIR: &[&str] = &["text BYTES [1]", "text_pair? BYTES [1]"];
const IDS: &[&str] = &["token_ids BYTES [1]"];
const RANKING: &[&str] = &["query BYTES [1]", "texts BYTES [-1]"];
const SENTENCES: &[&str] = &["source_sentence BYTES [1]", "sentences BYTES [-1]"];
const IMAGE: &[&str] = &["image BYTES [1]"];
const BOTH: &[&str] = &["image BYTES [1]", "text BYTES [1]"];

/// A task and the inputs that it takes.
type Takes = (Task, &'static [&'static str]);

/// Pipelines: what each is for, and its other forms.
const PIPELINES: [(Takes, &[Takes]); 13] = [
    (
        (Task::SentenceEmbedding, TEXT),
        &[
            (Task::FeatureExtraction, TEXT),
            (Task::SentenceSimilarity, SENTENCES),
            (Task::Rerank, RANKING),
            (Task::SentenceEmbedding, IDS),
        ],
    ),
    ((Task::TextClassification, PAIR), &[(Task::TextClassification, IDS)]),
    ((Task::Rerank, RANKING), &[(Task::TextClassification, PAIR)]),
    ((Task::QuestionAnswering, &["question BYTES [1]", "context BYTES [1]"]), &[]),
    ((Task::ZeroShotClassification, TEXT), &[(Task::TextClassification, PAIR)]),
    ((Task::FillMask, TEXT), &[]),
    ((Task::TokenClassification, TEXT), &[]),
    ((Task::SparseEmbedding, TEXT), &[(Task::SparseEmbedding, IDS)]),
    ((Task::SentenceSimilarity, SENTENCES), &[(Task::SentenceEmbedding, TEXT)]),
    ((Task::ImageClassification, IMAGE), &[]),
    ((Task::ZeroShotImageClassification, IMAGE), &[]),
    (
        (Task::ImageTextEmbedding, IMAGE),
        &[(Task::ImageTextEmbedding, TEXT), (Task::ImageTextEmbedding, BOTH)],
    ),
    ((Task::AutomaticSpeechRecognition, &["audio BYTES [1]"]), &[]),
];

/// The numbers of all pipelines.
pub(crate) fn numbers() -> Range<u8> {
    0..PIPELINES.len() as u8
}

/// The pipeline of that number, which takes few rows where `is_small`.
pub(crate) fn pipeline(number: u8, is_small: bool) -> Signature {
    let most = if is_small { 4 } else { 1 << 20 };
    let ((task, inputs), forms) = PIPELINES[usize::from(number) % PIPELINES.len()];
    let form =
        |(task, inputs): &Takes| Form { task: Some(*task), signature: face(inputs, most, None) };
    let pipeline = Pipeline {
        task,
        forms: forms.iter().map(form).collect(),
        row_independent: true,
        sampling_rate: (task.medium() == Medium::Audio).then_some(16_000),
        jpeg: None,
    };
    face(inputs, most, Some(Arc::new(pipeline)))
}

fn face(inputs: &[&str], most: usize, pipeline: Option<Arc<Pipeline>>) -> Signature {
    Signature {
        named: None,
        graph_checks_shapes: false,
        takes_missing: false,
        model: "m".into(),
        version: 3,
        max_batch_size: most,
        most_rows: Some(most),
        inputs: inputs.iter().map(|line| port(line)).collect(),
        outputs: vec![port("result BYTES [1]")],
        on_request: Vec::new(),
        pipeline,
    }
}
