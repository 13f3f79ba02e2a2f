//! Samples are those of libsndfile, and features those of transformers: `tests/fixtures/pipelines/make.py` asks both.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use backend_audio::{Ast, Limits, LogMel, SoundError, Wav2Vec2, Whisper, decode, inspect, read};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pipelines")
}

fn lines(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(root().join(name).join("expected.jsonl")).unwrap();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn floats(tensor: &Value) -> Vec<f32> {
    let bytes = STANDARD.decode(tensor["raw"].as_str().unwrap()).unwrap();
    bytes.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect()
}

/// The greatest distance of two samples.
#[track_caller]
fn distance(found: &[f32], expected: &[f32], what: &str) -> f32 {
    assert_eq!(found.len(), expected.len(), "{what}");
    found.iter().zip(expected).fold(0.0, |most, (a, b)| most.max((a - b).abs()))
}

#[test]
fn samples_are_those_of_the_reference() {
    let mut forms = Vec::new();
    for line in lines("sounds") {
        let name = line["file"].as_str().unwrap();
        let bytes = fs::read(root().join("sounds").join(name)).unwrap();
        let expected = floats(&line["samples"]);
        let limits = Limits::default();
        let header = inspect(&bytes, &limits).unwrap();
        assert_eq!(u64::from(header.rate), line["rate"].as_u64().unwrap(), "{name}");
        assert_eq!(header.channels as u64, line["channels"].as_u64().unwrap(), "{name}");
        let sound = decode(&bytes, &limits).unwrap();
        assert!(header.samples == Some(expected.len() as u64), "{name}: {header:?}");
        let apart = distance(&sound.samples, &expected, name);
        let is_exact = name.ends_with(".wav") || name.ends_with(".flac");
        // Lossy forms leave it to the decoder how it rounds.
        assert!(apart <= if is_exact { 0.0 } else { 1e-5 }, "{name}: {apart}");
        forms.push(header.format.to_string());
    }
    forms.dedup();
    assert_eq!(forms, ["WAV", "FLAC", "Ogg Vorbis", "MP3"]);
}

#[test]
fn mp3_without_a_tag_is_read_to_its_end() {
    let tagged = fs::read(root().join("sounds/mono.mp3")).unwrap();
    // The first frame holds the tag and nothing else.
    let next = tagged[2..].windows(2).position(|it| it == &tagged[..2]).unwrap() + 2;
    let bare = &tagged[next..];
    let limits = Limits::default();
    let found = decode(bare, &limits).unwrap().samples;
    assert_eq!(found.len(), 4 * 576);
    assert_eq!(inspect(bare, &limits).unwrap().samples, Some(4 * 576));
    // What the encoder and the decoder put in front.
    let whole = decode(&tagged, &limits).unwrap().samples;
    assert!(distance(&found[1_105..][..whole.len()], &whole, "bare") < 1e-5);
    let short = Limits { max_seconds: 0.1, ..limits };
    assert!(inspect(bare, &short).unwrap_err().is_too_large());
}

#[test]
fn features_are_those_of_the_extractor() {
    for name in ["speech", "audio-classification"] {
        for line in lines(name) {
            let bytes = fs::read(root().join(name).join(line["sound"].as_str().unwrap())).unwrap();
            let settings = Wav2Vec2::default();
            let samples = read(&bytes, settings.sampling_rate, &Limits::default()).unwrap();
            let found = settings.features(samples).input_values;
            let apart = distance(&found, &floats(&line["rows"][0]["input_values"]), name);
            assert!(apart < 2e-6, "{name}: {apart}");
        }
    }
}

#[test]
fn log_mel_features_are_those_of_the_extractors() {
    let whisper = Whisper { feature_size: 20, chunk_length: 1, ..Whisper::default() };
    let ast = Ast { num_mel_bins: 24, max_length: 20, ..Ast::default() };
    for (name, key, extractor) in [
        ("whisper", "input_features", LogMel::whisper(whisper)),
        ("spectrogram", "input_values", LogMel::ast(ast)),
    ] {
        for line in lines(name) {
            let bytes = fs::read(root().join(name).join(line["sound"].as_str().unwrap())).unwrap();
            let samples = read(&bytes, 16_000, &Limits::default()).unwrap();
            let found = extractor.features(&samples, &|| true).unwrap();
            let [rows, columns] = extractor.shape();
            assert_eq!(found.len(), rows * columns);
            let apart = distance(&found, &floats(&line["rows"][0][key]), name);
            assert!(apart < 1e-4, "{name}: {apart}");
            assert_eq!(extractor.features(&samples, &|| false), Err(SoundError::Stopped));
        }
    }
}
