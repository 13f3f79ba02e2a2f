//! Tokens of four kinds of tokenizers: ids, types, special masks, offsets, windows, and ids back to text.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use backend_steps::{
    Detail, Encode, Encoded, Encoding, RowError, Side, Tokenizer, Tokenizing, Truncation,
    TruncationStrategy,
};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::fixture::{Fixture, numbers, root};

const KINDS: [&str; 4] = ["wordpiece", "byte_bpe", "regex_bpe", "unigram"];
const WHOLE: Encode =
    Encode { add_special_tokens: true, detail: Detail::Characters, truncation: None };

fn lines(path: &Path) -> Vec<Value> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|it| serde_json::from_str(&it.unwrap()).unwrap()).collect()
}

fn tokenizer(kind: &str) -> Tokenizer {
    let bytes = std::fs::read(root().join("tokens").join(kind).join("tokenizer.json")).unwrap();
    Tokenizer::from_bytes(&bytes, "tokenizer.json", false).unwrap()
}

/// A text, or the parts that it is repeated from.
fn text(description: &Value) -> String {
    match description {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let part = |it: &Value| {
                let times = it[1].as_u64().unwrap() as usize;
                it[0].as_str().unwrap().repeat(times)
            };
            parts.iter().map(part).collect()
        }
        other => panic!("{other}"),
    }
}

/// FNV-1a of 64 bits over little-endian numbers of 32 bits.
fn fnv(numbers: impl Iterator<Item = u32>) -> String {
    let bytes = numbers.flat_map(u32::to_le_bytes);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[track_caller]
fn check(given: &Encoded, expected: &Value, what: &str) {
    let offsets = || given.offsets.iter().flat_map(|it| [it.0 as u32, it.1 as u32]);
    let special = || given.is_special.iter().map(|it| u32::from(*it));
    if let Some(count) = expected.get("count") {
        assert_eq!(Some(given.ids.len() as u64), count.as_u64(), "{what}");
        let (ids, types) = (given.ids.iter().copied(), given.type_ids.iter().copied());
        let hash = fnv(ids.chain(types).chain(special()).chain(offsets()));
        assert_eq!(hash, expected["fnv"].as_str().unwrap(), "{what}");
        return;
    }
    let ids: Vec<i64> = given.ids.iter().map(|it| i64::from(*it)).collect();
    assert_eq!(ids, numbers(&expected["ids"]), "{what}");
    let digits =
        |it: &mut dyn Iterator<Item = u32>| it.map(|it| it.to_string()).collect::<String>();
    let types = digits(&mut given.type_ids.iter().copied());
    assert_eq!(types, expected["types"].as_str().unwrap(), "{what}");
    assert_eq!(digits(&mut special()), expected["special"].as_str().unwrap(), "{what}");
    let offsets: Vec<i64> = offsets().map(i64::from).collect();
    assert_eq!(offsets, numbers(&expected["offsets"]), "{what}");
}

#[test]
fn tokens_are_those_of_the_reference() {
    let texts = lines(&root().join("tokens/texts.jsonl.gz"));
    assert_eq!(texts.len(), 2000);
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        let expected = lines(&root().join("tokens").join(kind).join("expected.jsonl.gz"));
        assert_eq!(expected.len(), texts.len());
        for (at, (description, expected)) in texts.iter().zip(&expected).enumerate() {
            let text = text(description);
            let what = format!("{kind}, text {at}");
            let encoding = tokenizer.encode(&text, None, &WHOLE).unwrap();
            check(&encoding.windows[0], expected, &what);
            // The quick way gives the same ids.
            let quick = Encode { detail: Detail::Ids, ..WHOLE };
            let quick = tokenizer.encode(&text, None, &quick).unwrap();
            assert_eq!(quick.windows[0].ids, encoding.windows[0].ids, "{what}");
        }
    }
}

#[test]
fn offsets_in_bytes_and_in_characters_mean_the_same() {
    let texts = lines(&root().join("tokens/texts.jsonl.gz"));
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        for description in texts[..1000].iter().step_by(7) {
            let text = text(description);
            let characters: Vec<char> = text.chars().collect();
            let in_bytes = Encode { detail: Detail::Bytes, ..WHOLE };
            let bytes = tokenizer.encode(&text, None, &in_bytes).unwrap();
            let whole = tokenizer.encode(&text, None, &WHOLE).unwrap();
            let pairs = bytes.windows[0].offsets.iter().zip(&whole.windows[0].offsets);
            for (bytes, range) in pairs {
                // A token of a part of a character has no text of its own in bytes.
                let Some(slice) = text.get(bytes.0..bytes.1) else { continue };
                let expected: String = characters[range.0..range.1].iter().collect();
                assert_eq!(slice, expected, "{kind}: {text:?}");
            }
        }
    }
}

#[test]
fn a_text_of_too_many_windows_is_refused_before_all_of_it_is_split() {
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        let windows = |stride| {
            let truncation = Some(Truncation { stride: Some(stride), ..Truncation::right(64) });
            Encode { truncation, ..WHOLE }
        };
        let text = "some words, ".repeat(80_000);
        let error = tokenizer.encode(&text, None, &windows(32)).unwrap_err().to_string();
        assert_eq!(error, "the text has more than 256 windows", "{kind}");
        let pair = tokenizer.encode("a", Some(&text), &windows(32)).unwrap_err().to_string();
        assert_eq!(pair, error, "{kind}");
        // One that is taken is the same as without a look at its pieces.
        let text = "some words, ".repeat(400);
        let encoding = tokenizer.encode(&text, None, &windows(8)).unwrap();
        let whole = tokenizer.encode(&text, None, &WHOLE).unwrap();
        assert_eq!(encoding.windows[0].ids[1..30], whole.windows[0].ids[1..30], "{kind}");
    }
}

