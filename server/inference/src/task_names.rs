//! The names of a task's inputs, outputs and parameters, and what its inputs are.

/// The input that is one text for each row.
pub const TEXT: &str = "text";
/// The input that is a second text for each row.
pub const TEXT_PAIR: &str = "text_pair";
/// The input that is a text with which others are compared.
pub const SOURCE_SENTENCE: &str = "source_sentence";
/// The input that is the texts that are compared with it.
pub const SENTENCES: &str = "sentences";
/// The input by which texts are ranked.
pub const QUERY: &str = "query";
/// The input that is the texts that are ranked.
pub const TEXTS: &str = "texts";
/// The input that is a question.
pub const QUESTION: &str = "question";
/// The input that is the text in which its answer stands.
pub const CONTEXT: &str = "context";
/// The output that is the name of a class.
pub const LABEL: &str = "label";
/// The output that is a number for each class, sentence or text.
pub const SCORE: &str = "score";
/// The output that is what the pipeline says of a row, as JSON.
pub const RESULT: &str = "result";
/// The output that is the vector of a row.
pub const EMBEDDING: &str = "embedding";
/// The input that is token ids of the model's own tokenizer for each row, as a list in JSON.
pub const TOKEN_IDS: &str = "token_ids";
/// The output that is the number of tokens that a row has taken, given only where it is named.
pub const TOKENS: &str = "tokens";
/// The output that says whether a text of a row was cut, given only where it is named.
pub const TRUNCATED: &str = "truncated";
/// The input that is the bytes of an image file for each row.
pub const IMAGE: &str = "image";
/// The input that is the bytes of a sound file for each row.
pub const AUDIO: &str = "audio";
/// The output that is the vector of an image, of a model with a tower for images and one for texts.
pub const IMAGE_EMBEDS: &str = "image_embeds";
/// The output that is the vector of a text, of such a model.
pub const TEXT_EMBEDS: &str = "text_embeds";
/// The output that is the corners of each box: left, top, right, bottom, in pixels of the image as sent.
pub const BOX: &str = "box";
/// The output that is the number of the class of each box, and where it is named of each label.
pub const CLASS: &str = "class";
/// The output that says how many boxes of a row count, where the others fill it up to the row with the most.
pub const COUNT: &str = "count";
/// The output that is the height and the width of an image as it was sent, given only where it is named.
pub const SIZE: &str = "size";
/// The parameter that says how many classes are wanted.
pub const TOP_K: &str = "top_k";
/// Its older form.
pub const RETURN_ALL_SCORES: &str = "return_all_scores";
/// The parameter with the classes of a zero-shot classification.
pub const CANDIDATE_LABELS: &str = "candidate_labels";

/// What the inputs of a task are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Medium {
    /// Texts.
    Text,
    /// Image files.
    Image,
    /// Sound files.
    Audio,
}

impl Medium {
    /// What one of it is called.
    pub fn name(self) -> &'static str {
        match self {
            Medium::Text => "text",
            Medium::Image => "image",
            Medium::Audio => "sound",
        }
    }

    /// One of it, with its article, as in sentences.
    pub fn one(self) -> &'static str {
        match self {
            Medium::Text => "a text",
            Medium::Image => "an image",
            Medium::Audio => "a sound",
        }
    }

    /// Several of it, as in sentences.
    pub fn several(self) -> &'static str {
        match self {
            Medium::Text => "texts",
            Medium::Image => "images",
            Medium::Audio => "sounds",
        }
    }
}

/// What a request sends, as far as it is known.
pub fn sent(given: Option<Medium>) -> &'static str {
    given.map_or("texts, images or sounds", Medium::several)
}

/// What is wrong with a request for a task, to a model whose graph is served as it is.
pub fn takes_tensors(model: &str, given: Option<Medium>) -> String {
    format!("model '{model}' takes tensors, and no {}", sent(given))
}
