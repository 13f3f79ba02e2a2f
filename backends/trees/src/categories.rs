//! Features whose categories have names in the file: what numbers they may have, and what is wrong with others. Pure.

/// Names that are kept of a feature, for errors.
pub const SHOWN: usize = 20;

/// A feature that was trained on categories with names: its numbers are their codes, counted from zero.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamedCategories {
    /// Its place in a row.
    pub feature: usize,
    /// How many categories it has.
    pub count: usize,
    /// The first [`SHOWN`] of their names.
    pub names: Vec<String>,
}

impl NamedCategories {
    /// Is that a code, or missing?
    fn takes(&self, value: f64) -> bool {
        value.is_nan() || 0.0 <= value && value < self.count as f64 && value.fract() == 0.0
    }

    /// The codes and their names.
    fn codes(&self) -> String {
        let code = |(code, name): (usize, &String)| {
            let name: String = name.chars().take(40).collect();
            format!("{code} for '{}'", name.escape_debug())
        };
        let mut codes: Vec<String> = self.names.iter().enumerate().map(code).collect();
        if codes.len() < self.count {
            codes.push(format!(".. up to {}", self.count.saturating_sub(1)));
        }
        codes.join(", ")
    }
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
) -> Result<(), String> {
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
            return Err(format!(
                "row {} has {value} in feature {feature}, which is no code of its categories: {}; send the code of a \
                 category, or NaN where it is missing or was not there in training",
                number + 1,
                it.codes()
            ));
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
        };
        let names = ["x".to_owned(), "color".to_owned()];
        let check = |row: &[f32]| check(std::slice::from_ref(&color), &names, row, 2);
        assert_eq!(check(&[-7.5, 0.0, 1e9, 2.0, 0.0, f32::NAN]), Ok(()));
        for wrong in [3.0, -1.0, 0.5, f32::INFINITY] {
            let text = check(&[0.0, 1.0, 0.0, wrong]).unwrap_err();
            let expected = format!(
                "row 2 has {wrong} in feature 'color', which is no code of its categories: 0 for 'red', 1 for 'green', 2 \
                 for 'blue'; send the code"
            );
            assert!(text.starts_with(&expected), "{text}");
        }
    }

    #[test]
    fn of_many_categories_the_first_are_named() {
        let names = (0..SHOWN).map(|it| it.to_string()).collect();
        let many = NamedCategories { feature: 0, count: 1000, names };
        let text = check(&[many], &[], &[1000.0_f32], 1).unwrap_err();
        assert!(
            text.contains("in feature 0,") && text.contains("19 for '19', .. up to 999;"),
            "{text}"
        );
    }
}
