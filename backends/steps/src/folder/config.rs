//! `config.json`: what the model is, its labels, its limits.

use std::sync::Arc;

use super::document::Document;
use crate::{error::FolderError, request::Function};

/// What `config.json` says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// Names of classes, for example `BertForSequenceClassification`.
    pub architectures: Vec<String>,
    /// For example `bert`.
    pub model_type: String,
    /// Names of the classes in their order. Made up as `LABEL_<i>` where the file has none.
    pub labels: Vec<Arc<str>>,
    /// Does the file say how many labels there are? Otherwise `labels` has two.
    pub has_labels: bool,
    /// What kind of classes they are.
    pub problem_type: Option<ProblemType>,
    /// What turns logits into scores where nothing else says it.
    pub function_to_apply: Option<Function>,
    /// Positions that the model has, those before the first token's included.
    pub positions: Option<usize>,
    /// The token for padding.
    pub pad_token_id: Option<u32>,
    /// The token at the end, the first where there are several.
    pub eos_token_id: Option<u32>,
    /// Length of a token's vector.
    pub hidden_size: Option<usize>,
    /// Layers.
    pub layers: Option<usize>,
    /// Heads whose keys and values are kept.
    pub key_value_heads: Option<usize>,
    /// Heads that compare what they read.
    pub heads: Option<usize>,
    /// Length and step of each convolution in front of a sound model.
    pub convolutions: Vec<(usize, usize)>,
    /// Numbers that the first of them gives at each of its places.
    pub convolution_width: Option<usize>,
    /// Length of a head's vector.
    pub head_size: Option<usize>,
    /// The class that a cross-encoder puts behind its logits: `sentence_transformers.activation_fn`, or the older
    /// `sbert_ce_default_activation_function`.
    pub activation: Option<(&'static str, String)>,
}

/// What kind of classes a classifier has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemType {
    /// Numbers, no classes.
    Regression,
    /// One class for each text.
    SingleLabel,
    /// Any number of classes for each text.
    MultiLabel,
}

/// Most classes.
const MOST_CLASSES: usize = 1 << 22;

/// Most classes whose names are made up: a number of a few digits takes as much memory as their names.
const MOST_UNNAMED: usize = 1 << 16;

/// The key under which timm's models say how an image is prepared. Beside it their classes have other keys than those
/// of other libraries.
pub(crate) const PRETRAINED_CFG: &str = "pretrained_cfg";

const ACTIVATION: &str = "sentence_transformers.activation_fn";
const OLD_ACTIVATION: &str = "sbert_ce_default_activation_function";

impl Config {
    /// From the file.
    ///
    /// # Errors
    /// When a key has a value that it cannot have.
    pub(crate) fn from_document(document: &Document) -> Result<Config, FolderError> {
        let problem_type = match document.text("problem_type")? {
            None => None,
            Some("regression") => Some(ProblemType::Regression),
            Some("single_label_classification") => Some(ProblemType::SingleLabel),
            Some("multi_label_classification") => Some(ProblemType::MultiLabel),
            Some(other) => {
                let problem = format!(
                    "'{other}' is none of regression, single_label_classification, multi_label_classification"
                );
                return Err(document.error("problem_type", problem));
            }
        };
        let function_to_apply = match document.text("function_to_apply")? {
            None => None,
            Some(name) => Some(Function::from_name(name).ok_or_else(|| {
                let problem = format!("'{name}' is none of softmax, sigmoid, none");
                document.error("function_to_apply", problem)
            })?),
        };
        let mut positions = None;
        for key in ["max_position_embeddings", "max_trained_positions", "n_positions"] {
            // -1 is XLNet's way to say that there is no limit.
            let is_limit = document.get(key).is_some_and(|it| it.as_i64() != Some(-1));
            if positions.is_none() && is_limit {
                positions = document.count(key)?;
            }
        }
        // Of a model with two towers: that of its texts.
        let tower = document.object("text_config")?.map(|it| document.within("text_config", it));
        let tower = tower.as_ref();
        let of_tower = |key: &str| tower.map(|it| it.count(key)).transpose().map(Option::flatten);
        let id_of_tower = |key: &str| tower.map(|it| it.id(key)).transpose().map(Option::flatten);
        if positions.is_none() {
            positions = of_tower("max_position_embeddings")?;
        }
        let (labels, has_labels) = labels(document)?;
        let hidden_size = match document.count("hidden_size")? {
            Some(size) => Some(size),
            // DistilBERT says `dim`, GPT-2 `n_embd`, T5 `d_model`.
            None => document.count("dim")?.or(document.count("d_model")?),
        };
        let heads = document.count("num_attention_heads")?;
        let head_size = match document.count("head_dim")? {
            Some(size) => Some(size),
            None => hidden_size.zip(heads).and_then(|(size, heads)| size.checked_div(heads)),
        };
        Ok(Config {
            architectures: document.texts("architectures")?.unwrap_or_default(),
            model_type: document.text("model_type")?.unwrap_or_default().to_owned(),
            labels,
            has_labels,
            problem_type,
            function_to_apply,
            positions,
            pad_token_id: document.id("pad_token_id")?.or(id_of_tower("pad_token_id")?),
            eos_token_id: document.id("eos_token_id")?.or(id_of_tower("eos_token_id")?),
            hidden_size,
            layers: document.count("num_hidden_layers")?,
            key_value_heads: document.count("num_key_value_heads")?.or(heads),
            heads,
            convolutions: convolutions(document),
            convolution_width: convolution_width(document),
            head_size,
            activation: activation(document)?,
        })
    }

