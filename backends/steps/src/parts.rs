//! What a pipeline has, for its three calls.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    error::RowError,
    folder::{Config, Link, TokenizerConfig},
    head::embed::truncated,
    signature::{Inputs, Outputs},
    task::{Embedder, Plan, TaskHead},
    text::{Detail, Encode, TextLimits, Tokenizer},
};

/// What was decided when the pipeline was opened.
#[derive(Debug)]
pub(crate) struct Parts {
    /// What it is for.
    pub(crate) task: Plan,
    /// Text to tokens.
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// What the graph takes.
    pub(crate) inputs: Inputs,
    /// What is read of what it gives.
    pub(crate) outputs: Outputs,
    /// Bounds of one text.
    pub(crate) limits: TextLimits,
    /// Tokens with a meaning of their own.
    pub(crate) special: SpecialTokens,
    /// How many tokens of a text are those of its prompt, by prompt; empty where pooling does not leave them out.
    pub(crate) prompt_tokens: BTreeMap<String, usize>,
}

/// The tokens of each prompt, where the pooling of these leaves them out.
///
/// # Errors
/// When the tokenizer fails.
pub(crate) fn prompt_tokens(
    plan: &Plan,
    tokenizer: &Tokenizer,
) -> Result<BTreeMap<String, usize>, RowError> {
    let TaskHead::Embedder(embedder) = &plan.head else { return Ok(BTreeMap::new()) };
    if embedder.pooling.include_prompt {
        return Ok(BTreeMap::new());
    }
    let named = plan.prompts.named.iter().map(|(_, prompt)| prompt);
    let all = named.chain(&plan.prompts.default);
    all.map(|it| Ok((it.clone(), tokens_of_prompt(tokenizer, it)?))).collect()
}

/// Tokens of a prompt alone, less a special one at its end.
///
/// # Errors
/// When the tokenizer fails.
pub(crate) fn tokens_of_prompt(tokenizer: &Tokenizer, prompt: &str) -> Result<usize, RowError> {
    let how = Encode { add_special_tokens: true, detail: Detail::Ids, truncation: None };
    let ids = &tokenizer.encode(prompt, None, &how)?.windows[0].ids;
    let ends_special = ids.last().is_some_and(|&it| tokenizer.is_special(it));
    Ok(ids.len() - usize::from(ends_special))
}

/// Tokens with a meaning of their own, as the folder names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpecialTokens {
    /// For padding.
    pub(crate) pad: u32,
    /// For what the vocabulary does not have.
    pub(crate) unknown: Option<u32>,
    /// In front of a text.
    pub(crate) first: Option<u32>,
    /// For what a model fills in, and how it is written.
    pub(crate) mask: Option<(u32, String)>,
}

impl SpecialTokens {
    /// The tokens that the folder names, or that are usually called so.
    pub(crate) fn of(
        names: &TokenizerConfig,
        config: &Config,
        tokenizer: &Tokenizer,
    ) -> SpecialTokens {
        let named = |name: &Option<String>, usual: [&str; 2]| {
            let known = |name: &str| tokenizer.id(name).map(|id| (id, name.to_owned()));
            match name {
                Some(name) => known(name),
                None => usual.into_iter().find_map(known),
            }
        };
        let id = |token: &Option<String>| token.as_ref().and_then(|it| tokenizer.id(it));
        // Without a token for padding that for the end of a text stands in, as in the reference.
        let pad = id(&names.pad_token).or(config.pad_token_id).or_else(|| id(&names.eos_token));
        SpecialTokens {
            pad: pad.or(config.eos_token_id).unwrap_or(0),
            unknown: named(&names.unk_token, ["[UNK]", "<unk>"]).map(|it| it.0),
            first: named(&names.cls_token, ["[CLS]", "<s>"]).map(|it| it.0),
            mask: named(&names.mask_token, ["[MASK]", "<mask>"]),
        }
    }
}

impl Parts {
    /// Length of the vectors of an embedder, where the folder or the graph says it.
    pub(crate) fn dimensions(&self, embedder: &Embedder) -> Option<usize> {
        let kept = truncated(&embedder.chain).unwrap_or(usize::MAX);
        if self.outputs.vector.is_some() {
            return self.outputs.width.map(|it| it.min(kept));
        }
        let last = embedder.chain.iter().rev().find_map(Link::outputs);
        let width = embedder.pooling.width.or(self.outputs.width);
        let width = last.or(width.map(|it| it.saturating_mul(embedder.pooling.modes.len())));
        width.map(|it| it.min(kept))
    }
}
