//! One input of a request, and what a request may say about how it is answered.

use crate::{side::Side, text};

/// One input: what gives one reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Input<'a> {
    /// One text.
    Text(&'a str),
    /// Two texts: those of a text classifier or a cross-encoder; question and context.
    Pair(&'a str, &'a str),
    /// Token ids of the model's own tokenizer. Special tokens are added where none is there.
    Ids(&'a [u32]),
    /// A text and the labels that it may have.
    Candidates(&'a str, &'a [&'a str]),
    /// A sentence, and those that are compared with it.
    Sentences(&'a str, &'a [&'a str]),
    /// A query, and the texts that are ranked by it.
    Ranking(&'a str, &'a [&'a str]),
    /// The bytes of a file: an image, or a sound.
    File(&'a [u8]),
    /// An image, and the labels that it may have.
    FileCandidates(&'a [u8], &'a [&'a str]),
    /// An image and a text whose vectors are wanted, or an image without a text, or any number of texts without an
    /// image.
    FileTexts(Option<&'a [u8]>, &'a [&'a str]),
}

/// Bytes that a tokenizer takes for each byte of a text while it makes tokens of it: the text in two forms, where each
/// of its characters came from, and the tokens, of which each byte may be one.
const OF_A_BYTE: usize = 96;

/// Bytes of a token in a row: an id, a mask and a type.
const OF_A_TOKEN: usize = 24;

/// Tokens that a text is read for are at most one for so many characters.
const BYTES_OF_TOKEN: usize = 250;

impl Input<'_> {
    /// Most bytes that its tokens take at one time, in rows of so many at most: those of its longest text while they
    /// are made, and all rows.
    pub(crate) fn bytes_of_tokens(&self, most_tokens: usize) -> usize {
        let (first, others): (usize, &[&str]) = match self {
            Input::Text(text) => (text.len(), &[]),
            Input::Pair(text, other) => (text.len().saturating_add(other.len()), &[]),
            Input::Ids(ids) => return ids.len().saturating_mul(OF_A_TOKEN),
            Input::Candidates(text, others)
            | Input::Sentences(text, others)
            | Input::Ranking(text, others) => (text.len(), others),
            Input::File(_) => (0, &[]),
            Input::FileCandidates(_, others) | Input::FileTexts(_, others) => (0, others),
        };
        let longest = others.iter().map(|it| it.len()).max().unwrap_or(0);
        let read = first.saturating_add(longest).min(most_tokens.saturating_mul(BYTES_OF_TOKEN));
        let rows = others.iter().map(|it| it.len().saturating_add(first).min(most_tokens));
        let tokens = rows.fold(first.min(most_tokens), usize::saturating_add);
        read.saturating_mul(OF_A_BYTE).saturating_add(tokens.saturating_mul(OF_A_TOKEN))
    }
}

/// How many classes a reply has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TopK {
    /// Nothing was said: what the task has by default.
    #[default]
    Default,
    /// All of them: `null`.
    All,
    /// The best.
    Best(usize),
}

impl TopK {
    /// Is the reply of a classifier its best class by itself, and no list of classes?
    pub fn is_best_only(self) -> bool {
        self == TopK::Default
    }
}

/// What turns logits into scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Scores that sum to one.
    Softmax,
    /// Each score between 0 and 1 by itself.
    Sigmoid,
    /// The logits as they are.
    None,
}

impl Function {
    /// The name in requests and files.
    pub fn name(self) -> &'static str {
        match self {
            Function::Softmax => "softmax",
            Function::Sigmoid => "sigmoid",
            Function::None => "none",
        }
    }

    /// The function of that name; case does not matter, as it does not in the reference.
    pub fn from_name(name: &str) -> Option<Function> {
        [Function::Softmax, Function::Sigmoid, Function::None]
            .into_iter()
            .find(|it| it.name().eq_ignore_ascii_case(name))
    }
}

/// How the tokens of a text become entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Each token by itself.
    #[default]
    None,
    /// Each token its best class, then groups.
    Simple,
    /// The class of a word's first token.
    First,
    /// The class of the token with the highest score.
    Max,
    /// The best class of the mean of a word's scores.
    Average,
}

impl Strategy {
    /// All of them, in the order of their declaration.
    pub const ALL: [Strategy; 5] =
        [Strategy::None, Strategy::Simple, Strategy::First, Strategy::Max, Strategy::Average];

    /// The name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::None => "none",
            Strategy::Simple => "simple",
            Strategy::First => "first",
            Strategy::Max => "max",
            Strategy::Average => "average",
        }
    }

    /// The strategy of that name; case does not matter.
    pub fn from_name(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }
}

/// How two vectors are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Similarity {
    /// The cosine of their angle.
    #[default]
    Cosine,
    /// Their dot product.
    Dot,
    /// Their distance, negated.
    Euclidean,
    /// The sum of the distances in each dimension, negated.
    Manhattan,
}

impl Similarity {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Similarity::Cosine => "cosine",
            Similarity::Dot => "dot",
            Similarity::Euclidean => "euclidean",
            Similarity::Manhattan => "manhattan",
        }
    }

    /// The function of that name. sentence-transformers also says `dot_score` and `cos_sim`.
    pub fn from_name(name: &str) -> Option<Similarity> {
        match name {
            "cosine" | "cos_sim" => Some(Similarity::Cosine),
            "dot" | "dot_score" => Some(Similarity::Dot),
            "euclidean" => Some(Similarity::Euclidean),
            "manhattan" => Some(Similarity::Manhattan),
            _ => None,
        }
    }
}

/// What a request says about how its inputs are answered. Each task heeds its own and passes over the others;
/// `None` and `Default` stand for what the folder or the task has by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parameters {
    /// Is a text that is too long cut? `None`: as is usual for the task.
    pub truncate: Option<bool>,
    /// Which of two texts is cut. `None`: as is usual for the task.
    pub truncation_strategy: Option<text::Strategy>,
    /// Which end is cut.
    pub truncation_side: Option<Side>,
    /// A limit below that of the model, special tokens included.
    pub max_length: Option<usize>,
    /// Was padding asked for? No answer depends on it, but then `max_length` alone does not cut, as in the
    /// reference.
    pub has_padding: bool,
    /// Are special tokens added? `None`: yes.
    pub add_special_tokens: Option<bool>,
    /// How many classes, mask fills or answers.
    pub top_k: TopK,
    /// What turns logits into scores.
    pub function: Option<Function>,
    /// Are scores of a ranking and of `/predict` the logits? `None`: as the route and the folder say.
    pub raw_scores: Option<bool>,
    /// Tokens that are kept of each text of a ranking, before it is paired with the query.
    pub max_tokens_per_text: Option<usize>,
    /// Is a sentence vector brought to length one? `None`: yes.
    pub normalize: Option<bool>,
    /// The first dimensions only, cut before normalizing.
    pub dimensions: Option<usize>,
    /// The name of the prompt in front of the text. An empty name: no prompt.
    pub prompt_name: Option<String>,
    /// How sentences are compared.
    pub similarity: Option<Similarity>,
    /// How tokens become entities.
    pub strategy: Strategy,
    /// Tags that are no entities. `None`: `O`.
    pub ignore_labels: Option<Vec<String>>,
    /// Tokens that two windows of a long text share.
    pub stride: Option<usize>,
    /// The only words that a mask may stand for.
    pub targets: Option<Vec<String>>,
    /// The sentence around a candidate label, with `{}` in its place.
    pub hypothesis_template: Option<String>,
    /// May a text have several of the candidate labels?
    pub multi_label: bool,
    /// Question answering.
    pub answer: AnswerParameters,
    /// Object detection.
    pub detection: DetectionParameters,
    /// Is the vector of the whole image wanted, and not one for each of its patches?
    pub pool: bool,
}

/// What a request may say about the objects in an image. `None` stands for what the folder or the head has by default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DetectionParameters {
    /// Objects with a lower score are left out.
    pub threshold: Option<f32>,
    /// Of two boxes of one class that overlap by more than this part, the one with the lower score is left out.
    pub iou: Option<f32>,
    /// Most objects of one image.
    pub most: Option<usize>,
    /// Do boxes of different classes displace each other?
    pub agnostic: Option<bool>,
}

