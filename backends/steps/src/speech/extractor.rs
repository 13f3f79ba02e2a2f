//! What `preprocessor_config.json` says of how a sound becomes samples.

use audio::Wav2Vec2;
use serde_json::Value;

use crate::{error::FolderError, folder::Folder};

/// The feature extractors that are known.
const KNOWN: [&str; 1] = ["Wav2Vec2FeatureExtractor"];

/// The highest rate that a model may ask for.
const HIGHEST_RATE: u64 = 192_000;

/// The feature extractor that the folder names.
///
/// # Errors
/// When there is none, one that is not known, or a value that it cannot have.
pub(super) fn extractor(folder: &Folder) -> Result<Wav2Vec2, FolderError> {
    let Some((file, json)) = &folder.preprocessor else {
        let problem = "it is missing, and says how a sound becomes input_values";
        let remedy = "write it once: AutoFeatureExtractor.from_pretrained(d).save_pretrained(d)";
        return Err(FolderError::file("preprocessor_config.json", problem).remedy(remedy));
    };
    let json = json.get("feature_extractor").unwrap_or(json);
    let wrong = |key: &str, expected: &str, value: &Value| {
        FolderError::key(file, key, format!("it is {value}, not {expected}"))
    };
    let flag = |key: &str, usual: bool| match json.get(key) {
        None | Some(Value::Null) => Ok(usual),
        Some(value) => value.as_bool().ok_or_else(|| wrong(key, "true or false", value)),
    };
    let name = json.get("feature_extractor_type").and_then(Value::as_str).unwrap_or_default();
    if !KNOWN.contains(&name) {
        let problem = match name {
            "" => "it is missing".to_owned(),
            name => format!("'{name}' is not known"),
        };
        let remedy = format!("expected one of {}", KNOWN.join(", "));
        return Err(FolderError::key(file, "feature_extractor_type", problem).remedy(remedy));
    }
    let usual = Wav2Vec2::default();
    let sampling_rate = match json.get("sampling_rate") {
        None | Some(Value::Null) => usual.sampling_rate,
        Some(value) => {
            let rate = value.as_u64().filter(|it| (1..=HIGHEST_RATE).contains(it));
            let rate = rate.ok_or_else(|| wrong("sampling_rate", "a rate up to 192000", value))?;
            rate as u32
        }
    };
    Ok(Wav2Vec2 {
        sampling_rate,
        do_normalize: flag("do_normalize", usual.do_normalize)?,
        return_attention_mask: flag("return_attention_mask", usual.return_attention_mask)?,
        ..usual
    })
}
