//! Features whose categories have names in the file: what numbers they may have, and what is wrong with others. Pure.

use std::collections::BTreeMap;

use backend::TextCodes;

/// Names of a feature that an error shows.
pub const SHOWN: usize = 20;

/// Texts of all features of a model that may be sent for their codes.
pub const KEPT: usize = 1 << 14;

/// Bytes of the texts of a feature.
pub const KEPT_BYTES: usize = 1 << 18;

/// Bytes of the texts of all features of a model.
const KEPT_BYTES_OF_MODEL: usize = 1 << 24;

/// Names of all features of a model that are there for errors only.
const SHOWN_OF_MODEL: usize = 1 << 16;

/// What the names of features of one model may still take, which is the same for all its features together.
#[derive(Debug)]
pub struct Allowance {
    texts: usize,
    bytes: usize,
    shown: usize,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { texts: KEPT, bytes: KEPT_BYTES_OF_MODEL, shown: SHOWN_OF_MODEL }
    }
}

impl Allowance {
    /// Those of a feature's names that are kept: all where they are texts and there is room, else those that an error
    /// shows.
    pub fn keep(&mut self, mut names: Vec<String>, are_texts: bool) -> Vec<String> {
        let bytes = names.iter().map(String::len).sum();
        let left = || Some((self.texts.checked_sub(names.len())?, self.bytes.checked_sub(bytes)?));
        match left().filter(|_| are_texts) {
            Some((texts, bytes)) => (self.texts, self.bytes) = (texts, bytes),
            None => {
                names.truncate(SHOWN.min(self.shown));
                names.shrink_to_fit();
                self.shown -= names.len();
            }
        }
        names
    }
}

/// A feature that was trained on categories with names: its numbers are their codes, counted from zero.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamedCategories {
    /// Its place in a row.
    pub feature: usize,
    /// How many categories it has.
    pub count: usize,
    /// Their names, or the first of them, as [`Allowance`] has it.
    pub names: Vec<String>,
    /// Are the names texts in the data of training, too? Others are numbers, or truths.
    pub are_texts: bool,
    /// Does the library take any other text, and a negative number, for a missing value? Otherwise it refuses them.
    pub others_are_missing: bool,
}

/// The codes of the texts that features may be sent as, by feature. None of a feature whose names are no texts, or not
/// all known.
pub fn text_codes(categories: &[NamedCategories]) -> BTreeMap<usize, TextCodes> {
    let is_known = |it: &&NamedCategories| it.are_texts && it.names.len() == it.count;
    let known = categories.iter().filter(is_known);
    let of = |it: &NamedCategories| TextCodes {
        codes: it.names.iter().cloned().zip(0..).collect(),
        others_are_missing: it.others_are_missing,
    };
    known.map(|it| (it.feature, of(it))).collect()
}

impl NamedCategories {
    /// Is that a code, or missing?
    fn takes(&self, value: f64) -> bool {
        let is_code = 0.0 <= value && value < self.count as f64 && value.fract() == 0.0;
        value.is_nan() || is_code || self.others_are_missing && value <= -1.0
    }

    /// The codes and their names.
    pub fn codes(&self) -> String {
        let code = |(code, name): (usize, &String)| {
            let name: String = name.chars().take(40).collect();
            format!("{code} for '{}'", name.escape_debug())
        };
        let mut codes: Vec<String> = self.names.iter().take(SHOWN).enumerate().map(code).collect();
        if codes.len() < self.count {
            codes.push(format!(".. up to {}", self.count.saturating_sub(1)));
        }
        codes.join(", ")
    }
}

/// A value that is no code of its feature's categories.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "row {row} has {value} in feature {feature}, which is no code of its categories: {codes}; send the code of a \
     category, or NaN where it is missing or was not there in training"
)]
pub struct UnknownCode {
    row: usize,
    value: f64,
    feature: String,
    codes: String,
}

