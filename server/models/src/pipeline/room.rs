//! The bytes that decoded files of one request take of the budget of all requests.

use std::sync::Arc;

use inference::{
    error::Error,
    limits::{Budget, Permit},
};

/// What a request has taken for its files: while one is decoded what that takes, and what is kept of those before.
pub(crate) struct Room {
    budget: Arc<Budget>,
    permit: Option<Permit>,
    kept: usize,
}

impl Room {
    /// None of it yet.
    pub(crate) fn of(budget: &Arc<Budget>) -> Room {
        Room { budget: budget.clone(), permit: None, kept: 0 }
    }

    /// Takes so many bytes for the next file, before they are held.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where other requests hold them; [`Error::InvalidRequest`] where all of the budget would
    /// not do.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let needed = self.kept.saturating_add(bytes);
        if self.budget.limit() < needed {
            return Err(Error::InvalidRequest(format!(
                "the files of the request take up to {needed} bytes while they are decoded, more than all requests \
                 may take together (--max-inflight-bytes); send smaller ones, or fewer at once"
            )));
        }
        let granted = match &mut self.permit {
            Some(permit) => permit.grow_to(needed),
            None => {
                self.permit = self.budget.take(needed);
                self.permit.is_some()
            }
        };
        if granted {
            return Ok(());
        }
        let (limit, used) = (self.budget.limit(), self.budget.used());
        Err(Error::OutOfBudget(format!(
            "decoding the files of the request takes up to {needed} bytes, and {used} of the {limit} bytes for bodies and \
             what is decoded are taken (--max-inflight-bytes)"
        )))
    }

    /// The file is decoded, and so many bytes are kept of it.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.kept = self.kept.saturating_add(bytes);
        if let Some(permit) = &mut self.permit {
            permit.resize(self.kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_before_they_are_held_and_given_back_but_for_what_is_kept() {
        let budget = Budget::new(100);
        let mut room = Room::of(&budget);
        room.take(60).unwrap();
        assert_eq!(budget.used(), 60);
        room.keep(10);
        assert_eq!(budget.used(), 10);
        let other = budget.take(50).unwrap();
        assert!(matches!(room.take(60), Err(Error::OutOfBudget(_))));
        drop(other);
        room.take(90).unwrap();
        assert!(matches!(room.take(91), Err(Error::InvalidRequest(_))));
        drop(room);
        assert_eq!(budget.used(), 0);
    }
}
