//! What a pipeline of one model looks like in the form of the hub: schemas of body and reply, and a body that works.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use frontend::http::{examples::SENTENCE, routes::Call};
use inference::{
    signature::Signature,
    task::{Medium, Task},
};

/// `None` for models that take tensors.
pub fn pipeline(signature: &Signature) -> Option<Call> {
    let task = signature.pipeline.as_ref()?.task;
    let (takes, gives) = (takes(task), gives(task));
    Some(Call { takes, gives, example: example(task) })
}

/// The body of a task, for one input. A list of inputs is answered with a list.
fn takes(task: Task) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let texts = || json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    let object = |required: &[&str], properties: Value| json!({"type": "object", "required": required, "properties": properties});
    let inputs = match (task, task.medium()) {
        (Task::QuestionAnswering, _) => object(
            &["question", "context"],
            json!({"question": text("A question"), "context": text("The text with its answer")}),
        ),
        (Task::SentenceSimilarity, _) => object(
            &["source_sentence", "sentences"],
            json!({"source_sentence": text("A text"), "sentences": texts()}),
        ),
        (Task::Rerank, _) => {
            return object(
                &["query", "texts"],
                json!({"query": text("What is looked for"), "texts": texts(),
                    "raw_scores": {"type": "boolean"}, "return_text": {"type": "boolean"}}),
            );
        }
        (Task::ImageTextEmbedding, _) => object(
            &[],
            json!({"image": text("The file of an image in base64"), "text": text("A text")}),
        ),
        (Task::FillMask, _) => text("A text with the mask of the model's tokenizer in it"),
        (_, Medium::Text) => text("A text"),
        (_, Medium::Image) => text("The file of an image in base64"),
        (_, Medium::Audio) => text("The file of a sound in base64"),
    };
    let names_labels =
        matches!(task, Task::ZeroShotClassification | Task::ZeroShotImageClassification);
    let (required, parameters): (&[&str], _) = match names_labels {
        true => (
            &["inputs", "parameters"],
            object(&["candidate_labels"], json!({ "candidate_labels": texts() })),
        ),
        false => (&["inputs"], json!({"type": "object", "additionalProperties": true})),
    };
    object(required, json!({"inputs": inputs, "parameters": parameters}))
}

/// The reply to one input.
fn gives(task: Task) -> Value {
    let list = |items: Value| json!({"type": "array", "items": items});
    let number = || json!({"type": "number"});
    let class = || {
        json!({"type": "object", "required": ["label", "score"],
            "properties": {"label": {"type": "string"}, "score": {"type": "number"}}})
    };
    match task {
        Task::TextClassification => list(list(class())),
        Task::ZeroShotClassification
        | Task::ImageClassification
        | Task::ZeroShotImageClassification
        | Task::AudioClassification => list(class()),
        Task::SentenceEmbedding => list(list(number())),
        Task::SentenceSimilarity => list(number()),
        Task::Rerank => {
            list(json!({"type": "object", "required": ["index", "score"], "properties":
            {"index": {"type": "integer"}, "score": {"type": "number"}, "text": {"type": "string"}}}))
        }
        Task::ObjectDetection => {
            list(json!({"type": "object", "required": ["label", "score", "box"],
            "properties": {"label": {"type": "string"}, "score": {"type": "number"}, "box":
                {"type": "object", "additionalProperties": {"type": "number"}}}}))
        }
        Task::TokenClassification | Task::FillMask => {
            list(json!({"type": "object", "additionalProperties": true}))
        }
        Task::QuestionAnswering => json!({"type": "object", "required": ["answer", "score"],
            "properties": {"answer": {"type": "string"}, "score": {"type": "number"},
                "start": {"type": "integer"}, "end": {"type": "integer"}}}),
        Task::AutomaticSpeechRecognition => json!({"type": "object", "required": ["text"],
            "properties": {"text": {"type": "string"}}}),
        Task::FeatureExtraction | Task::SparseEmbedding | Task::ImageFeatureExtraction => {
            list(json!({}))
        }
        Task::ImageTextEmbedding => json!({"type": "object", "additionalProperties": true}),
    }
}

/// A body for any model of a task; `None` where what is asked depends on the model.
fn example(task: Task) -> Option<Value> {
    let sentences = ["I feel very good today.", "The train is late again."];
    let labels = json!({"candidate_labels": ["joy", "anger"]});
    Some(match (task, task.medium()) {
        // Each tokenizer has a mask of its own.
        (Task::FillMask, _) => return None,
        (Task::QuestionAnswering, _) => {
            json!({"inputs": {"question": "How am I right now?", "context": SENTENCE}})
        }
        (Task::SentenceSimilarity, _) => {
            json!({"inputs": {"source_sentence": SENTENCE, "sentences": sentences}})
        }
        (Task::Rerank, _) => json!({"query": SENTENCE, "texts": sentences}),
        (Task::ZeroShotClassification, _) => json!({"inputs": SENTENCE, "parameters": labels}),
        (Task::ZeroShotImageClassification, _) => json!({"inputs": IMAGE, "parameters": labels}),
        (Task::ImageTextEmbedding, _) => json!({"inputs": {"image": IMAGE, "text": SENTENCE}}),
        (_, Medium::Text) => json!({ "inputs": SENTENCE }),
        (_, Medium::Image) => json!({ "inputs": IMAGE }),
        (_, Medium::Audio) => json!({ "inputs": STANDARD.encode(silence()) }),
    })
}

/// A PNG of 16 x 16 pixels in base64: a blue square on white.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAHElEQVR42mP4TyJgGOQaFBwOYEWj\
                     GuirYYimJQDi9IXfUiAUVgAAAABJRU5ErkJggg==";

/// A WAV of a quarter of a second without a sound: 8,000 samples a second of 8 bits.
fn silence() -> Vec<u8> {
    const RATE: u32 = 8000;
    let samples = vec![0x80; RATE as usize / 4];
    let length = samples.len() as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + length).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16u32.to_le_bytes());
    // PCM, one channel.
    file.extend([1u16, 1].map(u16::to_le_bytes).concat());
    file.extend([RATE, RATE].map(u32::to_le_bytes).concat());
    // Bytes and bits of a sample.
    file.extend([1u16, 8].map(u16::to_le_bytes).concat());
    file.extend(b"data");
    file.extend(length.to_le_bytes());
    file.extend(samples);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontend::http::examples::MOST_BYTES;

    #[test]
    fn every_task_has_a_body_that_is_small_but_the_one_that_depends_on_the_tokenizer() {
        for task in Task::ALL {
            match example(task) {
                Some(body) => assert!(body.to_string().len() <= MOST_BYTES, "{task}"),
                None => assert_eq!(task, Task::FillMask),
            }
        }
    }
}
