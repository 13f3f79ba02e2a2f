//! A tokenizer, and what the files beside it say of its tokens and limits.

use std::sync::Arc;

use backend::BackendError;

use super::{files, settings::StepSettings};
use crate::{
    error::FolderError,
    folder::{
        Config, TokenizerConfig,
        document::{Document, read_bytes},
    },
    parts::SpecialTokens,
    text::Tokenizer,
};

/// The parameter that names the tokenizer.
pub(super) const FILE: &str = "file";

/// A tokenizer, and what belongs to it.
pub(super) struct Vocabulary {
    pub(super) tokenizer: Arc<Tokenizer>,
    /// `tokenizer_config.json` and `special_tokens_map.json`, where they are there.
    pub(super) names: TokenizerConfig,
    /// `config.json`, where it is there.
    pub(super) config: Config,
    pub(super) special: SpecialTokens,
}

/// The tokenizer that the parameter names. With `lower_case` texts are made lower-case first.
///
/// # Errors
/// When it is missing, or it or a file beside it is wrong.
pub(super) fn open(
    settings: &StepSettings<'_>,
    lower_case: bool,
) -> Result<Vocabulary, BackendError> {
    let place = files::required(settings, FILE)?;
    let read = || -> Result<Vocabulary, FolderError> {
        let bytes = read_bytes(&place.dir, &place.name)?.unwrap_or_default();
        let tokenizer = Tokenizer::from_bytes(&bytes, &place.name, lower_case)?;
        let file = Document::read(&place.dir, "tokenizer_config.json")?;
        let map = Document::read(&place.dir, "special_tokens_map.json")?;
        let names = TokenizerConfig::from_documents(file.as_ref(), map.as_ref())?;
        let config = Document::read(&place.dir, "config.json")?;
        let config = config.as_ref().map(Config::from_document).transpose()?.unwrap_or_default();
        let special = SpecialTokens::of(&names, &config, &tokenizer);
        Ok(Vocabulary { tokenizer: Arc::new(tokenizer), names, config, special })
    };
    read().map_err(|error| settings.wrong(FILE, error))
}
