//! What the server takes on at once, in bytes and in connections: permits that free themselves.

use std::sync::{
    Arc,
    atomic::{
        AtomicUsize,
        Ordering::{self, SeqCst},
    },
};

use crate::{error::Error, rest::Rest, yielding::Yielding};

/// Units of the largest permit where memory is scarce: a request of the usual size.
const MOST_WHERE_SCARCE: usize = 1 << 20;

/// Units of the largest permit that is a small one.
pub const SMALL: usize = 64 << 10;

/// Small permits have so much beside the limit, as a part of it: no company of large ones keeps them out. Budgets of
/// which that part is less than one small permit have none.
const SHARE: usize = 8;

/// The value of a ceiling that is none.
const NO_CEILING: usize = usize::MAX;

/// A number of units of which parts can be taken and are given back when their [`Permit`] is dropped.
///
/// Where one is refused for want of units, the slowest of [`Budget::yielding`] gives way.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// Up to so many units large permits are given; [`NO_CEILING`] but where memory is scarce.
    ceiling: AtomicUsize,
    yielding: Arc<Yielding>,
    /// Who watches what is taken.
    rest: Arc<Rest>,
}

impl Budget {
    /// A budget of `limit` units.
    pub fn new(limit: usize) -> Arc<Budget> {
        Budget::watched(limit, Arc::default())
    }

    /// The same, of which every permit disturbs that rest.
    pub(crate) fn watched(limit: usize, rest: Arc<Rest>) -> Arc<Budget> {
        let (used, ceiling) = (AtomicUsize::new(0), AtomicUsize::new(NO_CEILING));
        Arc::new(Budget { limit, used, ceiling, yielding: Arc::default(), rest })
    }

    /// Units taken at present.
    pub fn used(&self) -> usize {
        self.used.load(SeqCst)
    }

    /// Units that can be taken in all, without those that only small permits get.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Units that can still be taken at present.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Those whose units others get first.
    pub fn yielding(&self) -> &Arc<Yielding> {
        &self.yielding
    }

    /// Is memory scarce, so that large permits are refused?
    pub fn is_scarce(&self) -> bool {
        self.ceiling.load(Ordering::Relaxed) != NO_CEILING
    }

    /// From now on memory is scarce, or is not any more. Permits that are taken stay as they are.
    pub fn set_scarce(&self, is_scarce: bool) {
        let ceiling = if is_scarce { 0 } else { NO_CEILING };
        self.ceiling.store(ceiling, Ordering::Relaxed);
    }

    /// Memory is scarce, and yet large permits may take so many units more than are taken now.
    pub fn set_scarce_but_for(&self, more: usize) {
        let ceiling = self.used().saturating_add(more).min(NO_CEILING - 1);
        self.ceiling.store(ceiling, Ordering::Relaxed);
    }

    /// Units that a permit may bring all of them to, where it is itself that large then.
    fn bound(&self, units: usize) -> usize {
        let share = if SMALL <= self.limit / SHARE { self.limit / SHARE } else { 0 };
        let bound = if units <= SMALL { self.limit.saturating_add(share) } else { self.limit };
        let is_large = MOST_WHERE_SCARCE < units;
        if is_large { bound.min(self.ceiling.load(Ordering::Relaxed)) } else { bound }
    }

    /// Takes `units`; `None` when so many are not left, or are many and memory is scarce.
    pub fn take(self: &Arc<Budget>, units: usize) -> Option<Permit> {
        let granted = self.reserve(units, units, self.bound(units)) || self.press(units, units);
        granted.then(|| Permit { budget: self.clone(), units })
    }

    /// The same for whoever asks again and again: nobody is asked to give way.
    pub fn try_take(self: &Arc<Budget>, units: usize) -> Option<Permit> {
        let granted = self.reserve(units, units, self.bound(units));
        granted.then(|| Permit { budget: self.clone(), units })
    }

    /// There is no room for `more` units of a permit that is then `units` large: the slowest of those who hold some are
    /// asked for theirs, unless it would never fit. False.
    fn press(&self, more: usize, units: usize) -> bool {
        if units <= self.limit {
            self.yielding.press(more);
        }
        false
    }

    /// Takes `more` for a permit that is then `units` large, as long as no more than `bound` are taken in all.
    fn reserve(&self, more: usize, units: usize, bound: usize) -> bool {
        let add = |used: usize| used.checked_add(more).filter(|&it| it <= bound);
        let is_taken =
            units <= self.limit && self.used.fetch_update(SeqCst, Ordering::Relaxed, add).is_ok();
        if is_taken {
            self.rest.disturb();
        }
        is_taken
    }
}

/// A part of a [`Budget`].
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    units: usize,
}

impl Permit {
    /// A permit for nothing, which may grow.
    pub fn nothing(budget: &Arc<Budget>) -> Permit {
        Permit { budget: budget.clone(), units: 0 }
    }

    /// Makes this permit at least `units` large. False when the budget has no more, or that is much and memory is
    /// scarce.
    pub fn grow_to(&mut self, units: usize) -> bool {
        let more = units.saturating_sub(self.units);
        let granted = more == 0
            || self.budget.reserve(more, units, self.budget.bound(units))
            || self.budget.press(more, units);
        if granted {
            self.units = self.units.max(units);
        }
        granted
    }

    /// The same as [`Permit::grow_to`], for what can be done without: so many units are left to others.
    pub fn grow_spare_to(&mut self, units: usize, left: usize) -> bool {
        let more = units.saturating_sub(self.units);
        let bound = self.budget.bound(units).min(self.budget.limit.saturating_sub(left));
        let granted = more == 0 || self.budget.reserve(more, units, bound);
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
            self.budget.used.fetch_add(more, SeqCst);
            self.budget.rest.disturb();
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
    fn where_memory_stays_scarce_large_permits_get_a_part_of_what_is_left() {
        let budget = Budget::new(100 << 20);
        let held = budget.take(10 << 20).unwrap();
        budget.set_scarce_but_for(8 << 20);
        assert!(budget.is_scarce());
        let some = budget.take(5 << 20).unwrap();
        assert!(budget.take(5 << 20).is_none() && budget.take(1 << 20).is_some());
        drop((held, some));
        assert!(budget.take(18 << 20).is_some());
    }

    #[test]
    fn an_eighth_is_there_for_small_permits_where_large_ones_have_taken_all() {
        let budget = Budget::new(8 << 20);
        let _all = budget.take(8 << 20).unwrap();
        assert!(budget.take(SMALL + 1).is_none());
        let small: Vec<_> = (0..16).map(|_| budget.take(SMALL).unwrap()).collect();
        assert!(budget.take(1).is_none());
        drop(small);
        let mut grows = budget.take(90).unwrap();
        assert!(grows.grow_to(SMALL) && !grows.grow_by(1));
    }

    #[test]
    fn what_can_be_done_without_leaves_some_to_others() {
        let budget = Budget::new(8 << 20);
        let mut permit = budget.take(1 << 20).unwrap();
        let left = 2 << 20;
        assert!(permit.grow_spare_to(6 << 20, left) && !permit.grow_spare_to((6 << 20) + 1, left));
        assert!(permit.grow_to(8 << 20));
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let budget = Budget::new(usize::MAX);
        let _permit = budget.take(5).unwrap();
        assert!(budget.take(usize::MAX).is_none());
    }
}
