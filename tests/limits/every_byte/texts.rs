//! Bodies with texts, for pipelines, at the addresses of several servers of texts.

use super::random::Random;

/// A model that makes vectors of texts, and one that ranks texts.
pub const VECTORS: &str = "st-6";
pub const RANKS: &str = "rerank";

/// Most bytes of the texts of one body, in the mean.
const MOST: usize = 4 << 20;

/// What may be asked of texts.
#[derive(Debug, Clone, Copy)]
pub enum Question {
    Embed,
    Embeddings,
    Tokenize,
    Rerank,
}

impl Question {
    pub const ALL: [Question; 4] =
        [Question::Embed, Question::Embeddings, Question::Tokenize, Question::Rerank];

    /// The address. One that names no model leaves the choice to the server, which reads the body before.
    pub fn path(self, names_model: bool) -> String {
        let (model, place) = match self {
            Question::Embed => (VECTORS, "embed"),
            Question::Embeddings => (VECTORS, "v1/embeddings"),
            Question::Tokenize => (VECTORS, "tokenize"),
            Question::Rerank => (RANKS, "rerank"),
        };
        match (names_model, self) {
            (false, Question::Embed | Question::Embeddings | Question::Rerank) => {
                format!("/{place}")
            }
            // Both models have a tokenizer.
            (true, _) | (false, Question::Tokenize) => format!("/v2/models/{model}/{place}"),
        }
    }

    /// A body with these texts.
    pub fn body(self, texts: &[&str]) -> String {
        let list = texts.join("\",\"");
        match self {
            Question::Embed => format!(r#"{{"inputs":["{list}"],"truncate":true}}"#),
            Question::Embeddings => format!(r#"{{"input":["{list}"],"model":"{VECTORS}"}}"#),
            Question::Tokenize => format!(r#"{{"inputs":["{list}"]}}"#),
            Question::Rerank => {
                format!(r#"{{"query":"a film","texts":["{list}"],"truncate":true}}"#)
            }
        }
    }
}

/// The path and the body of a question, with as many texts of such lengths as chance has it.
pub fn question(random: &mut Random) -> (String, String) {
    let question = Question::ALL[random.below(Question::ALL.len())];
    let longest = random.size(14);
    let count = random.size(13).min(1 + 2 * MOST / longest);
    let words = "so happy a film, that sad night ".repeat(1 + longest / 32);
    let texts: Vec<&str> = (0..count).map(|_| &words[..1 + random.below(longest)]).collect();
    (question.path(random.below(2) == 0), question.body(&texts))
}