    /// The first position that a token can have: RoBERTa and its kin begin behind that of the padding token.
    pub(crate) fn first_position(&self) -> usize {
        let begins_later = ["roberta", "xlm-roberta", "camembert"].contains(&&*self.model_type);
        match begins_later {
            // Their configurations have 1 where the file says nothing.
            true => self.pad_token_id.unwrap_or(1) as usize + 1,
            false => 0,
        }
    }
}

/// Length and step of each convolution; none where the two lists are not there, or of unequal length.
fn convolutions(document: &Document) -> Vec<(usize, usize)> {
    let numbers = |key: &str| -> Option<Vec<usize>> {
        let items = document.get(key)?.as_array()?.iter();
        items.map(|it| it.as_u64().and_then(|it| usize::try_from(it).ok())).collect()
    };
    let lists = numbers("conv_kernel").zip(numbers("conv_stride"));
    let lists = lists.filter(|(kernels, strides)| kernels.len() == strides.len());
    lists.map(|(kernels, strides)| kernels.into_iter().zip(strides).collect()).unwrap_or_default()
}

/// Numbers that the first convolution gives at each of its places.
fn convolution_width(document: &Document) -> Option<usize> {
    let first = document.get("conv_dim")?.as_array()?.first()?.as_u64()?;
    usize::try_from(first).ok()
}

/// The labels in their order, and whether the file says how many there are.
fn labels(document: &Document) -> Result<(Vec<Arc<str>>, bool), FolderError> {
    let is_timm = document.get(PRETRAINED_CFG).is_some();
    let count = match document.count("num_labels")? {
        None if is_timm => document.count("num_classes")?,
        count => count,
    };
    let mut given: Vec<(usize, Arc<str>)> = Vec::new();
    let names = if is_timm { document.texts("label_names")? } else { None };
    if let Some(names) = names {
        given.extend((0..).zip(names.iter().map(|it| it.as_str().into())));
    } else if let Some(entries) = document.object("id2label")? {
        for (key, value) in entries {
            let path = format!("id2label.{key}");
            let index = key.parse().map_err(|_| document.error(&path, "the key is no number"))?;
            let label = match value {
                serde_json::Value::String(text) => text.as_str().into(),
                // Some training scripts write class numbers.
                other if other.is_number() => other.to_string().into(),
                _ => return Err(document.error(&path, "it is no text")),
            };
            given.push((index, label));
        }
    } else if let Some(entries) = document.object("label2id")? {
        for (label, value) in entries {
            let index = value.as_u64().and_then(|it| usize::try_from(it).ok());
            let path = format!("label2id.{label}");
            let index = index.ok_or_else(|| document.error(&path, "it is no class number"))?;
            given.push((index, label.as_str().into()));
        }
    }
    let last = given.iter().map(|it| it.0.saturating_add(1)).max();
    let has_labels = count.is_some() || last.is_some();
    let count = last.or(count).unwrap_or(2);
    // A class number is an index of memory: bounded before it is used as one.
    if count > MOST_CLASSES {
        return Err(document.error("id2label", format!("{count} classes are too many")));
    }
    let unnamed = count.saturating_sub(given.len());
    if unnamed > MOST_UNNAMED {
        let problem = format!(
            "{unnamed} of {count} classes have no name, at most {MOST_UNNAMED} may have none"
        );
        return Err(document.error("id2label", problem));
    }
    let mut labels: Vec<Arc<str>> = (0..count).map(|it| format!("LABEL_{it}").into()).collect();
    for (index, label) in given {
        labels[index] = label;
    }
    Ok((labels, has_labels))
}

