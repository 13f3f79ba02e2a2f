//! Names of categories, which LightGBM's package for Python writes behind the trees. Pure.

use serde_json::Value;

use super::lines::{Lines, text};
use crate::categories::{Allowance, KEPT, KEPT_BYTES, NamedCategories, SHOWN};

/// With what the line begins that has them: for each column of categories of a data frame a list, in JSON.
const NAMES: &[u8] = b"pandas_categorical:";

/// With what the line begins that says which features are categories.
const FEATURES: &[u8] = b"[categorical_feature: ";

/// The features that `feature_infos` has a list of categories for, and no range.
pub(super) fn features(infos: &str) -> Vec<usize> {
    let of_categories = |info: &str| info != "none" && !info.starts_with('[');
    let infos = infos.split_whitespace().enumerate();
    infos.filter(|(_, it)| of_categories(it)).map(|(feature, _)| feature).collect()
}

/// The features whose categories have names, in the lines behind the trees. `split` are those that are known to be
/// categories.
///
/// The lists are in the order of the features. Columns whose categories have an order have one, too, and are compared
/// as numbers: where there are more lists than features that the file calls categories, which belongs to which is not
/// said. Each feature then takes as many codes as the longest list has.
pub(super) fn read(lines: Lines<'_>, split: &[usize]) -> Vec<NamedCategories> {
    let (mut lists, mut named) = (Vec::new(), Vec::new());
    for line in lines {
        if let Some(json) = line.strip_prefix(NAMES) {
            lists = serde_json::from_slice::<Vec<Vec<Value>>>(json).unwrap_or_default();
        } else if let Some(list) = line.strip_prefix(FEATURES) {
            let list = text(list);
            let numbers = list.trim_end_matches(']').split(',');
            named = numbers.filter_map(|it| it.trim().parse().ok()).collect();
        }
    }
    let features: &[usize] = if named.is_empty() { split } else { &named };
    if lists.is_empty() {
        return Vec::new();
    }
    match lists.len() == features.len() {
        true => {
            let mut left = Allowance::default();
            let lists = features.iter().zip(&lists);
            lists.map(|(feature, list)| of(*feature, list, &mut left)).collect()
        }
        false => {
            let count = lists.iter().map(Vec::len).max().unwrap_or(0);
            let unknown =
                |feature: &usize| NamedCategories { feature: *feature, count, ..lightgbm() };
            features.iter().map(unknown).collect()
        }
    }
}

fn of(feature: usize, list: &[Value], left: &mut Allowance) -> NamedCategories {
    let mut bytes = KEPT_BYTES;
    let name = |it: &Value| {
        let name = it.as_str().map_or_else(|| it.to_string(), str::to_owned);
        bytes = bytes.checked_sub(name.len())?;
        Some(name)
    };
    let are_texts = list.iter().all(Value::is_string);
    let most = if are_texts { KEPT } else { SHOWN };
    let names = left.keep(list.iter().take(most).map_while(name).collect(), are_texts);
    NamedCategories { feature, count: list.len(), names, are_texts, ..lightgbm() }
}

/// Categories without anything in them, of which LightGBM takes what it does not know for missing.
fn lightgbm() -> NamedCategories {
    NamedCategories { others_are_missing: true, ..NamedCategories::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, split: &[usize], expected: &[(usize, usize, &[&str])]) {
        let found = read(Lines::new(text.as_bytes()), split);
        let found: Vec<_> = found.into_iter().map(|it| (it.feature, it.count, it.names)).collect();
        let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let expected: Vec<_> = expected
            .iter()
            .map(|(feature, count, names)| (*feature, *count, owned(names)))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn lists_belong_to_the_features_of_categories_in_their_order() {
        let text = "parameters:\n[categorical_feature: 1,4]\nend of parameters\n\n\
                    pandas_categorical:[[\"red\", \"blue\"], [10, 20, 30]]\n";
        check(text, &[], &[(1, 2, &["red", "blue"]), (4, 3, &["10", "20", "30"])]);
        check("pandas_categorical:[[true, false]]", &[3], &[(3, 2, &["true", "false"])]);
    }

    #[test]
    fn of_numbers_no_more_names_are_kept_than_are_shown() {
        let count = |value: &str| {
            let text = format!("pandas_categorical:[[{value}{}]]", format!(",{value}").repeat(99));
            read(Lines::new(text.as_bytes()), &[0])[0].names.len()
        };
        assert_eq!((count("7"), count("\"7\"")), (SHOWN, 100));
    }

    #[test]
    fn without_names_there_is_nothing_to_check() {
        for text in
            ["", "pandas_categorical:null", "pandas_categorical:[]", "pandas_categorical:[["]
        {
            check(text, &[1], &[]);
        }
    }

    #[test]
    fn where_a_list_belongs_to_an_ordered_column_the_longest_bounds_all_codes() {
        check("pandas_categorical:[[1, 2], [1, 2, 3]]", &[5], &[(5, 3, &[])]);
    }

    #[test]
    fn a_feature_with_a_list_in_place_of_a_range_is_one_of_categories() {
        assert_eq!(features("[-3.7:3.06] -1:1:0:2 none 0:1 [0:1]"), [1, 3]);
    }
}
