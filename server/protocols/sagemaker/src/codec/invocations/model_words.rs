//! What a multi-model endpoint says of loads and unloads: the words that AWS's containers have, which programs written
//! against these compare.

use super::{Dialect, Options, models::write_keys};
use formats::{EncodedReply, json::write};

/// Whose words they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelWords {
    /// Those of the Multi Model Server, in front of most of AWS's containers. Source:
    /// <https://github.com/awslabs/multi-model-server/blob/master/docs/management_api.md>.
    MultiModelServer,
    /// Those of TensorFlow Serving's container.
    TensorFlowServing,
}

impl Options {
    /// The words of the container whose place this one takes.
    pub fn model_words(&self) -> ModelWords {
        match self.dialect.or(self.vendor) {
            Some(Dialect::Tfs) => ModelWords::TensorFlowServing,
            _ => ModelWords::MultiModelServer,
        }
    }
}

impl ModelWords {
    /// The reply to a load: `modelName`, `modelUrl`, and a sentence under the container's key for it.
    pub fn loaded(self, name: &str, url: &str) -> EncodedReply {
        match self {
            ModelWords::MultiModelServer => done(name, url, "status", "Workers scaled"),
            ModelWords::TensorFlowServing => {
                done(name, url, "success", &format!("Successfully loaded model {name}."))
            }
        }
    }

    /// The reply to an unload, with the same keys.
    pub fn unloaded(self, name: &str, url: &str) -> EncodedReply {
        match self {
            ModelWords::MultiModelServer => {
                done(name, url, "status", &format!("Model \"{name}\" unregistered"))
            }
            ModelWords::TensorFlowServing => {
                done(name, url, "success", &format!("Successfully unloaded model {name}."))
            }
        }
    }

    /// The text of the error for a model that is not loaded.
    pub fn not_loaded(self, name: &str) -> String {
        let name = shown(name);
        match self {
            ModelWords::MultiModelServer => format!("Model not found: {name}"),
            ModelWords::TensorFlowServing => format!("Model {name} is not loaded yet."),
        }
    }

    /// The text of the error for a load of a model that is loaded.
    pub fn already_loaded(self, name: &str) -> String {
        let name = shown(name);
        match self {
            ModelWords::MultiModelServer => format!("Model {name} is already registered."),
            ModelWords::TensorFlowServing => format!("Model {name} is already loaded."),
        }
    }

    /// The text of the error for a load from where there is no model, for this `reason`.
    pub fn nothing_there(self, name: &str, url: &str, reason: &str) -> String {
        match self {
            ModelWords::MultiModelServer => reason.to_owned(),
            ModelWords::TensorFlowServing => format!(
                "Could not find valid base path {} for servable {}: {reason}",
                shown(url),
                shown(name)
            ),
        }
    }
}

fn done(name: &str, url: &str, key: &str, text: &str) -> EncodedReply {
    let mut json = b"{".to_vec();
    write_keys(&mut json, name, url);
    write::key(&mut json, key);
    write::string(&mut json, text);
    json.push(b'}');
    EncodedReply::json(json)
}

/// Most characters of a client's own words that an error repeats.
const LONGEST_SHOWN: usize = 128;

fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelWords::{MultiModelServer, TensorFlowServing};

    #[test]
    fn the_container_whose_place_is_taken_decides_and_an_operator_before_it() {
        let words =
            |dialect, vendor| Options { dialect, vendor, ..Options::default() }.model_words();
        assert_eq!(words(None, None), MultiModelServer);
        assert_eq!(words(None, Some(Dialect::Xgboost)), MultiModelServer);
        assert_eq!(words(None, Some(Dialect::Tfs)), TensorFlowServing);
        assert_eq!(words(Some(Dialect::Toolkit), Some(Dialect::Tfs)), MultiModelServer);
    }

    #[test]
    fn replies_have_the_model_and_the_containers_own_key() {
        let check = |reply: EncodedReply, expected: &str| {
            assert_eq!(String::from_utf8(reply.body.concat()).unwrap(), expected);
        };
        check(
            MultiModelServer.loaded("m", "/m"),
            r#"{"modelName":"m","modelUrl":"/m","status":"Workers scaled"}"#,
        );
        check(
            MultiModelServer.unloaded("m", "/m"),
            r#"{"modelName":"m","modelUrl":"/m","status":"Model \"m\" unregistered"}"#,
        );
        check(
            TensorFlowServing.loaded("m", "/m"),
            r#"{"modelName":"m","modelUrl":"/m","success":"Successfully loaded model m."}"#,
        );
        check(
            TensorFlowServing.unloaded("m", "/m"),
            r#"{"modelName":"m","modelUrl":"/m","success":"Successfully unloaded model m."}"#,
        );
    }

    #[test]
    fn an_error_repeats_only_the_beginning_of_a_long_name() {
        let long = "x".repeat(2000);
        for words in [MultiModelServer, TensorFlowServing] {
            for text in [
                words.not_loaded(&long),
                words.already_loaded(&long),
                words.nothing_there(&long, &long, "why"),
            ] {
                assert!(text.len() < 400, "{text}");
            }
        }
    }
}
