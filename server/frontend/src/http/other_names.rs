//! Names that clients give models which are called otherwise: each is worth one line of the log.

use std::{
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

/// Most names that are remembered. Those beyond are not logged.
const MOST: usize = 64;

/// The names that have been logged.
#[derive(Debug, Default)]
pub struct OtherNames(RwLock<BTreeSet<String>>);

impl OtherNames {
    /// Is this the first request with that name?
    pub fn is_new(&self, name: &str) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains(name) || MOST <= known.len() {
            return false;
        }
        drop(known);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_new_once_and_no_client_makes_the_list_long() {
        let names = OtherNames::default();
        assert!(names.is_new("a") && !names.is_new("a"));
        let new = (0..1000).filter(|it| names.is_new(&it.to_string())).count();
        assert_eq!(new, MOST - 1);
    }
}
