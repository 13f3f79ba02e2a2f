//! Texts of speech: those of the tokenizer of CTC, whatever its settings, and of the pipeline.

use std::fs;

use backend_steps::{Dir, folder::CtcVocabulary, spell};
use serde_json::Value;

use crate::fixture::{output, root};

fn lines(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(root().join(name).join("expected.jsonl")).unwrap();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

#[test]
fn spellings_are_those_of_the_tokenizer() {
    let lines = lines("spellings");
    assert!(lines.len() >= 40);
    for line in lines {
        let folder = line["folder"].as_str().unwrap();
        let dir = root().join("spellings").join(folder);
        let vocabulary = CtcVocabulary::read(&Dir::alone(&dir), "vocab.json").unwrap();
        let text = spell(&output("logits", &line["logits"]), &vocabulary).unwrap();
        assert_eq!(text, line["text"], "{folder}");
    }
}

#[test]
fn texts_of_speech_are_those_of_the_pipeline() {
    let vocabulary =
        CtcVocabulary::read(&Dir::alone(&root().join("speech/folder")), "vocab.json").unwrap();
    for line in lines("speech") {
        let logits = output("logits", &line["rows"][0]["logits"]);
        assert_eq!(spell(&logits, &vocabulary).unwrap(), line["reply"]["text"], "{}", line["case"]);
    }
}

#[test]
fn a_vocabulary_that_is_not_there_is_named() {
    let error =
        CtcVocabulary::read(&Dir::alone(&root().join("sst2/folder")), "vocab.json").unwrap_err();
    let text = "vocab.json: it is missing; write it once: \
                AutoProcessor.from_pretrained(d).save_pretrained(d)";
    assert_eq!(error.to_string(), text);
}
