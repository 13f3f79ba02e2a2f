//! The memory that is granted to who decodes a body or encodes a reply, as it asks for it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    mem,
};

use crate::{
    error::Error,
    limits::{Permit, out_of_bytes},
};

/// A body may be decoded, and a reply encoded, with so many bytes outside the budget. The buffers of a connection take
/// about as much.
pub const FREE: usize = 64 << 10;

/// What one decoding or encoding was granted beside the bytes that it reads. Whoever makes something of a request asks
/// before it is made, and again before it grows. All who work on one body share it.
#[derive(Debug)]
pub struct Grant {
    source: Source,
    /// Bytes that the caller can easily spare.
    loose: usize,
    /// Bytes that are held at present.
    held: Cell<usize>,
    /// Bytes that may be held without asking again: those that are free, then the most that were held so far.
    granted: Cell<usize>,
    /// What would never have been granted.
    excess: Cell<Option<usize>>,
    /// Why something was refused, whatever became of that error.
    refusal: OnceCell<Error>,
}

#[derive(Debug)]
enum Source {
    /// Bytes beyond the first [`FREE`] are taken of its budget.
    Permit(RefCell<Permit>),
    /// All that is asked for is granted and counted.
    All,
    /// Nothing is asked for, as it is known to be little.
    Uncounted,
    /// Nothing is granted, and what is asked for is counted.
    Nothing,
}

impl Grant {
    /// By a permit, which grows by what is granted, and stays so. A bound of at most `loose` bytes may be a rough one.
    pub fn of(permit: Permit, loose: usize) -> Grant {
        Grant::from(Source::Permit(RefCell::new(permit)), loose, FREE)
    }

    /// Does `work` with what this permit grows by.
    pub fn lend<T>(permit: &mut Permit, loose: usize, work: impl FnOnce(&Grant) -> T) -> T {
        let nothing = Permit::nothing(permit.budget());
        let grant = Grant::of(mem::replace(permit, nothing), loose);
        let done = work(&grant);
        if let Source::Permit(grown) = grant.source {
            *permit = grown.into_inner();
        }
        done
    }

    /// All that is asked for, for tests: see [`Grant::granted`].
    pub fn all(loose: usize) -> Grant {
        Grant::from(Source::All, loose, 0)
    }

    /// For work that is known to take little: it is not even asked how much.
    pub fn uncounted() -> Grant {
        Grant::from(Source::Uncounted, 0, usize::MAX)
    }

    /// Nothing of what is asked for, so that the work ends there: for who wants to know how much that is.
    pub fn nothing(loose: usize) -> Grant {
        Grant::from(Source::Nothing, loose, 0)
    }

    fn from(source: Source, loose: usize, free: usize) -> Grant {
        let (held, granted) = (Cell::new(0), Cell::new(free));
        Grant { source, loose, held, granted, excess: Cell::new(None), refusal: OnceCell::new() }
    }

    /// Asks for bytes that are about to be held, by a bound. `bytes` is told how many are loose: a bound that is at
    /// most as large may be a rough one, because a precise one takes a pass over all that is read.
    ///
    /// # Errors
    /// Those of [`Grant::hold`].
    pub fn take(&self, bytes: impl FnOnce(usize) -> usize) -> Result<(), Error> {
        match self.source {
            Source::Uncounted => Ok(()),
            // No bytes are granted, either.
            Source::Nothing => self.ask(self.held.get().saturating_add(bytes(self.loose))),
            Source::Permit(_) | Source::All => self.hold(bytes(self.loose)),
        }
    }

    /// Asks for bytes that are about to be held.
    ///
    /// # Errors
    /// [`Error::NeverFits`] where no other request is in the way; [`Error::OutOfBudget`] otherwise.
    #[inline]
    pub fn hold(&self, bytes: usize) -> Result<(), Error> {
        let held = self.held.get().saturating_add(bytes);
        if self.granted.get() < held {
            self.ask(held)?;
        }
        self.held.set(held);
        Ok(())
    }

    /// Gives back bytes that are held no more. They may be held again without asking.
    #[inline]
    pub fn give_back(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }

    /// Gives back what is held beyond so many bytes: all that was made since they were [held](Grant::held) is dropped.
    pub fn give_back_to(&self, held: usize) {
        self.held.set(self.held.get().min(held));
    }

