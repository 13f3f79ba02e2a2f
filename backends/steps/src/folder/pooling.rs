//! `<n>_Pooling/config.json` and `<n>_SpladePooling/config.json`, in the forms of every version.

use serde_json::Value;

use super::document::Document;
use crate::error::FolderError;

/// How token vectors become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingMode {
    /// The vector of the first token.
    Cls,
    /// The greatest value of each dimension.
    Max,
    /// The mean.
    Mean,
    /// The sum over the root of the number of tokens.
    MeanSqrtLen,
    /// The mean with weights that grow from token to token.
    WeightedMean,
    /// The vector of the last token.
    LastToken,
}

impl PoolingMode {
    /// All of them, in the order in which their flags are concatenated.
    pub const ALL: [PoolingMode; 6] = [
        PoolingMode::Cls,
        PoolingMode::Max,
        PoolingMode::Mean,
        PoolingMode::MeanSqrtLen,
        PoolingMode::WeightedMean,
        PoolingMode::LastToken,
    ];

    /// The name since version 6.
    pub fn name(self) -> &'static str {
        match self {
            PoolingMode::Cls => "cls",
            PoolingMode::Max => "max",
            PoolingMode::Mean => "mean",
            PoolingMode::MeanSqrtLen => "mean_sqrt_len_tokens",
            PoolingMode::WeightedMean => "weightedmean",
            PoolingMode::LastToken => "lasttoken",
        }
    }

    /// The flag before version 6.
    fn flag(self) -> &'static str {
        match self {
            PoolingMode::Cls => "pooling_mode_cls_token",
            PoolingMode::Max => "pooling_mode_max_tokens",
            PoolingMode::Mean => "pooling_mode_mean_tokens",
            PoolingMode::MeanSqrtLen => "pooling_mode_mean_sqrt_len_tokens",
            PoolingMode::WeightedMean => "pooling_mode_weightedmean_tokens",
            PoolingMode::LastToken => "pooling_mode_lasttoken",
        }
    }

    /// The mode of that name; `last-token` is how flags of other servers spell it.
    pub fn from_name(name: &str) -> Option<PoolingMode> {
        match name {
            "last-token" | "last_token" => Some(PoolingMode::LastToken),
            _ => PoolingMode::ALL.into_iter().find(|it| it.name() == name),
        }
    }
}

/// A Pooling module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pooling {
    /// The modes, whose vectors are concatenated. Never empty.
    pub modes: Vec<PoolingMode>,
    /// Length of a token's vector, where the file says it.
    pub width: Option<usize>,
    /// Do the prompt's tokens count?
    pub include_prompt: bool,
}

impl Pooling {
    /// The mean of all tokens.
    pub fn mean() -> Pooling {
        Pooling { modes: vec![PoolingMode::Mean], width: None, include_prompt: true }
    }

    /// From the module's file.
    ///
    /// # Errors
    /// When a key has a value that it cannot have.
    pub(crate) fn from_document(document: &Document) -> Result<Pooling, FolderError> {
        let mut modes = Vec::new();
        if let Some(value) = document.get("pooling_mode") {
            let names = match value {
                Value::Array(names) => names.as_slice(),
                one => std::slice::from_ref(one),
            };
            for name in names {
                let mode = name.as_str().and_then(PoolingMode::from_name);
                modes.push(mode.ok_or_else(|| {
                    let known = PoolingMode::ALL.map(PoolingMode::name).join(", ");
                    document.error("pooling_mode", format!("{name} is none of {known}"))
                })?);
            }
        } else {
            for mode in PoolingMode::ALL {
                if document.flag(mode.flag())?.unwrap_or(false) {
                    modes.push(mode);
                }
            }
        }
        if modes.is_empty() {
            modes.push(PoolingMode::Mean);
        }
        let width = match document.count("embedding_dimension")? {
            Some(width) => Some(width),
            None => document.count("word_embedding_dimension")?,
        };
        let include_prompt = document.flag("include_prompt")?.unwrap_or(true);
        Ok(Pooling { modes, width, include_prompt })
    }

    /// The modes as `muster explain` and the log write them.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.modes.iter().map(|it| it.name()).collect();
        names.join("+")
    }
}

/// A SpladePooling module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Splade {
    /// Are weights summed over the tokens? Otherwise the greatest counts.
    pub is_sum: bool,
    /// Is the logarithm taken twice, as models of OpenSearch want it?
    pub is_logarithm_twice: bool,
}

impl Splade {
    /// From the module's file.
    ///
    /// # Errors
    /// When a key has a value that it cannot have.
    pub(crate) fn from_document(document: &Document) -> Result<Splade, FolderError> {
        let is_sum = match document.text("pooling_strategy")?.unwrap_or("max") {
            "max" => false,
            "sum" => true,
            other => {
                let problem = format!("'{other}' is neither max nor sum");
                return Err(document.error("pooling_strategy", problem));
            }
        };
        let is_logarithm_twice = match document.text("activation_function")?.unwrap_or("relu") {
            "relu" => false,
            "log1p_relu" => true,
            other => {
                let problem = format!("'{other}' is neither relu nor log1p_relu");
                return Err(document.error("activation_function", problem));
            }
        };
        Ok(Splade { is_sum, is_logarithm_twice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(value: Value, modes: &str, include_prompt: bool) {
        let read = Pooling::from_document(&Document::of("p", value)).unwrap();
        assert_eq!((&*read.name(), read.include_prompt), (modes, include_prompt));
    }

    #[test]
    fn both_generations_say_the_same() {
        check(json!({"pooling_mode": "cls"}), "cls", true);
        check(json!({"pooling_mode": ["max", "cls"], "include_prompt": false}), "max+cls", false);
        let flags = json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true});
        check(flags, "cls+mean", true);
        check(json!({"word_embedding_dimension": 4}), "mean", true);
    }

    #[test]
    fn an_unknown_mode_is_an_error_with_the_known_ones() {
        let document = Document::of("1_Pooling/config.json", json!({"pooling_mode": "best"}));
        let error = Pooling::from_document(&document).unwrap_err().to_string();
        assert!(error.starts_with("1_Pooling/config.json: pooling_mode: \"best\" is none of cls,"));
    }
}
