//! Pairs whose first text is split once are those of the library, and expressions never give up in silence.

use super::{
    super::truncate::{Strategy, Truncation},
    *,
};

const WORDS: &str = r#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
  "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "decoder": null, "post_processor":
  {"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 0]},
  "model": {"type": "WordLevel", "unk_token": "[UNK]",
  "vocab": {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 3, "b": 4, "c": 5, "d": 6, "e": 7, "f": 8, "g": 9}}}"#;

/// The first so many letters, which are a token each.
fn letters(count: usize) -> String {
    "a b c d e f g ".repeat(2)[..2 * count].to_owned()
}

#[test]
fn a_byte_order_mark_in_front_of_a_tokenizer_is_no_part_of_it() {
    let marked = format!("\u{feff}{WORDS}");
    let tokenizer = Tokenizer::from_bytes(marked.as_bytes(), "tokenizer.json", false);
    assert!(tokenizer.is_ok(), "{:?}", tokenizer.err());
}

#[test]
fn a_template_that_names_a_token_that_is_not_there_is_refused() {
    let template = r#"{"type": "TemplateProcessing", "special_tokens": {}, "pair": [],
      "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}"#;
    let (begin, end) =
        (WORDS.find(r#"{"type": "Bert"#).unwrap(), WORDS.find(",\n  \"model\"").unwrap());
    let words = [&WORDS[..begin], template, &WORDS[end..]].concat();
    let error = Tokenizer::from_bytes(words.as_bytes(), "tokenizer.json", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokenizer.json: post_processor.single: it names the token '[X]', which special_tokens has not"
    );
}

#[test]
fn a_file_with_which_the_library_panics_is_refused() {
    let error = |text: &str| {
        let read = Tokenizer::from_bytes(text.as_bytes(), "tokenizer.json", false);
        read.unwrap_err().to_string()
    };
    let cut = WORDS.replace(r#""decoder": null"#, r#""decoder": {"type": "ByteLevel" "#);
    let cut = error(&cut);
    assert!(cut.starts_with("tokenizer.json: it is no JSON: EOF while parsing"), "{cut}");
    let map = r#""normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}"#;
    let error = error(&WORDS.replace(r#""normalizer": null"#, map));
    assert!(error.starts_with("tokenizer.json: it is no tokenizer: "), "{error}");
}

#[test]
fn a_long_first_text_of_pairs_is_cut_once_and_gives_what_the_pair_gives() {
    let tokenizer = Tokenizer::from_bytes(WORDS.as_bytes(), "tokenizer.json", false).unwrap();
    let check = |(first, second): (usize, usize), truncation: Truncation| {
        let (first, second) = (letters(first), letters(second));
        let truncation = Some(truncation);
        let how = Encode { add_special_tokens: true, detail: Detail::Bytes, truncation };
        let split = tokenizer.first_of_pairs(&first, &how).unwrap();
        assert!(split.0.tokens.len() <= how.truncation.unwrap().max_length);
        let given = tokenizer.encode_pair(&split, &second, &how);
        assert_eq!(given, tokenizer.encode(&first, Some(&second), &how), "{how:?}");
    };
    for strategy in [Strategy::LongestFirst, Strategy::OnlyFirst, Strategy::OnlySecond] {
        for side in [Side::Left, Side::Right] {
            for lengths in [(0, 4), (2, 9), (7, 2), (8, 2), (9, 9), (14, 1), (14, 14), (14, 0)] {
                for max_length in [0, 2, 3, 4, 8, 9, 20] {
                    check(lengths, Truncation { max_length, strategy, side, stride: None });
                }
            }
        }
    }
}

/// A tokenizer whose tokens are characters, with this for its other parts.
fn of_characters(parts: &str) -> Tokenizer {
    let json = format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], {parts}, "decoder": null,
        "post_processor": null, "model": {{"type": "BPE", "vocab": {{"\u0120": 0, "x": 1, "y": 2}}, "merges": []}}}}"#
    );
    Tokenizer::from_bytes(json.as_bytes(), "tokenizer.json", false).unwrap()
}

const BYTES: &str =
    r#"{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true}"#;
const LLAMA: &str = r#"{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
  "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
  "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false,
  "use_regex": false}]}"#;
const WHOLE: Encode = Encode { add_special_tokens: true, detail: Detail::Bytes, truncation: None };

#[test]
fn the_last_of_any_number_of_blanks_belongs_to_the_word_behind_them() {
    for splitter in [BYTES, LLAMA] {
        let tokenizer =
            of_characters(&format!(r#""normalizer": null, "pre_tokenizer": {splitter}"#));
        for blanks in [1, 2, 3, 1000, 1_000_100] {
            let text = format!("x{}y", " ".repeat(blanks));
            let encoding = tokenizer.encode(&text, None, &WHOLE).unwrap();
            let window = &encoding.windows[0];
            assert_eq!(window.ids.len(), blanks + 2);
            let ends: Vec<usize> = (0..window.words.len())
                .filter(|&at| window.words.get(at + 1) != Some(&window.words[at]))
                .collect();
            let expect = match blanks {
                1 => vec![0, 2],
                _ => vec![0, blanks - 1, blanks + 1],
            };
            assert_eq!(ends, expect, "{blanks} blanks, {splitter}");
        }
    }
}

#[test]
fn an_expression_that_gives_up_is_an_error_of_its_text() {
    let open = r#"{"Regex": "(?:x(?!z))+"}"#;
    let split = format!(
        r#""normalizer": null, "pre_tokenizer":
        {{"type": "Split", "pattern": {open}, "behavior": "Isolated", "invert": false}}"#
    );
    let replace = format!(
        r#""normalizer": {{"type": "Replace", "pattern": {open}, "content": "y"}}, "pre_tokenizer": null"#
    );
    for parts in [split, replace] {
        let tokenizer = of_characters(&parts);
        tokenizer.encode(&"x".repeat(1000), None, &WHOLE).unwrap();
        let error = tokenizer.encode(&"x".repeat(1_100_000), None, &WHOLE).unwrap_err();
        let RowError::Tokenizer(problem) = &error else { panic!("{error}") };
        assert!(problem.contains("gives up on a part of 1100000 bytes"), "{problem}");
    }
}
