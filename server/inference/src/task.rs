//! The table of tasks: what a pipeline is for, by the names that Hugging Face gives its tasks, with a row for each of
//! what is known of it. What is not in it is code: which files of a folder a task reads, and how an answer is made of
//! what the graph gives.

use backend::DataType;

pub use crate::{
    task_facts::{
        Csv, GraphGives, HubReply, InputFacts, InputKind, OutputFacts, RowForm, TaskFacts, TeiKind,
        Width,
    },
    task_names::*,
};

/// What a pipeline does with its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Task {
    TextClassification,
    TokenClassification,
    QuestionAnswering,
    FillMask,
    ZeroShotClassification,
    FeatureExtraction,
    SentenceEmbedding,
    SentenceSimilarity,
    Rerank,
    SparseEmbedding,
    ImageClassification,
    ObjectDetection,
    ImageFeatureExtraction,
    ZeroShotImageClassification,
    ImageTextEmbedding,
    AudioClassification,
    AutomaticSpeechRecognition,
}

impl Task {
    /// All of them, in the order of their declaration.
    pub const ALL: [Task; 17] = [
        Task::TextClassification,
        Task::TokenClassification,
        Task::QuestionAnswering,
        Task::FillMask,
        Task::ZeroShotClassification,
        Task::FeatureExtraction,
        Task::SentenceEmbedding,
        Task::SentenceSimilarity,
        Task::Rerank,
        Task::SparseEmbedding,
        Task::ImageClassification,
        Task::ObjectDetection,
        Task::ImageFeatureExtraction,
        Task::ZeroShotImageClassification,
        Task::ImageTextEmbedding,
        Task::AudioClassification,
        Task::AutomaticSpeechRecognition,
    ];

