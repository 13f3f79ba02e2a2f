//! Names of operations and schemas, from which clients make names of functions and types. Pure.

use std::collections::BTreeSet;

/// The names of one document, no two of which are alike.
#[derive(Debug, Default)]
pub struct Names(BTreeSet<String>);

impl Names {
    /// A name of letters, digits and `_` like this one, which no other has.
    pub fn new_like(&mut self, text: &str) -> String {
        let name = plain(text);
        let mut found = name.clone();
        let mut number = 1;
        // Clients write names in one case or another.
        while !self.0.insert(found.to_ascii_lowercase()) {
            number += 1;
            found = format!("{name}_{number}");
        }
        found
    }
}

/// The text with `_` for all but letters and digits, and without two of them behind each other.
pub fn plain(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_ascii_alphanumeric() {
            true => name.push(letter),
            false if name.ends_with('_') => {}
            false => name.push('_'),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_no_two_are_alike() {
        let mut names = Names::default();
        let mut check = |text: &str, expect: &str| assert_eq!(names.new_like(text), expect);
        check("infer_a", "infer_a");
        check("infer_a/b.c", "infer_a_b_c");
        check("infer_a-b--c", "infer_a_b_c_2");
        check("infer_A", "infer_A_2");
        check("infer_ä", "infer_");
    }
}
