//! Sets of categories, and whether a number is in one. Pure.

use crate::{forest::document::NegativeFraction, limits};

/// Sets, each by its number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CategorySets {
    sets: Vec<Set>,
    /// Words of bits, or members in ascending order, of one set behind the other.
    words: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Set {
    start: u32,
    length: u32,
    form: Form,
    members_go_left: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// A bit for each category.
    Bits,
    /// The members, where bits would take more memory.
    List,
}

impl CategorySets {
    /// Adds a set and returns its number. Takes no more words than twice its members, and some.
    pub fn push(&mut self, members: &[u32], members_go_left: bool) -> usize {
        let start = self.words.len();
        let words = members.iter().max().map_or(0, |it| *it as usize / 32 + 1);
        let form = match words <= 2 * members.len() + 8 {
            true => {
                self.words.resize(start + words, 0);
                members.iter().for_each(|it| {
                    self.words[start + *it as usize / 32] |= 1 << (it % 32);
                });
                Form::Bits
            }
            false => {
                self.words.extend(members);
                self.words[start..].sort_unstable();
                Form::List
            }
        };
        let length = self.words.len() - start;
        // Both fit: a model has fewer members than a file of 2 GiB has bytes.
        self.sets.push(Set { start: start as u32, length: length as u32, form, members_go_left });
        self.sets.len() - 1
    }

    /// Does a value that is not missing go left at the set of that number?
    pub fn go_left(&self, set: usize, value: f64, fraction: NegativeFraction) -> bool {
        let Set { start, length, form, members_go_left } = self.sets[set];
        let words = &self.words[start as usize..(start + length) as usize];
        let is_negative = match fraction {
            NegativeFraction::Negative => value < 0.0,
            NegativeFraction::Zero => value <= -1.0,
        };
        let is_category = !is_negative && value < f64::from(limits::CATEGORIES);
        // The integer part; zero for a fraction below zero.
        let category = value as u32;
        let is_member = is_category
            && match form {
                Form::Bits => words
                    .get(category as usize / 32)
                    .is_some_and(|it| it >> (category % 32) & 1 != 0),
                Form::List => words.binary_search(&category).is_ok(),
            };
        is_member == members_go_left
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(members: &[u32], value: f64, fraction: NegativeFraction, expect: bool) {
        for members_go_left in [true, false] {
            let mut sets = CategorySets::default();
            sets.push(&[0, 1, 2], false);
            let set = sets.push(members, members_go_left);
            assert_eq!(sets.go_left(set, value, fraction) == members_go_left, expect, "{value}");
        }
    }

    #[test]
    fn the_integer_part_decides() {
        use NegativeFraction::Negative;
        for members in [[3, 40, 41].as_slice(), &[3, 40, 16_777_215]] {
            check(members, 3.0, Negative, true);
            check(members, 3.7, Negative, true);
            check(members, 2.9, Negative, false);
            check(members, 40.0, Negative, true);
            check(members, 39.0, Negative, false);
        }
        check(&[3, 16_777_215], 16_777_215.0, Negative, true);
    }

    #[test]
    fn what_is_no_category_is_in_no_set() {
        for value in [-1.0, -1e30, 16_777_216.0, f64::INFINITY, f64::NEG_INFINITY] {
            check(&[0], value, NegativeFraction::Negative, false);
            check(&[0], value, NegativeFraction::Zero, false);
        }
        check(&[], 0.0, NegativeFraction::Negative, false);
    }

    #[test]
    fn a_fraction_below_zero_is_what_the_library_takes_it_for() {
        check(&[0], -0.5, NegativeFraction::Negative, false);
        check(&[0], -0.5, NegativeFraction::Zero, true);
    }

    #[test]
    fn a_set_of_large_numbers_takes_no_more_memory_than_its_members() {
        let mut sets = CategorySets::default();
        for _ in 0..1000 {
            sets.push(&[16_777_215], true);
        }
        assert_eq!(sets.words.len(), 1000);
    }
}
