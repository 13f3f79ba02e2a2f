//! The memory that is granted to who decodes a body or encodes a reply, as it asks for it.

use std::cell::{Cell, RefCell};

use crate::{
    error::Error,
    limits::{Permit, out_of_bytes},
};

/// A body may be decoded, and a reply encoded, with so many bytes outside the budget. The buffers of a connection take
/// about as much.
pub const FREE: usize = 64 << 10;

/// What one decoding or encoding was granted beside the bytes that it reads. Whoever makes something large of a request
/// asks first. All who work on one body share it.
#[derive(Debug)]
pub struct Grant<'p> {
    source: Source<'p>,
    /// Bytes that the caller can easily spare.
    loose: usize,
    granted: Cell<usize>,
    /// What would never have been granted.
    excess: Cell<Option<usize>>,
}

#[derive(Debug)]
enum Source<'p> {
    /// Bytes beyond the first [`FREE`] are taken of its budget.
    Permit(RefCell<&'p mut Permit>),
    /// All that is asked for is granted and counted.
    All,
    /// Nothing is asked for, as it is known to be little.
    Uncounted,
    /// Nothing is granted, and what is asked for is counted.
    Nothing,
}

impl<'p> Grant<'p> {
    /// By a permit, which grows by what is granted, and stays so. A bound of at most `loose` bytes may be a rough one.
    pub fn of(permit: &'p mut Permit, loose: usize) -> Grant<'p> {
        Grant::from(Source::Permit(RefCell::new(permit)), loose)
    }

    /// All that is asked for, for tests: see [`Grant::granted`].
    pub fn all(loose: usize) -> Grant<'p> {
        Grant::from(Source::All, loose)
    }

    /// For work that is known to take little: it is not even asked how much.
    pub fn uncounted() -> Grant<'p> {
        Grant::from(Source::Uncounted, 0)
    }

    /// Nothing of what is asked for, so that the work ends there: for who wants to know how much that is.
    pub fn nothing(loose: usize) -> Grant<'p> {
        Grant::from(Source::Nothing, loose)
    }

    fn from(source: Source<'p>, loose: usize) -> Grant<'p> {
        Grant { source, loose, granted: Cell::new(0), excess: Cell::new(None) }
    }

    /// Asks for bytes that are about to be held. `bytes` is told how many are loose: a bound that is at most as large
    /// may be a rough one, because a precise one takes a pass over all that is read.
    ///
    /// # Errors
    /// [`Error::NeverFits`] where no other request is in the way; [`Error::OutOfBudget`] otherwise.
    pub fn take(&self, bytes: impl FnOnce(usize) -> usize) -> Result<(), Error> {
        if let Source::Uncounted = self.source {
            return Ok(());
        }
        let granted = self.granted.get();
        let all = granted.saturating_add(bytes(self.loose));
        match &self.source {
            Source::Permit(permit) if FREE < all => {
                let taken = if FREE < granted { granted } else { 0 };
                self.grow(&mut permit.borrow_mut(), all, all - taken)?;
            }
            Source::Permit(_) | Source::All | Source::Uncounted => {}
            Source::Nothing => {
                self.granted.set(all);
                return Err(Error::NeverFits { needed: all, limit: 0 });
            }
        }
        self.granted.set(all);
        Ok(())
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

    /// Bytes that were asked for and granted; of [`Grant::nothing`], those that were asked for.
    pub fn granted(&self) -> usize {
        self.granted.get()
    }

    /// Bytes that were asked for and will never be granted, as they are more than all requests may take together.
    pub fn excess(&self) -> Option<usize> {
        self.excess.get()
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
        let grant = Grant::of(&mut permit, 0);
        grant.take(|_| FREE).unwrap();
        assert_eq!((grant.granted(), budget.used()), (FREE, 10));
        grant.take(|_| 1).unwrap();
        assert_eq!(budget.used(), 10 + FREE + 1);
        grant.take(|_| 5).unwrap();
        assert_eq!(grant.granted(), FREE + 6);
        assert_eq!(permit.units(), 10 + FREE + 6);
    }

    #[test]
    fn what_never_fits_is_told_from_what_fits_later() {
        let budget = Budget::new(1 << 20);
        let mut permit = budget.take(10).unwrap();
        let grant = Grant::of(&mut permit, 0);
        grant.take(|_| 1 << 19).unwrap();
        assert!(matches!(grant.take(|_| 1 << 19), Err(Error::NeverFits { .. })));
        assert_eq!((grant.excess(), grant.granted()), (Some(1 << 20), 1 << 19));
        let _other = budget.take(1).unwrap();
        let mut later = budget.take(10).unwrap();
        let grant = Grant::of(&mut later, 0);
        assert!(matches!(grant.take(|_| 1 << 19), Err(Error::OutOfBudget(_))));
        assert_eq!(grant.excess(), None);
        assert!(matches!(grant.take(|_| usize::MAX), Err(Error::OutOfBudget(_))));
    }

    #[test]
    fn what_is_asked_for_is_counted_where_nothing_or_all_is_granted() {
        let (nothing, all) = (Grant::nothing(3), Grant::all(3));
        assert!(nothing.take(|loose| loose + 4).is_err() && all.take(|loose| loose + 4).is_ok());
        assert_eq!((nothing.granted(), all.granted()), (7, 7));
        let uncounted = Grant::uncounted();
        assert_eq!(uncounted.take(|_| unreachable!("nobody asks how much")), Ok(()));
    }
}