/// The first value that is no code, in rows of so many features.
///
/// # Errors
/// Which it is, and which there are.
pub fn check<T: Copy + Into<f64>>(
    categories: &[NamedCategories],
    names: &[String],
    rows: &[T],
    features: usize,
) -> Result<(), UnknownCode> {
    for (number, row) in rows.chunks(features.max(1)).enumerate() {
        for it in categories {
            let Some(value) = row.get(it.feature).map(|it| (*it).into()) else { continue };
            if it.takes(value) {
                continue;
            }
            let feature = match names.get(it.feature) {
                Some(name) => format!("'{}'", name.escape_debug()),
                None => it.feature.to_string(),
            };
            return Err(UnknownCode { row: number + 1, value, feature, codes: it.codes() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_code_is_refused_with_the_codes() {
        let color = NamedCategories {
            feature: 1,
            count: 3,
            names: ["red", "green", "blue"].map(str::to_owned).into(),
            ..NamedCategories::default()
        };
        let names = ["x".to_owned(), "color".to_owned()];
        let check = |row: &[f32]| check(std::slice::from_ref(&color), &names, row, 2);
        assert_eq!(check(&[-7.5, 0.0, 1e9, 2.0, 0.0, f32::NAN]), Ok(()));
        for wrong in [3.0, -1.0, 0.5, f32::INFINITY] {
            let text = check(&[0.0, 1.0, 0.0, wrong]).unwrap_err().to_string();
            let expected = format!(
                "row 2 has {wrong} in feature 'color', which is no code of its categories: 0 for 'red', 1 for 'green', 2 \
                 for 'blue'; send the code"
            );
            assert!(text.starts_with(&expected), "{text}");
        }
    }

    #[test]
    fn negative_numbers_are_missing_where_the_library_says_so() {
        let of = |others_are_missing, value: f64| {
            let it = NamedCategories { count: 3, others_are_missing, ..NamedCategories::default() };
            check(&[it], &[], &[value], 1).is_ok()
        };
        assert!(of(true, -1.0) && of(true, -7.0));
        assert!(!of(true, -0.5) && !of(true, 3.0) && !of(false, -1.0));
    }

    #[test]
    fn texts_have_codes_where_all_of_them_are_known() {
        let of = |count, are_texts| {
            let names = ["red", "blue"].map(str::to_owned).into();
            text_codes(&[NamedCategories {
                feature: 4,
                count,
                names,
                are_texts,
                others_are_missing: true,
            }])
        };
        let codes = [("red".to_owned(), 0), ("blue".to_owned(), 1)].into();
        let expected = TextCodes { codes, others_are_missing: true };
        assert_eq!(of(2, true), [(4, expected)].into());
        assert!(of(3, true).is_empty() && of(2, false).is_empty());
    }

    #[test]
    fn all_names_of_a_feature_are_kept_or_those_that_are_shown() {
        let mut left = Allowance::default();
        let mut keep = |count: usize, length: usize, are_texts| {
            left.keep(vec!["x".repeat(length); count], are_texts).len()
        };
        assert_eq!(keep(KEPT + 1, 1, true), SHOWN);
        assert_eq!(keep(1000, 1, false), SHOWN);
        assert_eq!(keep(KEPT - 1, 1, true), KEPT - 1);
        assert_eq!(keep(2, 1, true), 2, "no more texts, those that are shown");
        assert_eq!(keep(1, KEPT_BYTES_OF_MODEL, true), 1);
        assert_eq!((keep(1, 1, true), keep(SHOWN + 1, 1, true)), (1, SHOWN));
        for _ in 0..SHOWN_OF_MODEL {
            keep(SHOWN, 1, false);
        }
        assert_eq!(keep(SHOWN, 1, false), 0);
    }

    #[test]
    fn of_many_categories_the_first_are_named() {
        let names = (0..2 * SHOWN).map(|it| it.to_string()).collect();
        let many = NamedCategories { count: 1000, names, ..NamedCategories::default() };
        let text = check(&[many], &[], &[1000.0_f32], 1).unwrap_err().to_string();
        assert!(
            text.contains("in feature 0,") && text.contains("19 for '19', .. up to 999;"),
            "{text}"
        );
    }
}
