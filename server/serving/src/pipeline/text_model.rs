//! What a model that takes texts says of itself, and what its tokenizer does for those who ask nothing else of it.

use std::sync::Arc;

use backend::DataType;

use super::{elsewhere::Effort, open::ServedPipeline, pace::AT_ONCE, row_error::of_input};
use crate::served::ServedModel;
use inference::{
    error::Error,
    limits::Permit,
    task::{Medium, Task},
};
use schedule::prepare::CancelToken;
use steps::{Step, TaskHead, TextPipeline, TextToken, Tokenizing};

/// Most tokens of one reply: each takes some hundred bytes.
const MOST_TOKENS: usize = 1 << 20;

/// A model that takes texts.
#[derive(Clone, Copy)]
pub struct TextModel<'a> {
    pipeline: &'a ServedPipeline,
    text: &'a Arc<TextPipeline>,
}

/// How texts become tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizeOptions {
    /// Are special tokens added?
    pub add_special_tokens: bool,
    /// The name of the prompt in front of each text; `None`: the usual one, an empty name: none.
    pub prompt_name: Option<String>,
}

impl ServedModel {
    /// What it says of itself as a model that takes texts; `None` where it takes none.
    pub fn text_model(&self) -> Option<TextModel<'_>> {
        let pipeline = self.pipeline.as_deref()?;
        pipeline.steps.text().map(|text| TextModel { pipeline, text })
    }
}

impl<'a> TextModel<'a> {
    /// What its folder is for.
    pub fn task(self) -> Task {
        self.text.task().name
    }

    /// How token vectors become the vector of a text: names as `mean`, with `+` between several. `None` where it makes
    /// no vectors, or its graph makes them.
    pub fn pooling(self) -> Option<String> {
        let TaskHead::Embedder(embedder) = &self.text.task().head else { return None };
        let is_pooled = self.text.own_vector().is_none();
        is_pooled.then(|| embedder.pooling.name())
    }

    /// Names of its classes, in their order; none where it has no classes.
    pub fn labels(self) -> &'a [Arc<str>] {
        let classes = self.text.task().head.classes();
        classes.map_or(&[], |it| &it.labels)
    }

    /// Length of its vectors, where it makes any and the folder or the graph says it.
    pub fn dimensions(self) -> Option<usize> {
        self.text.dimensions()
    }

    /// Names of the prompts that may stand in front of a text.
    pub fn prompts(self) -> impl Iterator<Item = &'a str> {
        self.text.task().prompts.named.iter().map(|(name, _)| name.as_str())
    }

    /// Most tokens of an input, special ones included.
    pub fn most_tokens(self) -> usize {
        self.text.max_tokens()
    }

    /// Most rows of one run, and most of their tokens, padding included.
    pub fn most_of_run(self) -> (usize, usize) {
        match self.pipeline.rows.bounds {
            Some(bounds) => (bounds.rows, bounds.tokens),
            None => {
                let rows = self.pipeline.graph.max_batch_size;
                (rows, self.most_tokens().saturating_mul(rows.max(1)))
            }
        }
    }

    /// Most texts of one request.
    pub fn most_texts(self) -> usize {
        self.pipeline.config.max_batch_size
    }

    /// The type that its graph computes with, as far as its outputs show it.
    pub fn dtype(self) -> DataType {
        let read = |name: &str| self.pipeline.graph.output(name).map(|it| it.dtype);
        let mut types = self.pipeline.steps.outputs().iter().filter_map(|it| read(&it.name));
        types.next().unwrap_or(DataType::Fp32)
    }

    /// The tokens of each text, none of which is cut. `permit` covers both, and comes back once the texts are gone.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] when there are too many texts or tokens, a text is too long, no prompt has this name,
    /// or the tokenizer fails.
    ///
    /// # Cancel safety
    /// Dropping the future ends the work after the text that it is at.
    pub async fn tokenize(
        self,
        texts: Vec<String>,
        options: TokenizeOptions,
        permit: Permit,
    ) -> Result<(Vec<Vec<TextToken>>, Permit), Error> {
        self.check_texts(texts.len())?;
        let is_short = self.pipeline.pace.is_short(texts.iter().map(String::len).sum());
        let steps = self.text.clone();
        let work = move |wanted: &CancelToken| {
            let TokenizeOptions { add_special_tokens, prompt_name } = &options;
            let prompt_name = prompt_name.as_deref();
            let how = Tokenizing { add_special_tokens: *add_special_tokens, prompt_name };
            let (mut all, mut count) = (Vec::with_capacity(texts.len()), 0);
            for (at, text) in texts.iter().enumerate() {
                wanted.check()?;
                let tokens = steps.tokenize(text, &how);
                let tokens = tokens.map_err(|it| of_input(Medium::Text, at, texts.len(), &it))?;
                count += tokens.len();
                check_tokens(count)?;
                all.push(tokens);
            }
            Ok((all, permit))
        };
        self.pipeline.work(Effort::short_if(is_short), None, work).await
    }

    /// The text of each list of token ids. `permit` covers both, and comes back once the lists are gone.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] when there are too many lists or ids, an id is beyond the vocabulary, or the tokenizer
    /// fails.
    ///
    /// # Cancel safety
    /// As of [`TextModel::tokenize`].
    pub async fn decode(
        self,
        lists: Vec<Vec<u32>>,
        skip_special_tokens: bool,
        permit: Permit,
    ) -> Result<(Vec<String>, Permit), Error> {
        self.check_texts(lists.len())?;
        let count = lists.iter().map(Vec::len).sum();
        check_tokens(count)?;
        let is_short = count.saturating_mul(size_of::<u32>()) < AT_ONCE;
        let steps = self.text.clone();
        let work = move |wanted: &CancelToken| {
            let tokenizer = steps.tokenizer();
            let text = |(at, ids): (usize, &Vec<u32>)| {
                wanted.check()?;
                let text = tokenizer.decode_known(ids, skip_special_tokens);
                text.map_err(|it| of_input(Medium::Text, at, lists.len(), &it))
            };
            let texts: Result<_, Error> = lists.iter().enumerate().map(text).collect();
            Ok((texts?, permit))
        };
        self.pipeline.work(Effort::short_if(is_short), None, work).await
    }

    fn check_texts(self, given: usize) -> Result<(), Error> {
        let most = self.most_texts();
        if given <= most {
            return Ok(());
        }
        Err(Error::TooManyInputs { given, most })
    }
}

fn check_tokens(given: usize) -> Result<(), Error> {
    if given <= MOST_TOKENS {
        return Ok(());
    }
    Err(Error::InvalidRequest(format!(
        "the texts of the request have {given} tokens or more, at most {MOST_TOKENS} are given in one reply; send \
         fewer texts at once"
    )))
}
