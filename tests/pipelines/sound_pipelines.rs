//! Folders of sound models, served as they are: every sound of the fixtures, against what transformers says.
//! `tests/fixtures/pipelines/make.py` makes both.

use std::fs;

use serde_json::{Value, json};

use crate::{
    explain::both,
    image_bodies::array,
    support::{
        Client, Form, Repository, Server, Tensor,
        pipelines::{agrees, fixtures, repository},
    },
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

/// What a fixture has been asked, each line with its sound as a file.
fn cases(model: &str) -> Vec<(Value, Vec<u8>)> {
    let folder = fixtures().join(model);
    let lines = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
    let cases = lines.lines().map(|it| {
        let case: Value = serde_json::from_str(it).unwrap();
        let sound = fs::read(folder.join(case["sound"].as_str().unwrap())).unwrap();
        (case, sound)
    });
    let cases: Vec<_> = cases.collect();
    assert_eq!(cases.len(), 3, "{model}");
    cases
}

/// Folders of models of sounds.
const FOLDERS: [&str; 4] = ["speech", "audio-classification", "whisper", "spectrogram"];

#[test]
fn speech_is_spelt_and_sounds_are_classified_as_by_the_pipeline() {
    let server = Server::start(&repository(&FOLDERS), &[]);
    let mut client = server.client();
    for model in FOLDERS {
        for (case, sound) in cases(model) {
            let given = invoke(&mut client, model, &sound).expect(200).json();
            let expected = labels_first(&case["reply"]);
            assert!(agrees(&given, &expected), "{model}, {}: {given}", case["case"]);
        }
    }
}

/// The ensemble that does the same as that folder, whose logits of these dimensions are an output, too.
fn with_logits(model: &str, dims: &str) -> Repository {
    let (_folders, ensembles) = both(&[model]);
    let config = format!("{model}/config.pbtxt");
    let written = fs::read_to_string(ensembles.path().join(&config)).unwrap();
    let logits = format!("output {{ name: \"logits\" data_type: TYPE_FP32 dims: [ {dims} ] }}\n");
    ensembles.file(&config, written + &logits)
}

#[test]
fn logits_of_a_file_are_those_of_the_reference() {
    for (model, dims) in [("speech", "-1, -1"), ("audio-classification", "-1")] {
        let repository = with_logits(model, dims);
        let server = Server::start(&repository, &[]);
        let mut client = server.client();
        for (case, sound) in cases(model) {
            let audio = Tensor::strings("audio", &[1, 1], &[&sound]);
            let outputs = r#""outputs":[{"name":"logits"}]"#;
            let given = client.infer(model, &[audio], Form::Binary, outputs);
            let given = given.output().numbers();
            let expected = Tensor::expected("logits", &case["rows"][0]["logits"]).numbers();
            assert_eq!(given.len(), expected.len(), "{model}, {}", case["case"]);
            // Kernels round each sum of their own, in proportion to the largest number of it.
            let largest = expected.iter().fold(0.0f64, |most, it| most.max(it.abs()));
            for (one, other) in given.iter().zip(&expected) {
                let problem = format!("{model}, {}: {one}, expected {other}", case["case"]);
                assert!((one - other).abs() <= 1e-5 * largest, "{problem}");
            }
        }
    }
}

#[test]
fn an_array_of_samples_is_a_sound_that_is_decoded_already() {
    let server = Server::start(&repository(&["speech"]), &[]);
    let mut client = server.client();
    let sound = fs::read(fixtures().join("speech/0.wav")).unwrap();
    let expected = invoke(&mut client, "speech", &sound).expect(200).json();
    assert_eq!(sound[22..28], [1, 0, 0x80, 0x3e, 0, 0], "one channel, 16 kHz");
    let samples = sound[44..].as_chunks::<2>().0.iter().map(|it| i16::from_le_bytes(*it));
    let samples: Vec<f32> = samples.map(|it| f32::from(it) / 32_768.0).collect();
    let mut ask = |descr: &str, data: &[u8], count: usize| {
        let body = array(descr, &format!("({count},)"), data);
        client.post("/invocations", &[("content-type", "application/x-npy")], body)
    };
    let count = samples.len();
    let data: Vec<u8> = samples.iter().flat_map(|it| it.to_le_bytes()).collect();
    assert_eq!(ask("<f4", &data, count).expect(200).json(), expected);
    let doubles: Vec<u8> = samples.iter().flat_map(|it| f64::from(*it).to_le_bytes()).collect();
    assert_eq!(ask("<f8", &doubles, count).expect(200).json(), expected);
    let problem = ask("<i2", &sound[44..], count).error(400);
    assert!(problem.contains("expected FP32 [samples] at the rate of the model"), "{problem}");
    let long = ask("<f4", &vec![0; 4 * 16_000 * 301], 16_000 * 301).error(400);
    assert!(long.contains("the sound has 301.0 s, at most"), "{long}");
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
    let file = r#"{"max_audio_seconds": 1}"#;
    let flag = Server::start(&repository, &["--max-audio-seconds", "1"]);
    check_refusals(&flag);
    drop(flag);
    check_refusals(&Server::start(&repository.file("speech/muster.json", file), &[]));
}

/// A server that takes sounds of a second.
fn check_refusals(server: &Server) {
    let mut client = server.client();
    let good = fs::read(fixtures().join("speech/0.wav")).unwrap();
    let mut slow = good.clone();
    // The rate of the header: one sample a second.
    slow[24..28].copy_from_slice(&1u32.to_le_bytes());
    for (sound, problem) in [
        (&b"no sound"[..], "the sound is no WAV, FLAC, MP3 or Ogg Vorbis"),
        (&slow, "1 samples a second"),
        (&silence(32_000), "2.0 s, at most 1 s are taken"),
    ] {
        let error = invoke(&mut client, "speech", sound).error(400);
        assert!(error.contains(problem), "{error}");
    }
    invoke(&mut client, "speech", &good).expect(200);
}