    /// Asks to hold so many bytes in all.
    #[cold]
    fn ask(&self, held: usize) -> Result<(), Error> {
        let asked = match &self.source {
            Source::Permit(permit) => {
                let granted = self.granted.get();
                let counted = if FREE < granted { granted } else { 0 };
                self.grow(&mut permit.borrow_mut(), held, held - counted)
            }
            Source::All | Source::Uncounted => Ok(()),
            Source::Nothing => Err(Error::NeverFits { needed: held, limit: 0 }),
        };
        match &asked {
            Err(error) => drop(self.refusal.set(error.clone())),
            Ok(()) => self.granted.set(held),
        }
        if let Source::Nothing = self.source {
            self.held.set(held);
        }
        asked
    }

    fn grow(&self, permit: &mut Permit, all: usize, more: usize) -> Result<(), Error> {
        if permit.grow_by(more) {
            return Ok(());
        }
        if !permit.is_alone() {
            return Err(out_of_bytes(permit.budget()));
        }
        self.excess.set(Some(all));
        let needed = permit.units().saturating_add(more);
        Err(Error::NeverFits { needed, limit: permit.budget().limit() })
    }

    /// Bytes that are held at present.
    pub fn held(&self) -> usize {
        self.held.get()
    }

    /// The most bytes that were held at once, where all that is asked for is counted; of [`Grant::nothing`], those that
    /// were asked for.
    pub fn granted(&self) -> usize {
        match self.source {
            Source::Nothing => self.held.get(),
            Source::Permit(_) | Source::All | Source::Uncounted => self.granted.get(),
        }
    }

    /// Bytes that were asked for and will never be granted, as they are more than all requests may take together.
    pub fn excess(&self) -> Option<usize> {
        self.excess.get()
    }

    /// What the work says of itself, unless it was refused something: then it has failed by that.
    ///
    /// # Errors
    /// The refusal; else those of the work.
    pub fn outcome<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        self.refusal().map_or(done, |refusal| Err(refusal.clone()))
    }

    /// The first refusal. Where there is one, the work has failed by it, whatever it says itself.
    pub fn refusal(&self) -> Option<&Error> {
        self.refusal.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Budget;

    #[test]
    fn the_first_bytes_are_free_until_there_are_more() {
        let budget = Budget::new(1 << 20);
        let mut permit = budget.take(10).unwrap();
        Grant::lend(&mut permit, 0, |grant| {
            grant.hold(FREE).unwrap();
            assert_eq!((grant.held(), budget.used()), (FREE, 10));
            grant.hold(1).unwrap();
            assert_eq!(budget.used(), 10 + FREE + 1);
            grant.hold(5).unwrap();
            assert_eq!(grant.granted(), FREE + 6);
        });
        assert_eq!((permit.units(), budget.used()), (10 + FREE + 6, 10 + FREE + 6));
    }

    #[test]
    fn what_is_given_back_is_held_again_without_asking() {
        let budget = Budget::new(1 << 20);
        let grant = Grant::of(budget.take(0).unwrap(), 0);
        grant.hold(2 * FREE).unwrap();
        grant.give_back(FREE);
        grant.hold(FREE).unwrap();
        assert_eq!((grant.held(), budget.used()), (2 * FREE, 2 * FREE));
        grant.hold(1).unwrap();
        assert_eq!(budget.used(), 2 * FREE + 1);
    }

    #[test]
    fn what_never_fits_is_told_from_what_fits_later() {
        let budget = Budget::new(1 << 20);
        let grant = Grant::of(budget.take(10).unwrap(), 0);
        grant.hold(1 << 19).unwrap();
        assert_eq!(grant.refusal(), None);
        assert!(matches!(grant.hold(1 << 19), Err(Error::NeverFits { .. })));
        assert_eq!((grant.excess(), grant.held()), (Some(1 << 20), 1 << 19));
        let _other = budget.take(1).unwrap();
        let grant = Grant::of(budget.take(10).unwrap(), 0);
        let refusal = grant.hold(1 << 19).unwrap_err();
        assert!(matches!(refusal, Error::OutOfBudget(_)));
        assert_eq!((grant.excess(), grant.refusal()), (None, Some(&refusal)));
        assert!(matches!(grant.hold(usize::MAX), Err(Error::OutOfBudget(_))));
    }

    #[test]
    fn what_is_asked_for_is_counted_where_nothing_or_all_is_granted() {
        let (nothing, all) = (Grant::nothing(3), Grant::all(3));
        assert!(nothing.take(|loose| loose + 4).is_err() && all.take(|loose| loose + 4).is_ok());
        assert_eq!((nothing.granted(), all.granted()), (7, 7));
        let uncounted = Grant::uncounted();
        assert_eq!(uncounted.take(|_| unreachable!("nobody asks how much")), Ok(()));
        assert_eq!(uncounted.hold(usize::MAX), Ok(()));
    }
}
