//! Words that were seen have the tokens of the crate, and go with their model.

use allocation_counter::measure;

use super::*;

const PAIRS: &str = r#"{"type": "BPE", "unk_token": "u", "vocab": {"u": 0, "a": 1, "b": 2, "ab": 3, "abab": 4, "é": 5, "ba": 6},
  "merges": ["a b", "ab ab"]}"#;

fn ours() -> WordModel {
    serde_json::from_str(PAIRS).unwrap()
}

/// The same, where words of the vocabulary are tokens that no merge need make.
fn without_merges() -> String {
    PAIRS.replace(r#""unk_token""#, r#""ignore_merges": true, "unk_token""#)
}

/// Words of `len` bytes, all different.
fn words(len: usize) -> impl Iterator<Item = String> {
    (0_u64..).map(move |it| {
        (0..len).map(|at| if it >> (at % 64) & 1 == 0 { 'a' } else { 'b' }).collect()
    })
}

#[test]
fn tokens_are_those_of_the_crate_the_first_time_and_when_they_are_known() {
    for json in [PAIRS, &without_merges()] {
        let ours: WordModel = serde_json::from_str(json).unwrap();
        let crates: ModelWrapper = serde_json::from_str(json).unwrap();
        let odd = ["", "ba", "bab", "éab", "xé", "abababab", "ab ab", "xxxx"].map(str::to_owned);
        let long = [1, 2, LONGEST, LONGEST + 1].map(|it| "ab".repeat(it)[..it].to_owned());
        for word in odd.into_iter().chain(long).chain(words(14).take(2 * SLOTS)) {
            let expect = crates.tokenize(&word).unwrap();
            for _ in 0..2 {
                assert_eq!(ours.tokenize(&word).unwrap(), expect, "{word:?}");
            }
        }
    }
}

#[test]
fn a_model_that_is_dropped_leaves_no_word_behind() {
    // What the crate makes once.
    ours().tokenize("ab").unwrap();
    let left = measure(|| {
        let model = ours();
        for word in words(20).take(1000) {
            model.tokenize(&word).unwrap();
        }
    });
    assert_eq!(left.bytes_current, 0);
}

#[test]
fn words_take_a_bounded_memory() {
    let model = ours();
    let taken = measure(|| {
        for word in words(LONGEST).take(4 * SLOTS) {
            model.tokenize(&word).unwrap();
        }
        model.tokenize(&"x".repeat(1 << 20)).unwrap();
    });
    assert!((1 << 20..8 << 20).contains(&taken.bytes_current), "{taken:?}");
}