fn cut(tokenizer: &Tokenizer, case: &Value, stride: Option<usize>) -> Result<Encoding, RowError> {
    let name = |key: &str| case[key].as_str().unwrap();
    let truncation = case.get("max_length").map(|length| Truncation {
        max_length: length.as_u64().unwrap() as usize,
        strategy: TruncationStrategy::from_name(name("strategy")).unwrap(),
        side: Side::from_name(name("direction")).unwrap(),
        stride,
    });
    tokenizer.encode(name("text"), case["pair"].as_str(), &Encode { truncation, ..WHOLE })
}

#[test]
fn texts_are_cut_as_by_the_reference() {
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        let cases = lines(&root().join("tokens").join(kind).join("cut.jsonl.gz"));
        let (mut equal, mut refused) = (0, 0);
        for case in &cases {
            let what = format!("{kind}, {case}");
            let stride = case["stride"].as_u64().map(|it| it as usize);
            let special = tokenizer.special(!case["pair"].is_null());
            let room = case["max_length"].as_u64().map(|it| it.checked_sub(special as u64));
            let windows = cut(&tokenizer, case, stride);
            let windows_fail = windows.is_err();
            match (case["windows"].as_array(), room) {
                // The reference goes below zero there.
                (_, Some(None)) => {
                    assert!(matches!(windows, Err(RowError::Truncation(_))), "{what}");
                    refused += 1;
                }
                // Windows of nothing never come to an end: the reference gives the whole text in one.
                (Some(expected), Some(Some(0 | 1))) if windows.is_err() => {
                    if let Ok(first) = cut(&tokenizer, case, None) {
                        check(&first.windows[0], &expected[0], &what);
                    }
                }
                (Some(expected), _) => {
                    let windows = windows.unwrap_or_else(|error| panic!("{what}: {error}")).windows;
                    let text_is_short = windows.len() == 1;
                    assert!(windows.len() == expected.len() || text_is_short, "{what}");
                    for (window, expected) in windows.iter().zip(expected) {
                        check(window, expected, &what);
                    }
                    equal += 1;
                }
                (None, _) => {
                    // The reference refuses such windows for texts, too, that fit into one.
                    assert!(windows.is_ok_and(|it| !it.is_cut()) || windows_fail, "{what}");
                    refused += 1;
                }
            }
        }
        assert!(equal > 200 && refused > 20, "{kind}: {equal} equal, {refused} refused");
    }
}

#[test]
fn ids_become_the_text_of_the_reference() {
    for kind in KINDS {
        let tokenizer = tokenizer(kind);
        for case in lines(&root().join("tokens").join(kind).join("decoded.jsonl.gz")) {
            let ids: Vec<u32> = numbers(&case["ids"]).into_iter().map(|it| it as u32).collect();
            assert_eq!(tokenizer.decode(&ids, true).unwrap(), case["text"].as_str().unwrap());
            let text = tokenizer.decode(&ids, false).unwrap();
            assert_eq!(text, case["with_special"].as_str().unwrap());
        }
    }
}

#[test]
fn ids_are_taken_as_they_are_and_get_special_tokens_once() {
    let tokenizer = tokenizer("wordpiece");
    let quick = Encode { detail: Detail::Ids, ..WHOLE };
    let whole = tokenizer.encode("Ada lives", None, &quick).unwrap();
    let ids = &whole.windows[0].ids;
    let bare = &ids[1..ids.len() - 1];
    assert_eq!(tokenizer.encode_ids(bare, &quick).unwrap(), whole);
    assert_eq!(&tokenizer.encode_ids(ids, &quick).unwrap().windows[0].ids, ids);
    let size = tokenizer.vocabulary();
    let error = tokenizer.encode_ids(&[100_000], &quick).unwrap_err();
    assert_eq!(error, RowError::UnknownId { id: 100_000, size });
}

#[test]
fn tokens_of_a_text_have_their_places_in_bytes() {
    let fixture = Fixture::new("prompted");
    let pipeline = fixture.open("last_hidden_state", &[None, None, Some(32)]);
    let tokens = |text: &str, add_special_tokens, prompt_name| {
        pipeline.text().unwrap().tokenize(text, &Tokenizing { add_special_tokens, prompt_name })
    };
    let with_special = tokens("caf\u{e9} film", true, Some("")).unwrap();
    let [first, .., last] = with_special.as_slice() else { panic!("{with_special:?}") };
    assert_eq!(
        (&*first.text, first.place, &*last.text, last.place),
        ("[CLS]", None, "[SEP]", None)
    );
    let bare = tokens("caf\u{e9} film", false, Some("")).unwrap();
    assert_eq!(bare, with_special[1..with_special.len() - 1]);
    let film = bare.last().unwrap();
    assert_eq!(film.place.map(|it| it.1), Some("caf\u{e9} film".len()));
    for token in &bare {
        let (from, to) = token.place.unwrap();
        assert_eq!(token.text, "caf\u{e9} film"[from..to]);
    }
    // A prompt is a part of the text.
    let (name, prompt) = &pipeline.text().unwrap().task().prompts.named[0];
    let prompted = tokens("film", false, Some(name)).unwrap();
    assert_eq!(prompted.last().unwrap().place.map(|it| it.1), Some(prompt.len() + 4));
    assert!(tokens("film", true, Some("none such")).is_err());
    let foreign = pipeline.text().unwrap().tokenizer().decode_known(&[100_000], true).unwrap_err();
    assert!(matches!(foreign, RowError::UnknownId { id: 100_000, .. }));
}
