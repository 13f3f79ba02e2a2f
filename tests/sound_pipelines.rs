//! Folders of sound models, served as they are: every sound of the fixtures, against what transformers says.
//! `tests/fixtures/pipelines/make.py` makes both.

use std::fs;

use serde_json::{Value, json};

use crate::{
    pipelines::{agrees, fixtures, repository},
    support::{Client, Server},
};

/// Sends a sound as the body of an invocation.
fn invoke(client: &mut Client, model: &str, sound: &[u8]) -> crate::support::Reply {
    let headers = [("content-type", "audio/wav"), ("x-amzn-sagemaker-target-model", model)];
    client.post("/invocations", &headers, sound)
}

/// Classes with the keys in the order that they have for texts and images; the reference has scores first here.
fn labels_first(reply: &Value) -> Value {
    match reply.as_array() {
        Some(classes) => {
            classes.iter().map(|it| json!({"label": it["label"], "score": it["score"]})).collect()
        }
        None => reply.clone(),
    }
}

#[test]
fn speech_is_spelt_and_sounds_are_classified_as_by_the_pipeline() {
    let server = Server::start(&repository(&["speech", "audio-classification"]), &[]);
    let mut client = server.client();
    for model in ["speech", "audio-classification"] {
        let folder = fixtures().join(model);
        let cases = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
        let cases: Vec<Value> = cases.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(cases.len(), 3);
        for case in cases {
            let sound = fs::read(folder.join(case["sound"].as_str().unwrap())).unwrap();
            let given = invoke(&mut client, model, &sound).expect(200).json();
            let expected = labels_first(&case["reply"]);
            assert!(agrees(&given, &expected), "{model}, {}: {given}", case["case"]);
        }
    }
}

/// A WAV of so many samples of silence at 16 kHz.
fn silence(samples: u32) -> Vec<u8> {
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + 2 * samples).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16u32.to_le_bytes());
    wav.extend([1u16, 1].map(u16::to_le_bytes).concat());
    wav.extend([16_000u32, 32_000].map(u32::to_le_bytes).concat());
    wav.extend([2u16, 16].map(u16::to_le_bytes).concat());
    wav.extend(b"data");
    wav.extend((2 * samples).to_le_bytes());
    wav.resize(wav.len() + 2 * samples as usize, 0);
    wav
}

#[test]
fn a_sound_that_makes_no_frame_is_refused_with_the_samples_that_are_needed() {
    let server = Server::start(&repository(&["speech"]), &[]);
    let mut client = server.client();
    // Kernels of 10, 8 and 8 with steps of 5, 8 and 8.
    let least = ((8 - 1) * 8 + 8 - 1) * 5 + 10;
    let error = invoke(&mut client, "speech", &silence(least - 1)).error(400);
    let expected = format!("{} samples at 16000 Hz, the model needs at least {least}", least - 1);
    assert!(error.contains(&expected), "{error}");
    invoke(&mut client, "speech", &silence(least)).expect(200);
}

#[test]
fn sounds_share_runs_where_rows_are_found_to_be_independent() {
    let server = Server::start(&repository(&["audio-classification"]), &[]);
    let config = server.get("/v2/models/audio-classification/config").expect(200).json();
    assert!(config["parameters"].get("muster_merging").is_none(), "{config}");
    assert!(config.get("dynamic_batching").is_some(), "{config}");
}

#[test]
fn what_is_no_sound_or_too_long_a_one_is_refused_and_harms_nobody() {
    let repository = repository(&["speech"]);
    let server = Server::start(&repository, &["--max-audio-seconds", "1"]);
    let mut client = server.client();
    let good = fs::read(fixtures().join("speech/0.wav")).unwrap();
    let mut long = good.clone();
    // The rate of the header: one sample a second.
    long[24..28].copy_from_slice(&1u32.to_le_bytes());
    for (sound, problem) in [
        (&b"no sound"[..], "the sound is no WAV, FLAC, MP3 or Ogg Vorbis"),
        (&long, "1 samples a second"),
    ] {
        let error = invoke(&mut client, "speech", sound).error(400);
        assert!(error.contains(problem), "{error}");
    }
    invoke(&mut client, "speech", &good).expect(200);
}
