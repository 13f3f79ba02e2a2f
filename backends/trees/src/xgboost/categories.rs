//! Names of categories as XGBoost writes them from 3.1 on: for each feature a list of texts, or of numbers.

use crate::{
    categories::{Allowance, KEPT, KEPT_BYTES, NamedCategories, SHOWN},
    error::FormatError,
    xgboost::source::Source,
};

/// Reads the categories of the feature of that number; `None` where it has none.
///
/// Texts are in `values`, a number for each byte, and `offsets` say where each begins and where the last one ends.
/// Numbers are in `values` themselves.
pub(super) fn read<S: Source>(
    source: &mut S,
    feature: usize,
    left: &mut Allowance,
) -> Result<Option<NamedCategories>, FormatError> {
    let (mut offsets, mut boundaries, mut are_texts) = (Vec::new(), 0_usize, false);
    let (mut bytes, mut numbers, mut values) = (Vec::new(), Vec::new(), 0_usize);
    source.object(|source, key| match key {
        "offsets" => {
            are_texts = true;
            source.array(|source| {
                boundaries += 1;
                let offset = source.text()?;
                if offsets.len() <= KEPT {
                    offsets.push(offset.parse::<usize>().unwrap_or(usize::MAX));
                }
                Ok(())
            })
        }
        "values" => source.array(|source| {
            values += 1;
            if KEPT_BYTES <= bytes.len() {
                return source.skip();
            }
            let value = source.text()?;
            // Bytes are written with a sign.
            bytes.push(value.parse::<i16>().unwrap_or(0) as u8);
            if !are_texts && numbers.len() < SHOWN {
                numbers.push(value);
            }
            Ok(())
        }),
        _ => source.skip(),
    })?;
    let (count, names) = match are_texts {
        true => {
            let text = |it: &[usize]| bytes.get(it[0]..it[1]).map(String::from_utf8_lossy);
            let texts = offsets.windows(2).map_while(text).map(|it| it.into_owned());
            (boundaries.saturating_sub(1), texts.collect())
        }
        false => (values, numbers),
    };
    let names = left.keep(names, are_texts);
    let named = NamedCategories { feature, count, names, are_texts, others_are_missing: false };
    Ok((0 < count).then_some(named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xgboost::json::Json;

    fn found(json: &str, left: &mut Allowance) -> Option<NamedCategories> {
        read(&mut Json::new(json.as_bytes()), 7, left).unwrap()
    }

    #[track_caller]
    fn check(json: &str, expected: Option<(usize, &[&str])>) {
        let found = found(json, &mut Allowance::default());
        let found = found.map(|it| (it.feature, it.count, it.names));
        let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(found, expected.map(|(count, names)| (7, count, owned(names))), "{json}");
    }

    #[test]
    fn all_features_share_what_their_texts_may_take() {
        let list = |it: &[usize]| it.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let texts = |count| {
            let (offsets, values) = ((0..=count).collect::<Vec<_>>(), vec![97; count]);
            format!(r#"{{"offsets": [{}], "values": [{}]}}"#, list(&offsets), list(&values))
        };
        let mut left = Allowance::default();
        let mut names = |json: &str| found(json, &mut left).map_or(0, |it| it.names.len());
        assert_eq!(names(&texts(KEPT - 100)), KEPT - 100);
        assert_eq!(names(&texts(101)), SHOWN);
        assert_eq!(names(&texts(100)), 100);
        let numbers = format!(r#"{{"type": 15, "values": [{}]}}"#, list(&[7; 100]));
        assert_eq!(names(&numbers), SHOWN);
    }

    #[test]
    fn categories_are_texts_or_numbers_or_not_there() {
        check(r#"{"offsets": [], "values": []}"#, None);
        let texts = r#"{"offsets": [0, 3, 5], "values": [114, 101, 100, -61, -92]}"#;
        check(texts, Some((2, &["red", "ä"])));
        check(r#"{"type": 15, "values": [10, 20, 30]}"#, Some((3, &["10", "20", "30"])));
        // What is broken costs the names only.
        check(r#"{"offsets": [0, 9, 3], "values": [114]}"#, Some((2, &[])));
    }
}
