//! Texts to rows of the graph, as the parameters of a request want them.

use audio::StillWanted;

use crate::{
    context::{Work, WorkKind},
    error::RowError,
    parts::Parts,
    request::Parameters,
    side::Side,
    step::Row,
    text::{Detail, Encode, Encoded, Encoding, Strategy, TextLimits, Truncation},
};

/// How the texts of one input become rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Texts<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) parameters: &'a Parameters,
    /// How texts that are too long are cut; `None`: they are refused.
    truncation: Option<Truncation>,
    /// Bounds of one text.
    limits: TextLimits,
}

/// Fails where an input is not wanted any more.
///
/// # Errors
/// [`RowError::Stopped`].
pub(crate) fn still(wanted: StillWanted<'_>) -> Result<(), RowError> {
    if wanted() { Ok(()) } else { Err(RowError::Stopped) }
}

impl<'a> Texts<'a> {
    /// `truncates`: are texts cut where neither the request nor the folder says?
    pub(crate) fn new(parts: &'a Parts, parameters: &'a Parameters, truncates: bool) -> Texts<'a> {
        // As in the reference, a length of the request's own asks for cutting, unless padding was asked for.
        let has_length = parameters.max_length.is_some() && !parameters.has_padding;
        let usual = parts.task.truncate.unwrap_or(truncates) || has_length;
        let truncates = parameters.truncate.unwrap_or(usual);
        let most = parts.task.max_tokens;
        let max_length =
            parameters.max_length.filter(|_| truncates).map_or(most, |it| it.min(most));
        let side = parameters.truncation_side.unwrap_or(parts.task.truncation_side);
        let truncation = Truncation { side, ..Truncation::right(max_length) };
        let limits = TextLimits { tokens: max_length, ..parts.limits };
        Texts { parts, parameters, truncation: truncates.then_some(truncation), limits }
    }

    /// The tokens of a text or a pair, of which there are not too many.
    ///
    /// # Errors
    /// When it is too long and not to be cut, or the tokenizer fails.
    pub(crate) fn encode(
        &self,
        text: &str,
        pair: Option<&str>,
        strategy: Strategy,
        detail: Detail,
    ) -> Result<Encoding, RowError> {
        let side = self.truncation.map(|it| it.side);
        let text = self.limits.apply(text, side)?;
        let pair = pair.map(|it| self.limits.apply(it, side)).transpose()?;
        let how = self.how(strategy, detail);
        self.checked(self.parts.tokenizer.encode(text, pair, &how)?)
    }

    /// The tokens of a text with each of several others, the text being split only once. Of the others one is held at
    /// a time. `what` they are, for errors.
    ///
    /// # Errors
    /// Those of [`Texts::encode`], with the place of the other text. [`RowError::Stopped`] where they are not `wanted`
    /// any more, which is asked for each of the others.
    pub(crate) fn encode_pairs(
        &self,
        text: &str,
        others: impl ExactSizeIterator<Item = impl AsRef<str>>,
        strategy: Strategy,
        what: &'static str,
        wanted: StillWanted<'_>,
    ) -> Result<Vec<Encoding>, RowError> {
        let side = self.truncation.map(|it| it.side);
        let how = self.how(strategy, Detail::Ids);
        let text = self.limits.apply(text, side)?;
        let first = self.parts.tokenizer.first_of_pairs(text, &how)?;
        let count = others.len();
        let pair = |(at, other)| {
            still(wanted)?;
            let encode = || {
                let other = self.limits.apply(AsRef::<str>::as_ref(&other), side)?;
                self.checked(self.parts.tokenizer.encode_pair(&first, other, &how)?)
            };
            encode().map_err(|it| it.in_list(what, at, count))
        };
        others.enumerate().map(pair).collect()
    }

    /// The same of token ids.
    ///
    /// # Errors
    /// When there are too many and they are not to be cut, or one is not in the vocabulary.
    pub(crate) fn encode_ids(&self, ids: &[u32]) -> Result<Encoding, RowError> {
        // Nothing is made of ids that are not to be cut.
        if self.truncation.is_none() && ids.len() > self.limits.tokens {
            return Err(RowError::TooManyTokens { given: ids.len(), allowed: self.limits.tokens });
        }
        let how = self.how(Strategy::LongestFirst, Detail::Ids);
        self.checked(self.parts.tokenizer.encode_ids(ids, &how)?)
    }

    fn how(&self, strategy: Strategy, detail: Detail) -> Encode {
        let strategy = self.parameters.truncation_strategy.unwrap_or(strategy);
        let truncation = self.truncation.map(|it| Truncation { strategy, ..it });
        let add_special_tokens = self.parameters.add_special_tokens.unwrap_or(true);
        Encode { add_special_tokens, detail, truncation }
    }

    fn checked(&self, encoding: Encoding) -> Result<Encoding, RowError> {
        let (given, allowed) = (encoding.given, self.limits.tokens);
        match self.truncation.is_none() && given > allowed {
            true => Err(RowError::TooManyTokens { given, allowed }),
            false => Ok(encoding),
        }
    }

    /// The beginning of a text of a ranking: as many of its own tokens as the request keeps.
    ///
    /// # Errors
    /// When it is too long and not to be cut, or the tokenizer fails.
    pub(crate) fn beginning<'t>(&self, text: &'t str) -> Result<&'t str, RowError> {
        let Some(most) = self.parameters.max_tokens_per_text else { return Ok(text) };
        let limits = TextLimits { tokens: most, ..self.parts.limits };
        let text = limits.apply(text, Some(Side::Right))?;
        let truncation = Some(Truncation::right(most));
        let how = Encode { add_special_tokens: false, detail: Detail::Bytes, truncation };
        let encoding = self.parts.tokenizer.encode(text, None, &how)?;
        if !encoding.is_cut() {
            return Ok(text);
        }
        let end = encoding.windows[0].offsets.last().map_or(0, |it| it.1);
        Ok(&text[..text.floor_char_boundary(end)])
    }

    /// The only window of an encoding as a row.
    ///
    /// # Errors
    /// When it has no tokens.
    pub(crate) fn only_row(&self, encoding: &Encoding, work: WorkKind) -> Result<Row, RowError> {
        self.row(&encoding.windows[0], encoding.is_cut(), work)
    }

    /// Tokens as a row.
    ///
    /// # Errors
    /// When there are none.
    pub(crate) fn row(
        &self,
        tokens: &Encoded,
        is_truncated: bool,
        work: WorkKind,
    ) -> Result<Row, RowError> {
        let inputs = self.parts.inputs.row(tokens)?;
        Ok(Row { inputs, tokens: tokens.ids.len(), is_truncated, work: Work(work) })
    }
}
