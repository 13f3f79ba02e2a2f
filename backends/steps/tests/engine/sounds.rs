//! The steps `audio` and `ctc`.

use std::{fs, time::Duration};

use backend::{NamedTensor, Shape, Tensor};
use backend_steps::{FileBounds, Steps};
use inference::limits::Budget;

use crate::fixture::{
    Repository, fixture, floats, integers, numbers, refused, run, run_until, run_with, spec,
    strings,
};

/// A sound of 16 bits and one channel, of these samples.
fn wav(rate: u32, samples: &[i16]) -> Vec<u8> {
    let size = samples.len() as u32 * 2;
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((size + 36).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend([16u32.to_le_bytes(), 0x0001_0001u32.to_le_bytes(), rate.to_le_bytes()].concat());
    bytes.extend([(rate * 2).to_le_bytes(), 0x0010_0002u32.to_le_bytes()].concat());
    bytes.extend(b"data");
    bytes.extend(size.to_le_bytes());
    bytes.extend(samples.iter().flat_map(|it| it.to_le_bytes()));
    bytes
}

fn sounds(files: &[Vec<u8>]) -> [NamedTensor; 1] {
    let tensor = Tensor::from_strings(Shape::new(&[files.len(), 1]), files).unwrap();
    [NamedTensor { name: "audio".into(), tensor }]
}

const WANTED: [&str; 2] = ["input_values", "attention_mask"];

#[test]
fn sounds_of_a_request_are_padded_to_the_longest() {
    let repository = Repository::new(&[]);
    let plain = [("step", "audio"), ("do_normalize", "false")];
    let given = sounds(&[wav(16_000, &[16_384, -16_384, 0]), wav(16_000, &[8_192])]);
    let source = repository.source(&plain);
    assert_eq!(spec(&source).outputs[0].dims, [None, None]);
    let made = run(&source, &given, &WANTED).unwrap();
    assert_eq!(made[0].shape().dims(), [2, 3]);
    assert_eq!(floats(&made[0]), [0.5, -0.5, 0.0, 0.25, 0.0, 0.0]);
    assert_eq!(integers(&made[1]), [1, 1, 1, 1, 0, 0]);
    // By default to mean zero and variance one, each sound for itself.
    let made = run(&repository.source(&plain[..1]), &given, &WANTED).unwrap();
    assert!((floats(&made[0])[0] - 1.224_744).abs() < 1e-4);
    assert_eq!(floats(&made[0])[3..], [0.0; 3]);
    // Other rates become the model's.
    let half = repository.source(&[plain[0], ("sampling_rate", "8000")]);
    let made = run(&half, &sounds(&[wav(16_000, &[0; 64])]), &WANTED).unwrap();
    assert_eq!(made[0].shape().dims(), [1, 32]);
    let strict = repository.source(&[plain[0], ("padding", "none")]);
    let error = run(&strict, &given, &WANTED).unwrap_err();
    assert!(error.contains("input 'audio': row 1: it has 1 samples, row 0 3, and they"), "{error}");
}

#[test]
fn a_sound_that_is_none_or_too_long_is_named_by_its_row() {
    let repository = Repository::new(&[]);
    let source = repository.source(&[("step", "audio"), ("max_seconds", "1")]);
    let (good, long) = (wav(8_000, &[0; 8_000]), wav(8_000, &[0; 8_001]));
    let ask = |files: &[Vec<u8>]| run(&source, &sounds(files), &WANTED).map(|_| ());
    assert_eq!(ask(&vec![good.clone(); 4]), Ok(()));
    let error = ask(&[good.clone(), b"no sound".to_vec()]).unwrap_err();
    assert!(error.contains("input 'audio': row 1: the sound is no WAV"), "{error}");
    let error = ask(&[good.clone(), long]).unwrap_err();
    assert!(error.contains("row 1: the sound has 1.0 s, at most 1 s are taken"), "{error}");
    // All rows together are bounded, too.
    let error = ask(&vec![good; 6]).unwrap_err();
    assert!(error.contains("row 5: with it all rows, padded, have 6.0 s, at most 4 s"), "{error}");
}

#[test]
fn frames_become_text() {
    let vocabulary = r#"{"<pad>": 0, "|": 1, "A": 2, "B": 3, "_": 4}"#;
    let repository = Repository::new(&[("vocab.json", vocabulary)]);
    let usual = [("step", "ctc"), ("file", "vocab.json")];
    let frames = |classes: [usize; 5]| {
        classes.iter().flat_map(|class| (0..5).map(|it| f32::from(it == *class))).collect()
    };
    let rows: [Vec<f32>; 2] = [frames([2, 2, 0, 2, 3]), frames([2, 1, 3, 4, 0])];
    let logits = [numbers("logits", &[2, 5, 5], rows.concat())];
    let ask = |more: &[(&str, &str)]| {
        let source = repository.source(&[&usual[..], more].concat());
        strings(&run(&source, &logits, &["text"]).unwrap()[0])
    };
    assert_eq!(ask(&[]), ["AAB", "A B_"]);
    assert_eq!(ask(&[("blank", "_")]), ["A<pad>AB", "A B<pad>"]);
    assert_eq!(ask(&[("delimiter", "_")]), ["AAB", "A|B"]);
    let nan = [numbers("logits", &[1, 1, 1], vec![f32::NAN])];
    let error = run(&repository.source(&usual), &nan, &["text"]).unwrap_err();
    assert!(error.contains("is not a number"), "{error}");
}

#[test]
fn what_is_wrong_with_steps_of_sound_is_said() {
    let (audio, ctc) = (("step", "audio"), ("step", "ctc"));
    refused(
        &[audio, ("sample_rate", "16000")],
        "config.pbtxt:3: parameter 'sample_rate': the step 'audio' has no such parameter; the nearest is \
         'sampling_rate'",
    );
    refused(&[audio, ("sampling_rate", "0")], "parameter 'sampling_rate': it is '0'");
    refused(&[audio, ("sampling_rate", "1000000")], "1000000 is above 192000");
    refused(&[audio, ("do_normalize", "yes")], "parameter 'do_normalize': it is 'yes'");
    refused(&[audio, ("mono", "false")], "parameter 'mono': channels are averaged");
    refused(&[audio, ("padding", "max")], "parameter 'padding': 'max' is none of batch, none");
    refused(&[audio, ("max_seconds", "0")], "parameter 'max_seconds'");
    refused(&[ctc], "parameter 'file' is missing");
    refused(&[ctc, ("file", "vocab.json")], "config.pbtxt:3: parameter 'file': there is no ");
    refused(&[ctc, ("file", "two.txt")], "parameter 'file': two.txt: it is no JSON");
    let vocabulary = fs::read_to_string(fixture("speech/folder/vocab.json")).unwrap();
    let repository = Repository::new(&[("vocab.json", &vocabulary)]);
    let source = repository.source(&[ctc, ("file", "vocab.json"), ("blank", "nothing")]);
    let error = run(&source, &sounds(&[Vec::new()]), &[]).unwrap_err();
    assert!(error.contains("parameter 'blank': 'nothing' is no token of vocab.json"), "{error}");
}

#[test]
fn a_sound_keeps_to_the_bounds_of_the_server_and_is_counted_in_its_budget() {
    let repository = Repository::new(&[]);
    let sounds = sounds(&[wav(16_000, &vec![0; 160_000])]);
    let budget = Budget::new(64 << 20);
    let bounds = FileBounds { budget: Some(budget.clone()), ..FileBounds::default() };
    let run = |bounds: FileBounds| {
        let source = repository.source(&[("step", "audio"), ("max_seconds", "300")]);
        run_with(&Steps::within(bounds), &source, &sounds, &["input_values"])
    };
    let made = run(bounds.clone()).unwrap();
    assert_eq!(budget.used(), made[0].byte_len());
    drop(made);
    assert_eq!(budget.used(), 0);
    let error = run(FileBounds { max_audio_seconds: Some(0), ..bounds }).unwrap_err();
    assert!(error.contains("at most 0 s"), "{error}");
}

#[test]
fn a_sound_is_given_up_within_when_nobody_waits_for_it_any_more() {
    let repository = Repository::new(&[]);
    let source = repository.source(&[("step", "audio"), ("sampling_rate", "16000")]);
    let given = sounds(&[wav(44_100, &vec![0; 44_100 * 60])]);
    let (engine, limit) = (Steps::default(), Some(Duration::from_millis(5)));
    let error = run_until(&engine, &source, &given, &WANTED, limit).unwrap_err();
    assert!(error.contains("stopped"), "{error}");
}
