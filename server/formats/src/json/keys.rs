//! The keys of an object, to find one that is repeated.

use std::{borrow::Cow, collections::HashSet};

use smallvec::SmallVec;

use inference::{error::Error, grant::Grant};

/// The keys of one object so far: a short list, then a set, so that many keys stay linear.
pub(super) struct Seen<'a> {
    few: SmallVec<[Cow<'a, str>; 8]>,
    /// Made when it is needed: most objects have few keys.
    many: Option<HashSet<Cow<'a, str>>>,
    grant: &'a Grant,
    /// Bytes of the set and of the copies, which are given back with it.
    held: usize,
}

impl<'a> Seen<'a> {
    /// None yet.
    pub(super) fn of(grant: &'a Grant) -> Seen<'a> {
        Seen { few: SmallVec::new(), many: None, grant, held: 0 }
    }

    /// `false` when the key is there already.
    ///
    /// # Errors
    /// The memory for it is not granted.
    // It is copied once the memory for that is granted.
    #[allow(clippy::ptr_arg)]
    pub(super) fn insert(&mut self, key: &Cow<'a, str>) -> Result<bool, Error> {
        if self.few.contains(key) {
            return Ok(false);
        }
        self.hold(copied(key))?;
        if self.few.len() < self.few.inline_size() {
            self.few.push(key.clone());
            return Ok(true);
        }
        let (length, room) = self.many.as_ref().map_or((0, 0), |it| (it.len(), it.capacity()));
        if length == room {
            let before = table(room);
            self.hold(table(room + 1))?;
            self.many.get_or_insert_default().reserve(1);
            self.held -= before;
            self.grant.give_back(before);
        }
        Ok(self.many.get_or_insert_default().insert(key.clone()))
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        self.grant.hold(bytes)?;
        self.held += bytes;
        Ok(())
    }
}

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        self.grant.give_back(self.held);
    }
}

/// Bytes that a copy of that text takes.
// What is borrowed takes none.
#[allow(clippy::ptr_arg)]
pub(super) fn copied(text: &Cow<'_, str>) -> usize {
    match text {
        Cow::Borrowed(_) => 0,
        Cow::Owned(text) => text.len(),
    }
}

/// Bytes of a set with room for so many keys: places for a power of two, of which an eighth stays empty, each with a
/// byte beside it, and a group of such bytes at the end.
fn table(keys: usize) -> usize {
    const GROUP: usize = 16;
    let places = match keys {
        0 => return 0,
        1..8 => (keys + 1).next_power_of_two().max(4),
        _ => (keys.saturating_mul(8) / 7).next_power_of_two(),
    };
    places.saturating_mul(size_of::<Cow<'_, str>>() + 1) + GROUP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_takes_no_more_than_it_asks_for() {
        let keys: Vec<String> = (0..10_000).map(|it| format!("{it:x}")).collect();
        for count in [1, 9, 15, 16, 29, 100, 1_000, 10_000] {
            let grant = Grant::all(0);
            let insert = || {
                let mut seen = Seen::of(&grant);
                let keys = keys.iter().take(count);
                keys.for_each(|it| assert_eq!(seen.insert(&Cow::Borrowed(it)), Ok(true)));
            };
            let most = allocation_counter::measure(insert).bytes_max;
            assert!(most <= grant.granted() as u64, "{count}: {most} of {}", grant.granted());
            assert!(grant.granted() as u64 <= 2 * most, "{count}: {most} of {}", grant.granted());
            assert_eq!(grant.held(), 0);
        }
    }
}
