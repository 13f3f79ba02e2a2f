//! A list that asks for its memory before it grows.

use std::{mem, ops::Deref};

use crate::{error::Error, grant::Grant};

/// The least room that a list has which is not empty, in elements.
const LEAST: usize = 4;

/// A list that grows by doubling. Its [`Grant`] is asked for the larger block while the smaller one is still held, as
/// both are there while the elements move. What the list held is given back when it is dropped.
#[derive(Debug)]
pub struct Granted<'g, T> {
    list: Vec<T>,
    grant: &'g Grant,
}

impl<'g, T> Granted<'g, T> {
    /// An empty one, which holds nothing.
    pub fn new(grant: &'g Grant) -> Granted<'g, T> {
        Granted { list: Vec::new(), grant }
    }

    /// Who is asked.
    pub fn grant(&self) -> &'g Grant {
        self.grant
    }

    /// Adds an element.
    ///
    /// # Errors
    /// The list would have to grow, and that is refused.
    #[inline]
    pub fn push(&mut self, element: T) -> Result<(), Error> {
        if self.list.len() == self.list.capacity() {
            self.grow(1)?;
        }
        self.list.push(element);
        Ok(())
    }

    /// Makes room for so many elements more.
    ///
    /// # Errors
    /// It is refused.
    #[inline]
    pub fn reserve(&mut self, more: usize) -> Result<(), Error> {
        match self.list.capacity() - self.list.len() < more {
            true => self.grow(more),
            false => Ok(()),
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Result<(), Error> {
        let (length, before) = (self.list.len(), self.list.capacity());
        let capacity = length.saturating_add(more).max(before.saturating_mul(2)).max(LEAST);
        self.grant.hold(bytes::<T>(capacity))?;
        self.list.reserve_exact(capacity - length);
        self.grant.give_back(bytes::<T>(before));
        Ok(())
    }

    /// Sorts the elements. Those of one key stay in their order.
    ///
    /// # Errors
    /// The memory that sorting takes is refused.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) -> Result<(), Error> {
        /// The least buffer of the sort.
        const LEAST_BUFFER: usize = 4 << 10;
        let buffer = bytes::<T>(self.list.len()).max(LEAST_BUFFER);
        self.grant.hold(buffer)?;
        self.list.sort_by_key(key);
        self.grant.give_back(buffer);
        Ok(())
    }

    /// Leaves so many elements.
    pub fn truncate(&mut self, length: usize) {
        self.list.truncate(length);
    }

    /// Leaves no element, and keeps the room for them.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The elements, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.list
    }

    /// The list itself, for work that makes it no longer than the room that was made for it.
    pub fn within_room(&mut self) -> &mut Vec<T> {
        &mut self.list
    }

    /// The list as it is. What it holds stays granted.
    pub fn into_vec(mut self) -> Vec<T> {
        mem::take(&mut self.list)
    }
}

impl<T: Copy> Granted<'_, T> {
    /// Adds these elements.
    ///
    /// # Errors
    /// The list would have to grow, and that is refused.
    #[inline]
    pub fn extend_from_slice(&mut self, elements: &[T]) -> Result<(), Error> {
        self.reserve(elements.len())?;
        self.list.extend_from_slice(elements);
        Ok(())
    }

    /// Adds the same element so many times.
    ///
    /// # Errors
    /// The list would have to grow, and that is refused.
    pub fn push_times(&mut self, element: T, times: usize) -> Result<(), Error> {
        self.reserve(times)?;
        self.list.resize(self.list.len() + times, element);
        Ok(())
    }
}

impl<T> Deref for Granted<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.list
    }
}

impl<T> Drop for Granted<'_, T> {
    fn drop(&mut self) {
        self.grant.give_back(bytes::<T>(self.list.capacity()));
    }
}

/// Bytes of so many elements.
const fn bytes<T>(elements: usize) -> usize {
    elements.saturating_mul(size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Budget;

    #[test]
    fn both_blocks_are_held_while_a_list_moves_and_one_afterwards() {
        let grant = Grant::all(0);
        let mut list = Granted::new(&grant);
        (0..4).try_for_each(|it: u64| list.push(it)).unwrap();
        assert_eq!((grant.held(), grant.granted()), (4 * 8, 4 * 8));
        list.push(4).unwrap();
        assert_eq!((grant.held(), grant.granted()), (8 * 8, 12 * 8));
        assert_eq!(*list, [0, 1, 2, 3, 4]);
        drop(list);
        assert_eq!((grant.held(), grant.granted()), (0, 12 * 8));
    }

    #[test]
    fn a_list_of_known_length_is_asked_for_once_and_stays_held_where_it_is_kept() {
        let grant = Grant::all(0);
        let mut list = Granted::new(&grant);
        list.reserve(1000).unwrap();
        list.push_times(1u16, 999).unwrap();
        list.extend_from_slice(&[2]).unwrap();
        let list = list.into_vec();
        assert_eq!((list.len(), list.capacity()), (1000, 1000));
        assert_eq!((grant.held(), grant.granted()), (2000, 2000));
    }

    #[test]
    fn a_list_does_not_grow_where_that_is_refused() {
        let budget = Budget::new(1 << 20);
        let grant = Grant::of(budget.take(0).unwrap(), 0);
        let mut list = Granted::new(&grant);
        let refused = (0..1u64 << 20).find_map(|it| list.push(it).err());
        assert!(matches!(refused, Some(Error::NeverFits { .. })));
        assert!(list.len() == 1 << 16 && budget.used() <= 1 << 20, "{}", list.len());
        assert_eq!(list.within_room().capacity(), 1 << 16);
    }
}
