//! What the server takes on at once, in bytes and in connections: permits that free themselves.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::error::Error;

/// Units of the largest permit where memory is scarce: a request of the usual size.
const MOST_WHERE_SCARCE: usize = 1 << 20;

/// A number of units of which parts can be taken and are given back when their [`Permit`] is dropped.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// Are large permits refused, whatever is left?
    is_scarce: AtomicBool,
}

impl Budget {
    /// A budget of `limit` units.
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicUsize::new(0), is_scarce: AtomicBool::new(false) })
    }

    /// Units taken at present.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Units that can be taken in all.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Units that can still be taken at present.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Is memory scarce, so that large permits are refused?
    pub fn is_scarce(&self) -> bool {
        self.is_scarce.load(Ordering::Relaxed)
    }

    /// From now on memory is scarce, or is not any more. Permits that are taken stay as they are.
    pub fn set_scarce(&self, is_scarce: bool) {
        self.is_scarce.store(is_scarce, Ordering::Relaxed);
    }

    /// May a permit be so large?
    fn allows(&self, units: usize) -> bool {
        units <= MOST_WHERE_SCARCE || !self.is_scarce()
    }

    /// Takes `units`; `None` when so many are not left, or are many and memory is scarce.
    pub fn take(self: &Arc<Budget>, units: usize) -> Option<Permit> {
        (self.allows(units) && self.reserve(units)).then(|| Permit { budget: self.clone(), units })
    }

    fn reserve(&self, units: usize) -> bool {
        let add = |used: usize| used.checked_add(units).filter(|&it| it <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }
}

/// A part of a [`Budget`].
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    units: usize,
}

impl Permit {
    /// Makes this permit at least `units` large. False when the budget has no more, or that is much and memory is
    /// scarce.
    pub fn grow_to(&mut self, units: usize) -> bool {
        let more = units.saturating_sub(self.units);
        let granted = more == 0 || self.budget.allows(units) && self.budget.reserve(more);
        if granted {
            self.units = self.units.max(units);
        }
        granted
    }

    /// Makes this permit larger by `more`. False when the budget has not so much.
    pub fn grow_by(&mut self, more: usize) -> bool {
        self.units.checked_add(more).is_some_and(|units| self.grow_to(units))
    }

    /// Makes this permit larger by `more` bytes, for what is about to be made of a request.
    ///
    /// # Errors
    /// [`Error::NeverFits`] where no other permit is in the way, so that to come back later does not help;
    /// [`Error::OutOfBudget`] otherwise.
    pub fn make_room(&mut self, more: usize) -> Result<(), Error> {
        if self.grow_by(more) {
            return Ok(());
        }
        Err(match self.is_alone() {
            true => Error::NeverFits {
                needed: self.units.saturating_add(more),
                limit: self.budget.limit,
            },
            false => out_of_bytes(&self.budget),
        })
    }

    /// Makes this permit at least `units` large, whether the budget has them or not: for what is in memory
    /// already. Others are refused until it is gone.
    pub fn cover(&mut self, units: usize) {
        let more = units.saturating_sub(self.units);
        if 0 < more {
            self.budget.used.fetch_add(more, Ordering::Relaxed);
            self.units += more;
        }
    }

    /// Makes this permit exactly `units` large, whether the budget has them or not.
    pub fn resize(&mut self, units: usize) {
        if units < self.units {
            self.budget.used.fetch_sub(self.units - units, Ordering::Relaxed);
            self.units = units;
        } else {
            self.cover(units);
        }
    }

    /// The budget that it is a part of.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Bytes, or other units, that it covers.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Is all that is taken of the budget taken by this permit, so that it will never get more than now? No permit is
    /// where memory is scarce, which passes.
    pub fn is_alone(&self) -> bool {
        self.budget.used() <= self.units && !self.budget.is_scarce()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.units, Ordering::Relaxed);
    }
}

/// The error of a request for whose body the byte budget has no room.
pub fn out_of_bytes(budget: &Budget) -> Error {
    if budget.is_scarce() {
        return Error::OutOfBudget(format!(
            "memory is nearly used up: until it is not, a request may take {MOST_WHERE_SCARCE} bytes at most"
        ));
    }
    Error::OutOfBudget(format!(
        "request bodies already take {} of the {} bytes allowed (--max-inflight-bytes)",
        budget.used(),
        budget.limit
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_gives_back_what_it_took() {
        let budget = Budget::new(10);
        let permit = budget.take(7).unwrap();
        assert!(budget.take(4).is_none());
        assert_eq!(budget.used(), 7);
        drop(permit);
        assert!(budget.take(10).is_some());
    }

    #[test]
    fn a_permit_grows_within_the_budget_and_gives_all_of_it_back() {
        let budget = Budget::new(10);
        let mut permit = budget.take(0).unwrap();
        assert!(permit.grow_to(10));
        assert!(permit.grow_to(5));
        assert!(!permit.grow_to(11));
        drop(permit);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_there_already_counts_even_beyond_the_budget() {
        let budget = Budget::new(10);
        let mut permit = budget.take(8).unwrap();
        permit.cover(5);
        assert_eq!(budget.used(), 8);
        permit.cover(15);
        assert!(budget.take(1).is_none());
        drop(permit);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_permit_is_resized_up_and_down() {
        let budget = Budget::new(10);
        let mut permit = budget.take(8).unwrap();
        permit.resize(3);
        assert_eq!(budget.used(), 3);
        permit.resize(12);
        assert_eq!(budget.used(), 12);
        drop(permit);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_permit_is_alone_until_another_one_is_taken() {
        let budget = Budget::new(10);
        let permit = budget.take(4).unwrap();
        assert!(permit.is_alone());
        let _other = budget.take(1).unwrap();
        assert!(!permit.is_alone());
    }

    #[test]
    fn what_never_fits_is_told_from_what_fits_later() {
        let budget = Budget::new(10);
        let mut permit = budget.take(4).unwrap();
        assert_eq!(permit.make_room(6), Ok(()));
        assert_eq!(permit.make_room(1), Err(Error::NeverFits { needed: 11, limit: 10 }));
        permit.resize(4);
        let _other = budget.take(1).unwrap();
        assert!(matches!(permit.make_room(6), Err(Error::OutOfBudget(_))));
        assert_eq!(permit.units(), 4);
    }

    #[test]
    fn where_memory_is_scarce_only_small_permits_are_given() {
        let budget = Budget::new(100 << 20);
        let mut large = budget.take(10 << 20).unwrap();
        budget.set_scarce(true);
        assert!(budget.take(10 << 20).is_none() && !large.grow_by(1));
        let mut small = budget.take(1000).unwrap();
        assert!(small.grow_to(MOST_WHERE_SCARCE) && !small.grow_by(1));
        // That it cannot grow is not for ever.
        drop(large);
        assert!(!small.is_alone());
        assert!(out_of_bytes(&budget).to_string().starts_with("memory is nearly used up"));
        budget.set_scarce(false);
        assert!(small.grow_to(10 << 20) && small.is_alone());
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let budget = Budget::new(usize::MAX);
        let _permit = budget.take(5).unwrap();
        assert!(budget.take(usize::MAX).is_none());
    }
}
