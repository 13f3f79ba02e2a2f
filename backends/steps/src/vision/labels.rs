//! The labels that a request names, as rows of the tower of a graph that takes texts.

use backend::{DataType, Filler, ModelSpec, NamedTensor, PaddingSide, Shape, Tensor};

use crate::{
    error::{FolderError, RowError},
    folder::Folder,
    hypothesis::Hypothesis,
    parts::SpecialTokens,
    request::{Function, Parameters},
    side::Side,
    signature::Inputs,
    step::{GraphInput, RowShape},
    task::{USUAL_LIMIT, smallest_limit},
    text::{Detail, Encode, TextLimits, Tokenizer, Truncation},
};

/// The sentence around a label where the request has none, as in the reference.
const TEMPLATE: &str = "This is a photo of {}.";

/// Tokens to which SigLIP's texts are cut and filled up, as in the reference.
const TOKENS_OF_SIGLIP: usize = 64;

/// Most labels of one run. A request with more runs its image again with the next ones.
const LABELS_OF_RUN: usize = 64;

/// How many tokens the texts of a run have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// As many as the longest.
    Longest,
    /// That many.
    Fixed(usize),
}

/// What makes rows of labels.
#[derive(Debug)]
pub(crate) struct LabelTexts {
    tokenizer: Tokenizer,
    /// The inputs of the graph that texts fill.
    inputs: Inputs,
    limits: TextLimits,
    length: Length,
    /// Are longer texts cut?
    cuts: bool,
    side: Side,
    /// Most labels of one run.
    at_once: usize,
    /// What makes scores of the logits.
    pub(crate) function: Function,
}

impl LabelTexts {
    /// From the files of a folder, and the inputs of its graph without those of the image. Reads `tokenizer.json`.
    /// Blocking: some 100 ms for a large vocabulary.
    ///
    /// # Errors
    /// When a file is missing or wrong, or the graph takes something that texts do not fill.
    pub(crate) fn open(folder: &Folder, texts: &ModelSpec) -> Result<LabelTexts, FolderError> {
        let (file, bytes) = folder.tokenizer_bytes()?;
        let tokenizer = Tokenizer::from_bytes(&bytes, &file, false)?;
        let special = SpecialTokens::of(&folder.tokenizer_config, &folder.config, &tokenizer);
        let inputs = Inputs::plan(texts, &folder.config, special.pad, &folder.graph)?;
        let longest = [folder.tokenizer_config.model_max_length, inputs.fixed_tokens];
        let longest = smallest_limit(&folder.config, longest).unwrap_or(USUAL_LIMIT);
        let is_siglip = folder.config.model_type.contains("siglip");
        let length = match (inputs.fixed_tokens, is_siglip) {
            (Some(fixed), _) => Length::Fixed(fixed),
            (None, true) => Length::Fixed(TOKENS_OF_SIGLIP.min(longest)),
            (None, false) => Length::Longest,
        };
        let tokens = match length {
            Length::Longest => longest,
            Length::Fixed(tokens) => tokens,
        };
        let bytes = folder.overrides.max_text_bytes.unwrap_or(TextLimits::DEFAULT_BYTES);
        let rows = texts.inputs.iter().filter_map(|it| it.dims.first().copied().flatten()).min();
        Ok(LabelTexts {
            tokenizer,
            inputs,
            limits: TextLimits { bytes, tokens },
            length,
            cuts: is_siglip,
            side: folder.tokenizer_config.padding_side.unwrap_or_default(),
            at_once: rows.unwrap_or(LABELS_OF_RUN),
            function: if is_siglip { Function::Sigmoid } else { Function::Softmax },
        })
    }

    /// The inputs of the graph that labels fill: all labels of a run at once.
    pub(crate) fn graph_inputs(&self) -> impl Iterator<Item = GraphInput> {
        let whole = |it: &GraphInput| GraphInput { shape: RowShape::Whole, ..it.clone() };
        self.inputs.inputs.iter().map(whole)
    }

    /// What was understood, as a part of a line.
    pub(crate) fn describe(&self) -> String {
        let (kind, vocabulary) = (self.tokenizer.kind(), self.tokenizer.vocabulary());
        let tokens = self.limits.tokens;
        format!("tokenizer {kind} {vocabulary}, at most {tokens} tokens")
    }

    /// Most bytes of the rows of so many labels.
    pub(crate) fn bytes(&self, labels: usize) -> usize {
        let of_label =
            self.inputs.inputs.len().saturating_mul(self.limits.tokens).saturating_mul(8);
        labels.saturating_mul(of_label)
    }

    /// Runs that so many labels take.
    pub(crate) fn runs(&self, labels: usize) -> usize {
        labels.div_ceil(self.at_once)
    }

