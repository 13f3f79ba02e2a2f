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
