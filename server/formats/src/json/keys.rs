//! The keys of an object, to find one that is repeated.

use std::{borrow::Cow, collections::HashSet};

use smallvec::SmallVec;

/// The keys of one object so far: a short list, then a set, so that many keys stay linear.
#[derive(Default)]
pub(super) struct Seen<'a> {
    few: SmallVec<[Cow<'a, str>; 8]>,
    /// Made when it is needed: most objects have few keys.
    many: Option<HashSet<Cow<'a, str>>>,
}

impl<'a> Seen<'a> {
    /// `false` when the key is there already.
    pub(super) fn insert(&mut self, key: Cow<'a, str>) -> bool {
        if self.few.contains(&key) {
            return false;
        }
        if self.few.len() < self.few.inline_size() {
            self.few.push(key);
            return true;
        }
        self.many.get_or_insert_default().insert(key)
    }
}
