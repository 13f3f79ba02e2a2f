//! What an input is answered, as plain values. How they look on a wire is no business of this crate.

use std::sync::Arc;

/// The answer to one input.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Classes, best first.
    Labels(Vec<Label>),
    /// The label of a text among candidates, best first.
    Candidates(Vec<Label>),
    /// The label of an image among candidates, best first.
    ImageCandidates(Vec<Label>),
    /// One vector.
    Embedding(Vec<f32>),
    /// One vector for each token.
    Features(Features),
    /// One number for each sentence, in the order of the sentences.
    Similarities(Vec<f32>),
    /// The texts of a ranking, best first.
    Ranking(Vec<Ranked>),
    /// The entities of a text, in their order.
    Entities(Vec<Entity>),
    /// Answers to a question, best first.
    Answers(Vec<Answer>),
    /// For each mask of the text what it may stand for, best first.
    Fills(Vec<Vec<Fill>>),
    /// The values above zero of a vector over the vocabulary, by index.
    Sparse(Vec<SparseEntry>),
    /// The vector of a whole image.
    Pooled(Vec<f32>),
    /// The vectors of an image and of a text, or of one of them; one of them for each of several texts.
    Towers(Vec<Towers>),
    /// The objects in an image.
    Objects(Objects),
    /// What is said in a sound.
    Transcript(String),
}

impl Reply {
    /// Names of classes, best first, or of the class of each object; none of other replies. `is_best_only`: of
    /// classes the first.
    pub fn labels(&self, is_best_only: bool) -> Vec<String> {
        if let Reply::Objects(objects) = self {
            return objects.found.iter().map(|it| it.label.as_ref().to_owned()).collect();
        }
        self.classes(is_best_only).iter().map(|it| it.label.as_ref().to_owned()).collect()
    }

    /// Numbers of classes, best first, or of the class of each object; none of other replies. `is_best_only`: of
    /// classes the first.
    pub fn class_numbers(&self, is_best_only: bool) -> Vec<usize> {
        match self {
            Reply::Objects(objects) => objects.found.iter().map(|it| it.class).collect(),
            _ => self.classes(is_best_only).iter().map(|it| it.class).collect(),
        }
    }

    /// The objects in an image; none of other replies.
    pub fn objects(&self) -> &[Object] {
        match self {
            Reply::Objects(objects) => &objects.found,
            _ => &[],
        }
    }

    /// Height and width of the image in which objects were found, as it was sent; zero of other replies.
    pub fn size(&self) -> [u32; 2] {
        match self {
            Reply::Objects(objects) => objects.size,
            _ => [0, 0],
        }
    }

    /// What is said in a sound; nothing of other replies.
    pub fn transcript(&self) -> &str {
        match self {
            Reply::Transcript(text) => text,
            _ => "",
        }
    }

    /// One number for each class, for each sentence, or for each text in the order of the request; none of other
    /// replies. `is_best_only`: of classes the first.
    pub fn scores(&self, is_best_only: bool) -> Vec<f32> {
        match self {
            Reply::Labels(_) | Reply::Candidates(_) | Reply::ImageCandidates(_) => {
                self.classes(is_best_only).iter().map(|it| it.score).collect()
            }
            Reply::Similarities(values) => values.clone(),
            Reply::Ranking(ranked) => {
                let mut scores = vec![0.0; ranked.len()];
                for it in ranked {
                    if let Some(score) = scores.get_mut(it.index) {
                        *score = it.score;
                    }
                }
                scores
            }
            Reply::Objects(objects) => objects.found.iter().map(|it| it.score).collect(),
            Reply::Embedding(_)
            | Reply::Pooled(_)
            | Reply::Features(_)
            | Reply::Entities(_)
            | Reply::Answers(_)
            | Reply::Fills(_)
            | Reply::Sparse(_)
            | Reply::Towers(_)
            | Reply::Transcript(_) => Vec::new(),
        }
    }

    /// The vector of a text or of an image; empty of other replies.
    pub fn embedding(&self) -> Vec<f32> {
        match self {
            Reply::Embedding(values) | Reply::Pooled(values) => values.clone(),
            Reply::Features(features) => features.pooled.clone(),
            _ => Vec::new(),
        }
    }

    /// The vectors of the images and of the texts; empty of other replies, and of what was not given.
    pub fn towers(&self) -> Towers {
        match self {
            Reply::Towers(rows) => rows.first().cloned().unwrap_or_default(),
            _ => Towers::default(),
        }
    }

    /// The replies that it is: one for each of several texts, else itself.
    pub fn apart(self) -> Vec<Reply> {
        match self {
            Reply::Towers(rows) => rows.into_iter().map(|it| Reply::Towers(vec![it])).collect(),
            other => vec![other],
        }
    }

    fn classes(&self, is_best_only: bool) -> &[Label] {
        match self {
            Reply::Labels(labels) if is_best_only => &labels[..labels.len().min(1)],
            // Candidates are what the client has named, so all of them are given.
            Reply::Labels(labels) | Reply::Candidates(labels) | Reply::ImageCandidates(labels) => {
                labels
            }
            _ => &[],
        }
    }
}

/// A class and its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// Name of the class.
    pub label: Arc<str>,
    /// Number of the class; of candidates their place in the request.
    pub class: usize,
    /// Its score.
    pub score: f32,
}

/// What the towers of a model for images and texts give; empty where there was no image, or no text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Towers {
    /// The vector of the image.
    pub image: Vec<f32>,
    /// The vector of the text.
    pub text: Vec<f32>,
}

/// The objects in an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects {
    /// Those of Ultralytics' models best first, those of queries in the order of these.
    pub found: Vec<Object>,
    /// Height and width of the image as it was sent.
    pub size: [u32; 2],
}

/// An object in an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Name of its class.
    pub label: Arc<str>,
    /// Number of its class.
    pub class: usize,
    /// Its score.
    pub score: f32,
    /// Left, top, right, bottom, in pixels of the image as it was sent.
    pub corners: [f32; 4],
}

/// Vectors of the tokens of a text, special ones included, or of the patches of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// Tokens.
    pub tokens: usize,
    /// Length of each vector.
    pub width: usize,
    /// The vectors one behind the other.
    pub values: Vec<f32>,
    /// The vector of a whole image; empty of a text, and where the graph gives none.
    pub pooled: Vec<f32>,
}

/// A text of a ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Its place among the texts of the request.
    pub index: usize,
    /// Its score.
    pub score: f32,
}

/// An entity: a token, or a group of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// The class: a label of the model for a token, a label without `B-` and `I-` for a group.
    pub label: Arc<str>,
    /// Its score.
    pub score: f32,
    /// Place of the token in the input; `None` for a group.
    pub index: Option<usize>,
    /// The text of the tokens as the tokenizer writes it.
    pub word: String,
    /// First character in the text.
    pub start: usize,
    /// Character behind the last.
    pub end: usize,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its score.
    pub score: f32,
    /// First character in the context.
    pub start: usize,
    /// Character behind the last.
    pub end: usize,
    /// The text between.
    pub answer: String,
}

/// What a mask may stand for.
#[derive(Debug, Clone, PartialEq)]
pub struct Fill {
    /// Its score.
    pub score: f32,
    /// Id of the token.
    pub token: u32,
    /// The token as text.
    pub token_str: String,
    /// The whole text with the token in the place of the mask.
    pub sequence: String,
}

/// One value of a sparse vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparseEntry {
    /// Id of the token.
    pub index: u32,
    /// Its weight.
    pub value: f32,
}
