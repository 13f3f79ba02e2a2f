//! The bytes that one request takes of the budget of all requests while it is worked on: before they are held, and for
//! as long as they are.

use std::sync::Arc;

use backend::NamedTensor;

use crate::{
    error::Error,
    limits::{Budget, Permit},
};

/// So many bytes of a request are held without room in the budget.
pub const UNCOUNTED: usize = 64 << 10;

/// What a request has taken for one kind of things: what making one takes, while it is made, and what is kept of those
/// before.
#[derive(Debug)]
pub struct Room {
    /// `None`: nothing is counted.
    budget: Option<Arc<Budget>>,
    permit: Option<Permit>,
    kept: usize,
    /// So many bytes are taken in any case.
    reserved: usize,
    /// What it is for, as the subject of a sentence.
    what: &'static str,
}

impl Room {
    /// Of files that are decoded.
    pub const FILES: &str = "decoding the files of the request";

    /// Of texts that become rows of a graph.
    pub const TEXTS: &str = "making tokens of the texts of the request";

    /// Of what is kept of rows, and of the reply that is made of it.
    pub const REPLY: &str = "the reply to the request";

    /// None of it yet. `what`: the subject of a sentence, such as [`Room::FILES`].
    pub fn of(budget: Option<&Arc<Budget>>, what: &'static str) -> Room {
        Room { budget: budget.cloned(), permit: None, kept: 0, reserved: 0, what }
    }

    /// Takes so many bytes beside those that are kept, before they are held. Few bytes are not counted.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where other requests hold them; [`Error::InvalidRequest`] where all of the budget would
    /// not do.
    pub fn take(&mut self, bytes: usize) -> Result<(), Error> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let needed = self.kept.saturating_add(bytes).max(self.reserved);
        let limit = budget.limit();
        if self.permit.is_none() && needed <= UNCOUNTED {
            return Ok(());
        }
        let what = self.what;
        if limit < needed {
            return Err(Error::InvalidRequest(format!(
                "{what} takes up to {needed} bytes, more than all requests may take together (--max-inflight-bytes); \
                 send smaller ones, or fewer at once"
            )));
        }
        let granted = match &mut self.permit {
            Some(permit) => permit.grow_to(needed),
            None => {
                self.permit = budget.take(needed);
                self.permit.is_some()
            }
        };
        if granted {
            return Ok(());
        }
        Err(Error::OutOfBudget(format!(
            "{what} takes up to {needed} bytes, and {} of the {limit} bytes for bodies and what is made of them are \
             taken (--max-inflight-bytes)",
            budget.used()
        )))
    }

    /// What was made is there, and so many bytes are kept of it. They count, whether there is room for them or not.
    pub fn keep(&mut self, bytes: usize) {
        self.kept = self.kept.saturating_add(bytes);
        if self.permit.is_none() && UNCOUNTED < self.kept {
            self.permit = self.budget.as_ref().map(Permit::nothing);
        }
        if let Some(permit) = &mut self.permit {
            permit.resize(self.kept.max(self.reserved));
        }
    }

    /// Takes so many bytes for all that will be kept, as far as that is known. What is kept is a part of them.
    ///
    /// # Errors
    /// As of [`Room::take`].
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Error> {
        self.take(bytes)?;
        self.reserved = bytes;
        Ok(())
    }

    /// Takes so many bytes more, all of which are kept.
    ///
    /// # Errors
    /// As of [`Room::take`].
    pub fn take_and_keep(&mut self, bytes: usize) -> Result<(), Error> {
        self.take(bytes)?;
        self.keep(bytes);
        Ok(())
    }

    /// The tensors that were made of all of it, with which their bytes are taken until the last who holds a part of
    /// them has gone. The rest is given back now.
    pub fn hold(self, mut tensors: Vec<NamedTensor>) -> Vec<NamedTensor> {
        let Some(mut permit) = self.permit else { return tensors };
        permit.resize(tensors.iter().map(|it| it.tensor.byte_len()).sum());
        let permit = Arc::new(permit);
        for NamedTensor { tensor, .. } in &mut tensors {
            *tensor = tensor.clone().keeping(permit.clone());
        }
        tensors
    }
}

#[cfg(test)]
mod tests {
    use backend::{Shape, Tensor};

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn bytes_are_taken_before_they_are_held_and_given_back_but_for_what_is_kept() {
        let budget = Budget::new(100 * MIB);
        let mut room = Room::of(Some(&budget), Room::FILES);
        room.take(60 * MIB).unwrap();
        assert_eq!(budget.used(), 60 * MIB);
        room.keep(10 * MIB);
        assert_eq!(budget.used(), 10 * MIB);
        let other = budget.take(50 * MIB).unwrap();
        assert!(matches!(room.take(60 * MIB), Err(Error::OutOfBudget(_))));
        drop(other);
        room.take(90 * MIB).unwrap();
        assert!(matches!(room.take(91 * MIB), Err(Error::InvalidRequest(_))));
        drop(room);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn few_bytes_are_not_counted_until_they_are_many_together() {
        let budget = Budget::new(100 * MIB);
        let mut room = Room::of(Some(&budget), Room::TEXTS);
        room.take_and_keep(UNCOUNTED / 2).unwrap();
        room.take_and_keep(UNCOUNTED / 2).unwrap();
        assert_eq!(budget.used(), 0);
        room.take_and_keep(1).unwrap();
        assert_eq!(budget.used(), UNCOUNTED + 1);
        let mut beside = Room::of(Some(&budget), Room::TEXTS);
        beside.keep(MIB);
        assert_eq!(budget.used(), MIB + UNCOUNTED + 1, "what is there counts");
    }

    #[test]
    fn tensors_hold_their_bytes_until_the_last_part_of_them_is_gone() {
        let budget = Budget::new(100 * MIB);
        let mut room = Room::of(Some(&budget), Room::FILES);
        room.take(MIB).unwrap();
        let tensor = Tensor::from_vec::<f32>(Shape::new(&[2]), vec![1.0, 2.0]).unwrap();
        let named = |name: &str| NamedTensor { name: name.into(), tensor: tensor.clone() };
        let mut tensors = room.hold(vec![named("x"), named("y")]);
        assert_eq!(budget.used(), 16);
        let last = tensors.pop().unwrap().tensor;
        assert_eq!(last.as_slice_of::<f32>().unwrap(), &[1.0, 2.0]);
        drop(tensors);
        assert_eq!(budget.used(), 16);
        drop(last);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_kept_is_a_part_of_what_was_reserved() {
        let budget = Budget::new(100 * MIB);
        let mut room = Room::of(Some(&budget), Room::REPLY);
        room.reserve(10 * MIB).unwrap();
        room.take_and_keep(4 * MIB).unwrap();
        assert_eq!(budget.used(), 10 * MIB);
        room.take_and_keep(8 * MIB).unwrap();
        assert_eq!(budget.used(), 12 * MIB);
    }

    #[test]
    fn without_a_budget_nothing_is_refused() {
        let mut room = Room::of(None, Room::REPLY);
        assert_eq!(room.take_and_keep(usize::MAX), Ok(()));
    }
}
