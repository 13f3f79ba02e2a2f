//! Pairs whose first text is split once are those of the library.

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
