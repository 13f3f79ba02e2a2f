//! Frames of speech to text: the best class of each, runs of one class merged, blanks dropped.

use super::function::argmax;
use crate::{error::RowError, folder::CtcVocabulary, outputs::RowOutput};

/// The text of one row of `[frames, classes]`.
///
/// # Errors
/// When the output has another shape, or a value is no number.
pub fn spell(output: &RowOutput<'_>, vocabulary: &CtcVocabulary) -> Result<String, RowError> {
    let &[frames, classes] = output.dims.as_slice() else {
        return Err(wrong(output, "[frames, classes]"));
    };
    if classes == 0 || output.values.len() != frames * classes {
        return Err(wrong(output, "[frames, classes] with at least one class"));
    }
    if let Some(position) = output.values.iter().position(|it| it.is_nan()) {
        return Err(RowError::NotANumber { output: output.name.to_owned(), position });
    }
    Ok(text_of(output.values.chunks_exact(classes).map(argmax), vocabulary))
}

fn wrong(output: &RowOutput<'_>, expected: &str) -> RowError {
    let problem = format!("a row has the shape {:?}, not {expected}", output.dims);
    RowError::Output { output: output.name.to_owned(), problem }
}

/// The text of a class for each frame.
fn text_of(classes: impl Iterator<Item = usize>, vocabulary: &CtcVocabulary) -> String {
    let mut text = String::new();
    let mut last = None;
    for class in classes {
        let token = vocabulary.tokens.get(class).and_then(Option::as_deref);
        let token = token.unwrap_or(&vocabulary.unknown);
        // By the token: two classes of one spelling are one sound, as in the reference.
        if last.replace(token) == Some(token) || vocabulary.blank.as_deref() == Some(token) {
            continue;
        }
        let is_between = vocabulary.delimiter.as_deref() == Some(token);
        text.push_str(if is_between { &vocabulary.space } else { token });
    }
    let mut text = text.trim_matches(is_blank).to_owned();
    if vocabulary.lower_case {
        text = text.to_lowercase();
    }
    match vocabulary.clean_up {
        true => cleaned(text),
        false => text,
    }
}

/// What Python takes for white space: four separators more than Unicode's property has.
fn is_blank(it: char) -> bool {
    it.is_whitespace() || ('\x1c'..='\x1f').contains(&it)
}

/// Without the blanks that English does not have in front of punctuation and short forms.
fn cleaned(mut text: String) -> String {
    const FORMS: [(&str, &str); 10] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    for (given, meant) in FORMS {
        text = text.replace(given, meant);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> CtcVocabulary {
        let tokens = ["_", "|", "A", "B", "A", "'"].map(|it| Some(it.into()));
        CtcVocabulary {
            tokens: tokens.into_iter().chain([None]).collect(),
            blank: Some("_".into()),
            delimiter: Some("|".into()),
            space: " ".into(),
            unknown: "<unk>".into(),
            lower_case: false,
            clean_up: false,
        }
    }

    #[track_caller]
    fn check(classes: &[usize], vocabulary: &CtcVocabulary, expect: &str) {
        assert_eq!(text_of(classes.iter().copied(), vocabulary), expect);
    }

    #[test]
    fn runs_are_merged_and_blanks_are_dropped() {
        let usual = vocabulary();
        check(&[2, 2, 0, 2, 3, 3, 0, 0], &usual, "AAB");
        check(&[1, 1, 2, 1, 0, 1, 3, 1], &usual, "A  B");
        check(&[0, 0], &usual, "");
        check(&[], &usual, "");
    }

    #[test]
    fn classes_of_one_spelling_are_one() {
        check(&[2, 4, 2], &vocabulary(), "A");
        check(&[6, 99, 2], &vocabulary(), "<unk>A");
    }

    #[test]
    fn the_folder_says_how_the_text_looks() {
        check(&[2, 3], &CtcVocabulary { lower_case: true, ..vocabulary() }, "ab");
        check(&[2, 1, 3], &CtcVocabulary { delimiter: None, ..vocabulary() }, "A|B");
        check(&[2, 0], &CtcVocabulary { blank: None, ..vocabulary() }, "A_");
        check(&[2, 1, 3], &CtcVocabulary { space: "-".into(), ..vocabulary() }, "A-B");
        let clean_up = CtcVocabulary { clean_up: true, ..vocabulary() };
        check(&[2, 1, 5, 1, 3], &clean_up, "A'B");
    }

    #[test]
    fn the_best_class_of_each_frame_counts() {
        let run = |dims: &[usize], values: &[f32]| {
            let output =
                RowOutput { name: "logits", dims: dims.to_vec(), values: values.to_vec().into() };
            spell(&output, &vocabulary()).map_err(|it| it.to_string())
        };
        assert_eq!(run(&[2, 3], &[0.0, 1.0, 2.0, 5.0, 1.0, 2.0]), Ok("A".to_owned()));
        let text = "the model's output 'logits' is not a number at position 1";
        assert_eq!(run(&[1, 3], &[0.0, f32::NAN, 2.0]), Err(text.to_owned()));
        let text = "the model's output 'logits': a row has the shape [3], not [frames, classes]";
        assert_eq!(run(&[3], &[0.0; 3]), Err(text.to_owned()));
        assert!(run(&[1, 0], &[]).is_err());
    }
}
