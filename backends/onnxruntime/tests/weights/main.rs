//! Folders that have weights and no graph: what is made for them answers as transformers does. `tests/fixtures/weights`
//! has the folders and the answers.

// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]

mod answered;
mod refused;

use std::fs;

use backend::{Backend, Batch, DataType, GraphRows, ModelSource, NamedTensor, Stop, Tensor};
use backend_onnxruntime::OnnxRuntime;

use answered::{Answered, CLOSE, Copy, INT8, fixtures, load, row_of};

#[test]
fn every_family_and_head_answers_as_transformers_does_in_company_and_alone() {
    let mut folders = 0;
    for entry in fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("expected.safetensors").exists() {
            let mut answered = Answered::of(&folder);
            answered.in_company();
            answered.alone();
            folders += 1;
        }
    }
    assert_eq!(folders, 138);
}

#[test]
fn angles_that_would_depend_on_the_longest_text_of_a_run_are_refused_with_their_key() {
    for (name, most, problem) in [
        ("qwen3-dynamic", 24, "max_position_embeddings of config.json is 24"),
        ("mistral-longrope", 20, "original_max_position_embeddings of config.json is 20"),
    ] {
        let mut instance = load(&fixtures().join(name)).unwrap();
        let mut ask = |tokens: usize| {
            let ones: Vec<u8> = (0..tokens).flat_map(|_| 1i64.to_le_bytes()).collect();
            let input = |name: &str| {
                let shape = [1, tokens].into_iter().collect();
                let tensor = Tensor::new(DataType::Int64, shape, ones.clone().into()).unwrap();
                NamedTensor { name: name.into(), tensor }
            };
            let (inputs, stop) = (["input_ids", "attention_mask"].map(input), Stop::new());
            let outputs = ["last_hidden_state".into()];
            let batch =
                Batch { inputs: &inputs, outputs: &outputs, rows: 1, signature: 0, stop: &stop };
            instance.execute(&batch)
        };
        ask(most).unwrap();
        let error = ask(most + 1).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn only_graphs_that_compare_rows_leave_it_open_whether_rows_are_independent() {
    let rows = |name: &str| {
        let path = fixtures().join(name).join("model.safetensors");
        let source = ModelSource::new("weights".to_owned(), path);
        OnnxRuntime::default().load(&source).unwrap().spec().unwrap().rows.clone()
    };
    for name in ["bert-ForQuestionAnswering", "qwen3-Model", "vit-Model", "siglip-text"] {
        assert_eq!(rows(name), GraphRows::Independent, "{name}");
    }
    assert_eq!([rows("clip-both"), rows("siglip-both")], [GraphRows::Unknown, GraphRows::Unknown]);
}

/// Numbers of tiny models in 8 bits are so far from those of 32.
const ROUGH: f32 = 0.35;

#[test]
fn in_8_bits_every_family_answers_nearly_the_same_and_its_layers_bit_by_bit_as_alone() {
    let mut exact = 0;
    for entry in fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("expected.safetensors").exists() {
            continue;
        }
        let mut answered = Answered::with(&folder, &INT8);
        let inputs = answered.inputs.clone();
        let found = answered.run(&inputs, 3);
        for row in 0..3 {
            answered.check(&found, row, row, ROUGH);
        }
        // Two towers compare rows with each other: that is what they are for.
        if found.iter().any(|it| it.name.starts_with("logits_per_")) {
            continue;
        }
        for row in 0..3 {
            let own: Vec<NamedTensor> = inputs.iter().map(|it| row_of(it, row)).collect();
            for (alone, all) in answered.run(&own, 1).iter().zip(&found) {
                let floats = |it: &NamedTensor| it.tensor.as_slice_of::<f32>().unwrap().to_vec();
                let (alone, row_of_all) = (floats(alone), floats(&row_of(all, row)));
                let name = &answered.name;
                // Heads compute in floats, of which a single row is multiplied in another order.
                let close = if &*all.name == "last_hidden_state" { 0.0 } else { CLOSE };
                let mut pairs = alone.iter().zip(&row_of_all);
                assert!(
                    pairs.all(|(alone, all)| (alone - all).abs() <= close),
                    "{name}, row {row}"
                );
                exact += usize::from(close == 0.0);
            }
        }
    }
    assert!(60 < exact, "{exact}");
}

#[test]
fn codes_of_8_bits_are_made_at_load_of_weights_of_any_kind_and_need_no_file_later() {
    for name in ["bert-shards", "bert-half", "bert-bfloat16"] {
        let folder = Copy::of(name);
        let mut answered = Answered::with(&folder.0, &INT8);
        let before = answered.bits();
        assert!(!is_mapped(&folder.0.to_string_lossy()), "{name}");
        for entry in fs::read_dir(&folder.0).unwrap() {
            fs::write(entry.unwrap().path(), []).unwrap();
        }
        assert_eq!(answered.bits(), before, "{name}");
    }
}

/// Are weights in use in this process that begin so?
fn is_mapped(path: &str) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|it| it.contains(path) && it.contains(".safetensors"))
}

#[test]
fn weights_that_nobody_writes_to_are_read_where_they_lie_and_may_change_behind_the_load() {
    let folder = Copy::of("bert-tanh-Model");
    let path = folder.0.join("model.safetensors");
    let before = fs::read(&path).unwrap();
    let expected = Answered::of(&folder.0).bits();
    let mut answered = Answered::of(&folder.0);
    let copies = "/muster-weights-";
    assert!(!is_mapped(copies) && !is_mapped(&folder.0.to_string_lossy()));
    // The lease is over: nobody waits, and what is written is nobody's business here.
    fs::write(&path, vec![0xff; before.len()]).unwrap();
    assert_eq!(answered.bits(), expected);
    fs::write(&path, []).unwrap();
    assert_eq!(answered.bits(), expected);
    // What somebody has open for writing is copied, and answers the same.
    fs::write(&path, &before).unwrap();
    let writer = fs::File::options().append(true).open(&path).unwrap();
    let mut copied = Answered::of(&folder.0);
    assert!(is_mapped(copies));
    assert_eq!(copied.bits(), expected);
    drop(writer);
}