    /// Its row of the table.
    pub const fn facts(self) -> &'static TaskFacts {
        match self {
            Task::TextClassification => &TEXT_CLASSIFICATION,
            Task::TokenClassification => &TOKEN_CLASSIFICATION,
            Task::QuestionAnswering => &QUESTION_ANSWERING,
            Task::FillMask => &FILL_MASK,
            Task::ZeroShotClassification => &ZERO_SHOT_CLASSIFICATION,
            Task::FeatureExtraction => &FEATURE_EXTRACTION,
            Task::SentenceEmbedding => &SENTENCE_EMBEDDING,
            Task::SentenceSimilarity => &SENTENCE_SIMILARITY,
            Task::Rerank => &RERANK,
            Task::SparseEmbedding => &SPARSE_EMBEDDING,
            Task::ImageClassification => &IMAGE_CLASSIFICATION,
            Task::ObjectDetection => &OBJECT_DETECTION,
            Task::ImageFeatureExtraction => &IMAGE_FEATURE_EXTRACTION,
            Task::ZeroShotImageClassification => &ZERO_SHOT_IMAGE_CLASSIFICATION,
            Task::ImageTextEmbedding => &IMAGE_TEXT_EMBEDDING,
            Task::AudioClassification => &AUDIO_CLASSIFICATION,
            Task::AutomaticSpeechRecognition => &AUTOMATIC_SPEECH_RECOGNITION,
        }
    }

    /// The name in requests, files and logs.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// What its inputs are.
    pub const fn medium(self) -> Medium {
        self.facts().medium
    }

    /// The task of that name or of one of its aliases.
    pub fn from_name(name: &str) -> Option<Task> {
        let is = |it: &Task| it.name() == name || it.facts().aliases.contains(&name);
        Task::ALL.into_iter().find(is)
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

const TEXT_CLASSIFICATION: TaskFacts = TaskFacts {
    name: "text-classification",
    aliases: &["sentiment-analysis"],
    inputs: &[&[ONE_TEXT, input(TEXT_PAIR, InputKind::Optional)]],
    takes: "a text or a pair of texts",
    takes_ids: true,
    parameters: [&["top_k", "function_to_apply", "return_all_scores", "raw_scores"], LENGTHS],
    outputs: LABELS_AND_SCORES,
    on_request: &[TOKENS_OF_ROW, IS_CUT, CLASS_NUMBERS],
    is_short: true,
    graph: GraphGives::TextClasses,
    tei_address: Some("predict"),
    tei_kind: TeiKind::Classifier,
    hub: HubReply::AllClasses,
    gives_best_class: true,
    ..OF_A_TEXT
};

const TOKEN_CLASSIFICATION: TaskFacts = TaskFacts {
    name: "token-classification",
    aliases: &["ner"],
    parameters: [&["aggregation_strategy", "ignore_labels", "stride"], LENGTHS],
    graph: GraphGives::TokenClasses,
    architectures: &["ForTokenClassification"],
    tei_kind: TeiKind::Classifier,
    ..OF_A_TEXT
};

const QUESTION_ANSWERING: TaskFacts = TaskFacts {
    name: "question-answering",
    inputs: &[&[input(QUESTION, InputKind::One), input(CONTEXT, InputKind::One)]],
    takes: "a question and a context",
    parameters: [
        &[
            "top_k",
            "doc_stride",
            "max_seq_len",
            "max_question_len",
            "max_answer_len",
            "handle_impossible_answer",
            "align_to_words",
        ],
        // Answers are found in windows of the whole context.
        &["padding"],
    ],
    graph: GraphGives::Spans,
    architectures: &["ForQuestionAnswering", "ForQuestionAnsweringSimple"],
    ..OF_A_TEXT
};

const FILL_MASK: TaskFacts = TaskFacts {
    name: "fill-mask",
    parameters: [&["top_k", "targets"], LENGTHS],
    graph: GraphGives::Vocabulary,
    architectures: &["ForMaskedLM", "WithLMHeadModel"],
    ..OF_A_TEXT
};

const ZERO_SHOT_CLASSIFICATION: TaskFacts = TaskFacts {
    name: "zero-shot-classification",
    aliases: &["zero-shot"],
    row: RowForm::Labels,
    takes: "a text and candidate labels",
    parameters: [&["hypothesis_template", "multi_label"], LENGTHS],
    outputs: LABELS_AND_SCORES,
    repeats_text: true,
    graph: GraphGives::TextClasses,
    tei_kind: TeiKind::Classifier,
    hub: HubReply::Candidates,
    gives_best_class: true,
    ..OF_A_TEXT
};

const FEATURE_EXTRACTION: TaskFacts = TaskFacts {
    name: "feature-extraction",
    takes_ids: true,
    parameters: [&["normalize", "dimensions", "prompt_name"], LENGTHS],
    gives_vectors_of_parts: true,
    graph: GraphGives::TokenVectors,
    tei_address: Some("embed_all"),
    tei_kind: TeiKind::Vectors,
    ..OF_A_TEXT
};

const SENTENCE_EMBEDDING: TaskFacts = TaskFacts {
    name: "sentence-embedding",
    takes_ids: true,
    parameters: [&["normalize", "dimensions", "prompt_name"], LENGTHS],
    outputs: &[output(EMBEDDING, DataType::Fp32, &[Width::Vector])],
    is_short: true,
    graph: GraphGives::TokenVectors,
    tei_address: Some("embed"),
    tei_kind: TeiKind::Vectors,
    hub: HubReply::List,
    csv: Csv::Numbers,
    ..OF_A_TEXT
};

const SENTENCE_SIMILARITY: TaskFacts = TaskFacts {
    name: "sentence-similarity",
    inputs: &[&[input(SOURCE_SENTENCE, InputKind::One), input(SENTENCES, InputKind::List)]],
    row: RowForm::Compared,
    takes: "a source sentence and a list of sentences",
    parameters: [&["prompt_name", "similarity"], LENGTHS],
    outputs: SCORES,
    is_short: true,
    graph: GraphGives::TokenVectors,
    tei_address: Some("similarity"),
    tei_kind: TeiKind::Vectors,
    csv: Csv::Numbers,
    ..OF_A_TEXT
};

const RERANK: TaskFacts = TaskFacts {
    name: "rerank",
    aliases: &["text-ranking", "reranker"],
    inputs: &[&[input(QUERY, InputKind::One), input(TEXTS, InputKind::List)]],
    row: RowForm::Ranked,
    takes: "a query and a list of texts",
    parameters: [
        &["raw_scores", "function_to_apply", "prompt_name", "max_tokens_per_doc"],
        LENGTHS,
    ],
    outputs: SCORES,
    is_short: true,
    graph: GraphGives::TextClasses,
    tei_address: Some("rerank"),
    tei_kind: TeiKind::Ranker,
    gives_best_class: true,
    ..OF_A_TEXT
};

const SPARSE_EMBEDDING: TaskFacts = TaskFacts {
    name: "sparse-embedding",
    takes_ids: true,
    parameters: [&["prompt_name"], LENGTHS],
    graph: GraphGives::Vocabulary,
    tei_address: Some("embed_sparse"),
    tei_kind: TeiKind::SparseVectors,
    hub: HubReply::List,
    ..OF_A_TEXT
};

const IMAGE_CLASSIFICATION: TaskFacts = TaskFacts {
    name: "image-classification",
    parameters: [&["top_k", "function_to_apply"], &[]],
    outputs: LABELS_AND_SCORES,
    on_request: &[CLASS_NUMBERS],
    is_short: true,
    graph: GraphGives::ImageClasses,
    architectures: &["ForImageClassification", "ForImageClassificationWithTeacher"],
    ..OF_AN_IMAGE
};

const OBJECT_DETECTION: TaskFacts = TaskFacts {
    name: "object-detection",
    parameters: [&["threshold", "confidence", "iou", "max_detections", "agnostic"], &[]],
    outputs: &[
        output(BOX, DataType::Fp32, &[Width::Any, Width::Exactly(4)]),
        output(SCORE, DataType::Fp32, &[Width::Any]),
        CLASS_NUMBERS,
        output(LABEL, DataType::Bytes, &[Width::Any]),
        output(COUNT, DataType::Int64, &[Width::Exactly(1)]),
    ],
    on_request: &[output(SIZE, DataType::Int64, &[Width::Exactly(2)])],
    graph: GraphGives::Boxes,
    architectures: &["ForObjectDetection"],
    csv: Csv::Objects(&["score", "label", "xmin", "ymin", "xmax", "ymax"]),
    ..OF_AN_IMAGE
};

const IMAGE_FEATURE_EXTRACTION: TaskFacts = TaskFacts {
    name: "image-feature-extraction",
    parameters: [&["pool"], &[]],
    gives_vectors_of_parts: true,
    graph: GraphGives::ImageVectors,
    ..OF_AN_IMAGE
};

const ZERO_SHOT_IMAGE_CLASSIFICATION: TaskFacts = TaskFacts {
    name: "zero-shot-image-classification",
    row: RowForm::Labels,
    takes: "the file of an image and candidate labels",
    parameters: [&["hypothesis_template"], &[]],
    outputs: LABELS_AND_SCORES,
    graph: GraphGives::Towers,
    ..OF_AN_IMAGE
};

const IMAGE_TEXT_EMBEDDING: TaskFacts = TaskFacts {
    name: "image-text-embedding",
    inputs: &[&[ONE_IMAGE], &[ONE_TEXT], &[ONE_IMAGE, ONE_TEXT]],
    row: RowForm::Towers,
    takes: "the file of an image, a text, or both",
    parameters: [&["truncation", "truncate"], &[]],
    outputs: &[
        OutputFacts { of: Some(TEXT), ..output(TEXT_EMBEDS, DataType::Fp32, &[Width::TextVector]) },
        OutputFacts {
            of: Some(IMAGE),
            ..output(IMAGE_EMBEDS, DataType::Fp32, &[Width::ImageVector])
        },
    ],
    graph: GraphGives::Towers,
    ..OF_AN_IMAGE
};

const AUDIO_CLASSIFICATION: TaskFacts = TaskFacts {
    name: "audio-classification",
    parameters: [&["top_k", "function_to_apply"], &[]],
    outputs: LABELS_AND_SCORES,
    on_request: &[CLASS_NUMBERS],
    is_short: true,
    graph: GraphGives::SoundClasses,
    architectures: &["ForAudioClassification"],
    ..OF_A_SOUND
};

const AUTOMATIC_SPEECH_RECOGNITION: TaskFacts = TaskFacts {
    name: "automatic-speech-recognition",
    aliases: &["asr"],
    outputs: &[output(TEXT, DataType::Bytes, &[Width::Exactly(1)])],
    is_short: true,
    graph: GraphGives::Letters,
    architectures: &["ForCTC"],
    ..OF_A_SOUND
};

/// What most tasks of texts have: one text for each row.
const OF_A_TEXT: TaskFacts = TaskFacts {
    name: "",
    aliases: &[],
    medium: Medium::Text,
    inputs: &[&[ONE_TEXT]],
    row: RowForm::One,
    takes: "a text",
    takes_ids: false,
    parameters: [&[], LENGTHS],
    outputs: &[],
    on_request: &[TOKENS_OF_ROW, IS_CUT],
    repeats_text: false,
    gives_vectors_of_parts: false,
    is_short: false,
    graph: GraphGives::TokenVectors,
    architectures: &[],
    tei_address: None,
    tei_kind: TeiKind::Other,
    hub: HubReply::One,
    gives_best_class: false,
    csv: Csv::Objects(&[]),
};

/// What most tasks of images have.
const OF_AN_IMAGE: TaskFacts = TaskFacts {
    medium: Medium::Image,
    inputs: &[&[ONE_IMAGE]],
    takes: "the file of an image",
    parameters: [&[], &[]],
    on_request: &[],
    graph: GraphGives::ImageVectors,
    ..OF_A_TEXT
};

/// What all tasks of sounds have.
const OF_A_SOUND: TaskFacts = TaskFacts {
    medium: Medium::Audio,
    inputs: &[&[input(AUDIO, InputKind::One)]],
    takes: "the file of a sound",
    graph: GraphGives::SoundClasses,
    ..OF_AN_IMAGE
};

/// The parameters that concern the length of a text, of tasks that may cut any.
const LENGTHS: &[&str] =
    &["truncation", "truncate", "truncation_side", "truncation_direction", "max_length", "padding"];

const ONE_TEXT: InputFacts = input(TEXT, InputKind::One);
const ONE_IMAGE: InputFacts = input(IMAGE, InputKind::One);

const SCORES: &[OutputFacts] = &[output(SCORE, DataType::Fp32, &[Width::Any])];
const LABELS_AND_SCORES: &[OutputFacts] =
    &[output(LABEL, DataType::Bytes, &[Width::Any]), output(SCORE, DataType::Fp32, &[Width::Any])];
const CLASS_NUMBERS: OutputFacts = output(CLASS, DataType::Int64, &[Width::Any]);
const TOKENS_OF_ROW: OutputFacts = output(TOKENS, DataType::Int64, &[Width::Exactly(1)]);
const IS_CUT: OutputFacts = output(TRUNCATED, DataType::Bool, &[Width::Exactly(1)]);

const fn input(name: &'static str, kind: InputKind) -> InputFacts {
    InputFacts { name, kind }
}

const fn output(name: &'static str, dtype: DataType, shape: &'static [Width]) -> OutputFacts {
    OutputFacts { name, dtype, shape, of: None }
}

#[cfg(test)]
mod tests;