    /// The labels of each run, in their order, as the inputs of [`LabelTexts::graph_inputs`].
    ///
    /// # Errors
    /// When there is no label or no place for one in the sentence, or a sentence is too long.
    pub(crate) fn rows(
        &self,
        labels: &[&str],
        parameters: &Parameters,
    ) -> Result<Vec<Vec<NamedTensor>>, RowError> {
        let wrong = |name: &str, problem: &str| RowError::Parameter {
            name: name.to_owned(),
            problem: problem.to_owned(),
        };
        if labels.is_empty() {
            return Err(wrong("candidate_labels", "at least one label is needed"));
        }
        let hypothesis = Hypothesis::of(parameters, TEMPLATE, self.limits)?;
        let encode = |(at, label): (usize, &&str)| {
            let row = self.row(&hypothesis.about(label), self.cuts);
            row.map_err(|error| match error {
                RowError::TooManyTokens { given, allowed } => {
                    let number = at + 1;
                    let problem = format!("the sentence with label {number} has {given} tokens, the model takes {allowed}");
                    wrong("candidate_labels", &problem)
                }
                other => other.in_list("label", at, labels.len()),
            })
        };
        let rows = labels.iter().enumerate().map(encode).collect::<Result<Vec<_>, _>>()?;
        self.runs_of(&rows)
    }

    /// Texts as they are: the inputs of each run, and how many texts it has.
    ///
    /// # Errors
    /// When one is too long, unless `cuts`.
    pub(crate) fn runs_of_texts(
        &self,
        texts: &[&str],
        cuts: bool,
    ) -> Result<Vec<(Vec<NamedTensor>, usize)>, RowError> {
        let encode = |(at, text): (usize, &&str)| {
            self.row(text, cuts || self.cuts).map_err(|error| match texts.len() {
                1 => error,
                all => error.in_list("text", at, all),
            })
        };
        let rows = texts.iter().enumerate().map(encode).collect::<Result<Vec<_>, _>>()?;
        let lengths = texts.chunks(self.at_once).map(<[&str]>::len);
        Ok(self.runs_of(&rows)?.into_iter().zip(lengths).collect())
    }

    /// Sentences and their lengths as the inputs of each run.
    fn runs_of(
        &self,
        rows: &[(Vec<NamedTensor>, usize)],
    ) -> Result<Vec<Vec<NamedTensor>>, RowError> {
        let longest = rows.iter().map(|it| it.1).max().unwrap_or(0);
        let length = match self.length {
            Length::Longest => longest,
            Length::Fixed(tokens) => tokens,
        };
        rows.chunks(self.at_once).map(|it| self.together(it, length)).collect()
    }

    /// One sentence as the inputs of the graph, and its length. A long one is cut if `cuts`.
    fn row(&self, text: &str, cuts: bool) -> Result<(Vec<NamedTensor>, usize), RowError> {
        let truncation = cuts.then(|| Truncation::right(self.limits.tokens));
        let text = self.limits.apply(text, truncation.map(|it| it.side))?;
        let how = Encode { add_special_tokens: true, detail: Detail::Ids, truncation };
        let encoding = self.tokenizer.encode(text, None, &how)?;
        let allowed = self.limits.tokens;
        if truncation.is_none() && allowed < encoding.given {
            return Err(RowError::TooManyTokens { given: encoding.given, allowed });
        }
        let window = &encoding.windows[0];
        Ok((self.inputs.row(window)?, window.ids.len()))
    }

    /// Sentences below each other, filled up to `length`.
    fn together(
        &self,
        rows: &[(Vec<NamedTensor>, usize)],
        length: usize,
    ) -> Result<Vec<NamedTensor>, RowError> {
        let lost = || RowError::Input("the labels have lost their shape".to_owned());
        let fill = |(at, input): (usize, &GraphInput)| {
            let parts = rows.iter().map(|(row, _)| {
                let tensor = row.get(at)?.tensor.clone();
                let shape = std::iter::once(1).chain(tensor.shape().dims().iter().copied());
                let shape: Shape = shape.collect();
                tensor.reshape(shape)
            });
            let parts: Vec<Tensor> = parts.collect::<Option<_>>()?;
            let tensor = match input.shape {
                RowShape::Tokens { pad } => {
                    self.filler(input.dtype, pad)?.concat(&parts, length)?
                }
                RowShape::Fixed(_) | RowShape::Varying | RowShape::Whole => Tensor::concat(&parts)?,
            };
            Some(NamedTensor { name: input.name.clone(), tensor })
        };
        let filled = self.inputs.inputs.iter().enumerate().map(fill);
        filled.collect::<Option<_>>().ok_or_else(lost)
    }

    fn filler(&self, dtype: DataType, pad: i64) -> Option<Filler> {
        let side = match self.side {
            Side::Left => PaddingSide::Left,
            Side::Right => PaddingSide::Right,
        };
        Filler::new(dtype, pad, side)
    }
}
