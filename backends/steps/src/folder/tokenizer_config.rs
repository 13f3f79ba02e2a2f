//! `tokenizer_config.json` and `special_tokens_map.json`: limits, sides and special tokens.

use serde_json::Value;

use super::document::Document;
use crate::{error::FolderError, side::Side};

/// What the two files say. The first goes before the second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenizerConfig {
    /// Most tokens of an input, special ones included.
    pub model_max_length: Option<usize>,
    /// Where padding stands.
    pub padding_side: Option<Side>,
    /// Which end of a text is cut.
    pub truncation_side: Option<Side>,
    /// The token for padding.
    pub pad_token: Option<String>,
    /// The token that a model fills in.
    pub mask_token: Option<String>,
    /// The token for what the vocabulary does not have.
    pub unk_token: Option<String>,
    /// The token in front of a text.
    pub cls_token: Option<String>,
    /// The token at the end of a text.
    pub eos_token: Option<String>,
}

/// Lengths above mean that there is no limit: transformers writes 10^30.
const NO_LIMIT: f64 = 1e20;

impl TokenizerConfig {
    /// From the two files, either of which may be missing.
    ///
    /// # Errors
    /// When a key has a value that it cannot have.
    pub(crate) fn from_documents(
        config: Option<&Document>,
        map: Option<&Document>,
    ) -> Result<TokenizerConfig, FolderError> {
        let token = |key: &str| -> Result<Option<String>, FolderError> {
            let both = [config, map].into_iter().flatten().filter(|it| it.get(key).is_some());
            // Both are read, so that what is wrong is said although the other file goes before it.
            let read: Vec<String> =
                both.map(|it| special_token(it, key)).collect::<Result<_, _>>()?;
            Ok(read.into_iter().next())
        };
        let mut result = TokenizerConfig {
            pad_token: token("pad_token")?,
            mask_token: token("mask_token")?,
            unk_token: token("unk_token")?,
            cls_token: token("cls_token")?,
            eos_token: token("eos_token")?,
            ..TokenizerConfig::default()
        };
        if let Some(config) = config {
            let length = config.number("model_max_length")?.filter(|&it| it <= NO_LIMIT);
            result.model_max_length = length.map(|it| it.max(0.0) as usize);
            result.padding_side = side(config, "padding_side")?;
            result.truncation_side = side(config, "truncation_side")?;
        }
        Ok(result)
    }
}

fn side(document: &Document, key: &str) -> Result<Option<Side>, FolderError> {
    let Some(name) = document.text(key)? else { return Ok(None) };
    let wrong = || document.error(key, format!("'{name}' is neither left nor right"));
    Side::from_name(name).map(Some).ok_or_else(wrong)
}

/// A token is written as text, or as an object with `content`.
fn special_token(document: &Document, key: &str) -> Result<String, FolderError> {
    let value = document.get(key).and_then(|it| match it {
        Value::Object(keys) => keys.get("content").and_then(Value::as_str),
        other => other.as_str(),
    });
    let wrong = || document.error(key, "it is neither a text nor an object with 'content'");
    value.map(str::to_owned).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_tokenizers_own_file_goes_before_the_map() {
        let config = Document::of(
            "tokenizer_config.json",
            json!({"pad_token": {"content": "<p>"}, "model_max_length": 512, "padding_side": "left"}),
        );
        let map = Document::of(
            "special_tokens_map.json",
            json!({"pad_token": "[PAD]", "mask_token": "[MASK]"}),
        );
        let read = TokenizerConfig::from_documents(Some(&config), Some(&map)).unwrap();
        assert_eq!(read.pad_token.as_deref(), Some("<p>"));
        assert_eq!(read.mask_token.as_deref(), Some("[MASK]"));
        assert_eq!(read.model_max_length, Some(512));
        assert_eq!(read.padding_side, Some(Side::Left));
    }

    #[test]
    fn a_length_beyond_all_bounds_is_none() {
        let text = r#"{"model_max_length": 1000000000000000019884624838656}"#;
        let config = Document::of("t.json", serde_json::from_str(text).unwrap());
        let read = TokenizerConfig::from_documents(Some(&config), None).unwrap();
        assert_eq!(read.model_max_length, None);
    }

    #[test]
    fn a_wrong_side_is_an_error() {
        let config = Document::of("t.json", json!({"padding_side": "top"}));
        let error = TokenizerConfig::from_documents(Some(&config), None).unwrap_err();
        assert_eq!(error.to_string(), "t.json: padding_side: 'top' is neither left nor right");
    }

    #[test]
    fn a_wrong_token_of_the_map_is_an_error_although_the_other_file_has_it() {
        let config = Document::of("tokenizer_config.json", json!({"mask_token": "[MASK]"}));
        let map = Document::of("special_tokens_map.json", json!({"mask_token": 7}));
        let error = TokenizerConfig::from_documents(Some(&config), Some(&map)).unwrap_err();
        let text = "special_tokens_map.json: mask_token: it is neither a text nor an object with 'content'";
        assert_eq!(error.to_string(), text);
    }
}
