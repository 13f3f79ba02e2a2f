//! `vocab.json` and what `tokenizer_config.json` says of it: how the classes of a frame of speech are spelt.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{dir::Dir, document::Document};
use crate::error::FolderError;

/// The spelling of classes, and which of them stand for "nothing" and for a blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtcVocabulary {
    /// The token of each class; `None` for those that no file names.
    pub tokens: Vec<Option<Arc<str>>>,
    /// The token that says that nothing is heard. `None`: there is none.
    pub blank: Option<Arc<str>>,
    /// The token between two words. `None`: there is none.
    pub delimiter: Option<Arc<str>>,
    /// What stands between two words in the text.
    pub space: Arc<str>,
    /// What stands for classes without a token.
    pub unknown: Arc<str>,
    /// Is the text in lower case?
    pub lower_case: bool,
    /// Are blanks in front of punctuation removed?
    pub clean_up: bool,
}

/// The largest number of a class.
const LAST_CLASS: u64 = 1 << 20;

impl CtcVocabulary {
    /// Reads `vocab.json` (or the file of that name), `tokenizer_config.json`, `special_tokens_map.json` and
    /// `added_tokens.json` of a folder; all but the first may be missing. Blocking.
    ///
    /// # Errors
    /// When the vocabulary is missing, or a file is wrong.
    pub fn read(dir: &Dir, vocabulary: &str) -> Result<CtcVocabulary, FolderError> {
        let given = Document::read(dir, vocabulary)?.ok_or_else(|| {
            FolderError::file(vocabulary, "it is missing")
                .remedy("write it once: AutoProcessor.from_pretrained(d).save_pretrained(d)")
        })?;
        let config = Document::read(dir, "tokenizer_config.json")?;
        let map = Document::read(dir, "special_tokens_map.json")?;
        let added = Document::read(dir, "added_tokens.json")?;
        CtcVocabulary::from_documents(&given, config.as_ref(), map.as_ref(), added.as_ref())
    }

    fn from_documents(
        vocabulary: &Document,
        config: Option<&Document>,
        map: Option<&Document>,
        added: Option<&Document>,
    ) -> Result<CtcVocabulary, FolderError> {
        let sources: Vec<&Document> = [config, map].into_iter().flatten().collect();
        let token = |key: &str, usual: &str| special_token(&sources, key, usual);
        let flag = |key: &str| config.map_or(Ok(None), |it| it.flag(key));
        let language = config.map_or(Ok(None), |it| it.text("target_lang"))?;
        let space = config.map_or(Ok(None), |it| it.text("replace_word_delimiter_char"))?;
        // What the vocabulary says of a class goes before what was added to it.
        let mut tokens = BTreeMap::new();
        if let Some(added) = added {
            for token in added.keys() {
                insert(&mut tokens, added, token, token, added.get(token))?;
            }
        }
        if let Some(config) = config {
            added_tokens(config, &mut tokens)?;
        }
        match language {
            None => {
                for token in vocabulary.keys() {
                    insert(&mut tokens, vocabulary, token, token, vocabulary.get(token))?;
                }
            }
            Some(language) => {
                let Some(nested) = vocabulary.get(language).and_then(Value::as_object) else {
                    return Err(
                        vocabulary.error(language, "it is no vocabulary, and target_lang names it")
                    );
                };
                for (token, value) in nested {
                    let key = format!("{language}.{token}");
                    insert(&mut tokens, vocabulary, &key, token, Some(value))?;
                }
            }
        }
        let count = tokens.keys().next_back().map_or(0, |it| it + 1);
        let tokens: Vec<Option<Arc<str>>> = (0..count).map(|it| tokens.remove(&it)).collect();
        if tokens.is_empty() {
            return Err(FolderError::file(&*vocabulary.file, "no class has a token"));
        }
        Ok(CtcVocabulary {
            tokens,
            blank: token("pad_token", "<pad>")?,
            delimiter: token("word_delimiter_token", "|")?,
            space: space.unwrap_or(" ").into(),
            unknown: token("unk_token", "<unk>")?.unwrap_or_else(|| "<unk>".into()),
            lower_case: flag("do_lower_case")?.unwrap_or(false),
            clean_up: flag("clean_up_tokenization_spaces")?.unwrap_or(false),
        })
    }
}

fn insert(
    tokens: &mut BTreeMap<usize, Arc<str>>,
    document: &Document,
    key: &str,
    token: &str,
    class: Option<&Value>,
) -> Result<(), FolderError> {
    match class.and_then(Value::as_u64) {
        Some(class @ ..=LAST_CLASS) => {
            tokens.insert(class as usize, token.into());
            Ok(())
        }
        _ => Err(document.error(key, format!("it is no class from 0 to {LAST_CLASS}"))),
    }
}