fn activation(document: &Document) -> Result<Option<(&'static str, String)>, FolderError> {
    if let Some(keys) = document.object("sentence_transformers")?
        && let Some(name) = keys.get("activation_fn").filter(|it| !it.is_null())
    {
        let name = name.as_str().ok_or_else(|| document.error(ACTIVATION, "it is no text"))?;
        return Ok(Some((ACTIVATION, name.to_owned())));
    }
    Ok(document.text(OLD_ACTIVATION)?.map(|it| (OLD_ACTIVATION, it.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: serde_json::Value) -> Result<Config, String> {
        let document = Document::of("config.json", value);
        Config::from_document(&document).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_labels(value: serde_json::Value, expect: &[&str]) {
        let config = read(value).unwrap();
        let labels: Vec<&str> = config.labels.iter().map(|it| &**it).collect();
        assert_eq!(labels, expect);
    }

    #[test]
    fn labels_are_in_the_order_of_their_numbers_and_gaps_are_filled() {
        check_labels(json!({"id2label": {"2": "C", "0": "A"}}), &["A", "LABEL_1", "C"]);
        check_labels(json!({"label2id": {"B": 1, "A": 0}}), &["A", "B"]);
        check_labels(json!({"num_labels": 1}), &["LABEL_0"]);
        check_labels(json!({}), &["LABEL_0", "LABEL_1"]);
    }

    #[test]
    fn classes_of_timm_have_keys_of_their_own() {
        let timm = |keys: serde_json::Value| {
            let mut config = json!({"pretrained_cfg": {"input_size": [3, 8, 8]}, "num_classes": 3});
            config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
            config
        };
        check_labels(timm(json!({"label_names": ["A", "B", "C"]})), &["A", "B", "C"]);
        check_labels(timm(json!({})), &["LABEL_0", "LABEL_1", "LABEL_2"]);
        check_labels(json!({"num_classes": 3, "label_names": ["A"]}), &["LABEL_0", "LABEL_1"]);
        let error = read(timm(json!({"label_names": [1, 2, 3]}))).unwrap_err();
        assert!(error.starts_with("config.json: label_names: it is [1,2,3]"), "{error}");
    }

    #[test]
    fn positions_begin_behind_the_padding_token_in_roberta() {
        let config = read(json!({"model_type": "roberta", "pad_token_id": 1})).unwrap();
        assert_eq!(config.first_position(), 2);
        assert_eq!(read(json!({"model_type": "bert"})).unwrap().first_position(), 0);
    }

    #[test]
    fn the_newer_key_of_an_activation_goes_first() {
        let both = json!({
            "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
            "sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid",
        });
        let (key, name) = read(both).unwrap().activation.unwrap();
        assert_eq!((key, &*name), (ACTIVATION, "torch.nn.modules.linear.Identity"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        let error = read(json!({"id2label": {"a": "A"}})).unwrap_err();
        assert_eq!(error, "config.json: id2label.a: the key is no number");
        let error = read(json!({"id2label": {"9999999999": "A"}})).unwrap_err();
        assert!(error.contains("10000000000 classes are too many"), "{error}");
        let last = json!({"id2label": {"18446744073709551615": "A", "1": "B"}});
        let error = read(last).unwrap_err();
        assert!(error.contains("18446744073709551615 classes are too many"), "{error}");
        let error = read(json!({"num_labels": 65_537})).unwrap_err();
        assert_eq!(
            error,
            "config.json: id2label: 65537 of 65537 classes have no name, at most 65536 may have none"
        );
        let error = read(json!({"problem_type": "x"})).unwrap_err();
        assert!(error.starts_with("config.json: problem_type: 'x' is none of"), "{error}");
        assert!(read(json!({"architectures": "Bert"})).is_err());
    }
}
