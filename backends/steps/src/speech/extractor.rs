//! What `preprocessor_config.json` says of how a sound becomes what its graph takes.

use audio::{Ast, LogMel, SoundError, StillWanted, Wav2Vec2, Whisper};
use serde_json::Value;

use crate::{error::FolderError, folder::Folder};

/// The feature extractors that are known.
const KNOWN: [&str; 3] =
    ["Wav2Vec2FeatureExtractor", "WhisperFeatureExtractor", "ASTFeatureExtractor"];

/// The highest rate that a model may ask for.
const HIGHEST_RATE: u64 = 192_000;

/// What makes the values of a graph of samples.
#[derive(Debug, Clone)]
pub(super) enum Extractor {
    /// The samples themselves.
    Samples(Wav2Vec2),
    /// What filters hear in each moment, and the input of the graph that takes it.
    LogMel(&'static str, Box<LogMel>),
}

impl Extractor {
    /// Samples a second that it takes.
    pub(super) fn sampling_rate(&self) -> u32 {
        match self {
            Extractor::Samples(it) => it.sampling_rate,
            Extractor::LogMel(_, it) => it.sampling_rate(),
        }
    }

    /// The input of the graph that takes its values.
    pub(super) fn input(&self) -> &'static str {
        match self {
            Extractor::Samples(_) => "input_values",
            Extractor::LogMel(name, _) => name,
        }
    }

    /// The shape of its values; `None` where it is the number of samples.
    pub(super) fn shape(&self) -> Option<[usize; 2]> {
        match self {
            Extractor::Samples(_) => None,
            Extractor::LogMel(_, it) => Some(it.shape()),
        }
    }

    /// Samples of the shortest sound.
    pub(super) fn least_samples(&self) -> usize {
        match self {
            Extractor::Samples(_) => 1,
            Extractor::LogMel(_, it) => it.least_samples(),
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Extractor::Samples(_) => KNOWN[0],
            Extractor::LogMel("input_features", _) => KNOWN[1],
            Extractor::LogMel(..) => KNOWN[2],
        }
    }

    /// The values of samples at its rate.
    ///
    /// # Errors
    /// [`SoundError::Stopped`] where they are not wanted any more.
    pub(super) fn values(
        &self,
        samples: Vec<f32>,
        wanted: StillWanted<'_>,
    ) -> Result<Vec<f32>, SoundError> {
        match self {
            Extractor::Samples(it) => Ok(it.features(samples).input_values),
            Extractor::LogMel(_, it) => it.features(&samples, wanted),
        }
    }
}

/// The feature extractor that the folder names.
///
/// # Errors
/// When there is none, one that is not known, or a value that it cannot have.
pub(super) fn extractor(folder: &Folder) -> Result<Extractor, FolderError> {
    let Some((file, json)) = &folder.preprocessor else {
        let problem = "it is missing, and says how a sound becomes input_values";
        let remedy = "write it once: AutoFeatureExtractor.from_pretrained(d).save_pretrained(d)";
        return Err(FolderError::file("preprocessor_config.json", problem).remedy(remedy));
    };
    let keys = Keys { file, json: json.get("feature_extractor").unwrap_or(json) };
    let name = keys.json.get("feature_extractor_type").and_then(Value::as_str).unwrap_or_default();
    let sampling_rate = || {
        let rate = keys.number("sampling_rate", 16_000, [1, HIGHEST_RATE], "a rate up to 192000");
        rate.map(|it| it as u32)
    };
    let count = |key: &str, usual: usize, most: u64| {
        let expected = format!("a number from 1 to {most}");
        keys.number(key, usual as u64, [1, most], &expected).map(|it| it as usize)
    };
    match name {
        "Wav2Vec2FeatureExtractor" => {
            let usual = Wav2Vec2::default();
            Ok(Extractor::Samples(Wav2Vec2 {
                sampling_rate: sampling_rate()?,
                do_normalize: keys.flag("do_normalize", usual.do_normalize)?,
                return_attention_mask: keys
                    .flag("return_attention_mask", usual.return_attention_mask)?,
                ..usual
            }))
        }
        "WhisperFeatureExtractor" => {
            let usual = Whisper::default();
            let settings = Whisper {
                sampling_rate: sampling_rate()?,
                feature_size: count("feature_size", usual.feature_size, 512)?,
                n_fft: count("n_fft", usual.n_fft, 4096)?,
                hop_length: count("hop_length", usual.hop_length, 65_536)?,
                chunk_length: count("chunk_length", usual.chunk_length, 120)?,
            };
            if !settings.n_fft.is_multiple_of(2) || settings.n_fft <= settings.hop_length {
                let Whisper { n_fft, hop_length, .. } = settings;
                let problem =
                    format!("it is {n_fft}, not an even number above hop_length {hop_length}");
                return Err(FolderError::key(file, "n_fft", problem));
            }
            keys.none_of("dither", 0.0)?;
            keys.none_of("padding_value", 0.0)?;
            Ok(Extractor::LogMel("input_features", Box::new(LogMel::whisper(settings))))
        }
        "ASTFeatureExtractor" => {
            let usual = Ast::default();
            let settings = Ast {
                sampling_rate: sampling_rate()?,
                num_mel_bins: count("num_mel_bins", usual.num_mel_bins, 512)?,
                max_length: count("max_length", usual.max_length, 20_000)?,
                do_normalize: keys.flag("do_normalize", usual.do_normalize)?,
                mean: keys.float("mean", usual.mean)?,
                std: keys.float("std", usual.std)?,
            };
            Ok(Extractor::LogMel("input_values", Box::new(LogMel::ast(settings))))
        }
        name => {
            let problem = match name {
                "" => "it is missing".to_owned(),
                name => format!("'{name}' is not known"),
            };
            let remedy = format!("expected one of {}", KNOWN.join(", "));
            Err(FolderError::key(file, "feature_extractor_type", problem).remedy(remedy))
        }
    }
}

/// The keys of an extractor, and the file that they are in.
struct Keys<'a> {
    file: &'a str,
    json: &'a Value,
}

impl Keys<'_> {
    fn given(&self, key: &str) -> Option<&Value> {
        self.json.get(key).filter(|it| !it.is_null())
    }

    fn wrong(&self, key: &str, expected: &str, value: &Value) -> FolderError {
        FolderError::key(self.file, key, format!("it is {value}, not {expected}"))
    }

    fn flag(&self, key: &str, usual: bool) -> Result<bool, FolderError> {
        let Some(value) = self.given(key) else { return Ok(usual) };
        value.as_bool().ok_or_else(|| self.wrong(key, "true or false", value))
    }

    fn number(
        &self,
        key: &str,
        usual: u64,
        [least, most]: [u64; 2],
        expected: &str,
    ) -> Result<u64, FolderError> {
        let Some(value) = self.given(key) else { return Ok(usual) };
        let number = value.as_u64().filter(|it| (least..=most).contains(it));
        number.ok_or_else(|| self.wrong(key, expected, value))
    }

    fn float(&self, key: &str, usual: f32) -> Result<f32, FolderError> {
        let Some(value) = self.given(key) else { return Ok(usual) };
        let number = value.as_f64().map(|it| it as f32).filter(|it| it.is_finite());
        number.ok_or_else(|| self.wrong(key, "a number", value))
    }

    /// Fails where a key has another value than the one that changes nothing.
    fn none_of(&self, key: &str, nothing: f64) -> Result<(), FolderError> {
        match self.given(key) {
            Some(value) if value.as_f64() != Some(nothing) => {
                Err(self.wrong(key, &format!("{nothing}, which is what is known"), value))
            }
            _ => Ok(()),
        }
    }
}