/// `added_tokens_decoder`: classes as text, each with an object that has the token as `content`.
fn added_tokens(
    config: &Document,
    tokens: &mut BTreeMap<usize, Arc<str>>,
) -> Result<(), FolderError> {
    const KEY: &str = "added_tokens_decoder";
    let Some(added) = config.get(KEY) else { return Ok(()) };
    let added = added.as_object().ok_or_else(|| config.error(KEY, "it is no object"))?;
    for (class, token) in added {
        let key = format!("{KEY}.{class}");
        let number: Option<u64> = class.parse().ok().filter(|it| *it <= LAST_CLASS);
        let content = content_of(token);
        match (number, content) {
            (Some(number), Some(content)) => tokens.insert(number as usize, content),
            (None, _) => return Err(config.error(&key, "its name is no class")),
            (_, None) => return Err(config.error(&key, "it has no 'content'")),
        };
    }
    Ok(())
}

/// A token is written as text, or as an object with `content`.
fn content_of(value: &Value) -> Option<Arc<str>> {
    let text = match value {
        Value::Object(keys) => keys.get("content").and_then(Value::as_str),
        other => other.as_str(),
    };
    text.map(Arc::from)
}

/// The token of the first document that has the key, where `null` says that there is none.
fn special_token(
    sources: &[&Document],
    key: &str,
    usual: &str,
) -> Result<Option<Arc<str>>, FolderError> {
    let Some(document) = sources.iter().find(|it| it.keys().any(|it| it == key)) else {
        return Ok(Some(usual.into()));
    };
    let Some(value) = document.get(key) else { return Ok(None) };
    let wrong = || document.error(key, "it is neither a text nor an object with 'content'");
    content_of(value).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(vocabulary: Value, config: Value) -> Result<CtcVocabulary, String> {
        let vocabulary = Document::of("vocab.json", vocabulary);
        let config = Document::of("tokenizer_config.json", config);
        CtcVocabulary::from_documents(&vocabulary, Some(&config), None, None)
            .map_err(|it| it.to_string())
    }

    fn tokens(vocabulary: &CtcVocabulary) -> Vec<&str> {
        vocabulary.tokens.iter().map(|it| it.as_deref().unwrap_or("-")).collect()
    }

    #[test]
    fn what_no_file_says_is_usual() {
        let vocabulary = Document::of("vocab.json", json!({"<pad>": 0, "|": 1, "A": 3}));
        let read = CtcVocabulary::from_documents(&vocabulary, None, None, None).unwrap();
        assert_eq!(tokens(&read), ["<pad>", "|", "-", "A"]);
        assert_eq!((read.blank.as_deref(), read.delimiter.as_deref()), (Some("<pad>"), Some("|")));
        assert_eq!((&*read.unknown, &*read.space), ("<unk>", " "));
        assert!(!read.lower_case && !read.clean_up);
    }

    #[test]
    fn the_vocabulary_goes_before_what_was_added() {
        let config = json!({
            "added_tokens_decoder": {"1": {"content": "<s>"}, "2": {"content": "</s>"}},
            "pad_token": {"content": "_"}, "word_delimiter_token": null, "unk_token": "?",
            "do_lower_case": true, "clean_up_tokenization_spaces": true
        });
        let read = read(json!({"_": 0, "A": 1}), config).unwrap();
        assert_eq!(tokens(&read), ["_", "A", "</s>"]);
        assert_eq!((read.blank.as_deref(), read.delimiter), (Some("_"), None));
        assert!(&*read.unknown == "?" && read.lower_case && read.clean_up);
    }

    #[test]
    fn a_vocabulary_of_several_languages_is_read_for_one() {
        let nested = json!({"eng": {"<pad>": 0, "A": 1}, "deu": {"<pad>": 0, "Ä": 1}});
        let german = read(nested.clone(), json!({"target_lang": "deu"})).unwrap();
        assert_eq!(tokens(&german), ["<pad>", "Ä"]);
        let error = read(nested.clone(), json!({"target_lang": "fra"})).unwrap_err();
        assert_eq!(error, "vocab.json: fra: it is no vocabulary, and target_lang names it");
        let error = read(nested, json!({})).unwrap_err();
        assert_eq!(error, "vocab.json: eng: it is no class from 0 to 1048576");
    }

    #[test]
    fn what_is_wrong_is_said_with_file_and_key() {
        for (vocabulary, config, expect) in [
            (json!({}), json!({}), "vocab.json: no class has a token"),
            (json!({"A": -1}), json!({}), "vocab.json: A: it is no class from 0 to 1048576"),
            (
                json!({"A": 1u64 << 40}),
                json!({}),
                "vocab.json: A: it is no class from 0 to 1048576",
            ),
            (
                json!({"A": 0}),
                json!({"pad_token": 3}),
                "tokenizer_config.json: pad_token: it is neither a text nor an object with 'content'",
            ),
            (
                json!({"A": 0}),
                json!({"added_tokens_decoder": {"x": {"content": "y"}}}),
                "tokenizer_config.json: added_tokens_decoder.x: its name is no class",
            ),
        ] {
            assert_eq!(read(vocabulary, config), Err(expect.to_owned()));
        }
    }
}