/// What a request may say about the answers to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerParameters {
    /// Tokens that two windows share. `None`: half of the longest window, at most 128.
    pub doc_stride: Option<usize>,
    /// Tokens of a window. `None`: 384 or the model's limit.
    pub max_seq_len: Option<usize>,
    /// Tokens that are kept of the question.
    pub max_question_len: usize,
    /// Tokens of the longest answer.
    pub max_answer_len: usize,
    /// Is "no answer" one of the answers?
    pub handle_impossible_answer: bool,
    /// Do answers begin and end with whole words?
    pub align_to_words: bool,
}

impl Default for AnswerParameters {
    fn default() -> AnswerParameters {
        AnswerParameters {
            doc_stride: None,
            max_seq_len: None,
            max_question_len: 64,
            max_answer_len: 15,
            handle_impossible_answer: false,
            align_to_words: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_a_text_take_its_bytes_many_times_and_rows_no_more_than_they_have() {
        let text = "a".repeat(1000);
        assert_eq!(Input::Text(&text).bytes_of_tokens(2000), 96_000 + 24_000);
        assert_eq!(Input::Text(&text).bytes_of_tokens(2), 48_000 + 48, "it is read up to there");
        let others = [&*text; 10];
        let ranked = Input::Ranking("who", &others).bytes_of_tokens(512);
        assert_eq!(ranked, 1003 * 96 + (3 + 10 * 512) * 24);
        assert_eq!(Input::File(b"RIFF").bytes_of_tokens(512), 0);
    }
}
