//! The sessions of a model, and which instance runs which.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

/// The sessions of a model. Each is run by so many instances at most.
pub(crate) struct Sessions<S, E> {
    /// Makes another one. Blocking.
    make: Box<dyn Fn() -> Result<S, E> + Send + Sync>,
    /// Guards those that there are, and their making: of two instances that need the same one, one makes it.
    made: Mutex<Vec<Arc<S>>>,
    share: NonZeroUsize,
}

impl<S, E> Sessions<S, E> {
    /// The first one is there already.
    pub(crate) fn new(
        first: S,
        share: NonZeroUsize,
        make: impl Fn() -> Result<S, E> + Send + Sync + 'static,
    ) -> Sessions<S, E> {
        Sessions { make: Box::new(make), made: Mutex::new(vec![Arc::new(first)]), share }
    }

    /// One for another instance, which has its place there until it drops it. Blocking where one is made.
    pub(crate) fn place(&self) -> Result<Arc<S>, E> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // One of the holders is the list.
        let free = made.iter().find(|it| Arc::strong_count(it) <= self.share.get());
        if let Some(free) = free {
            return Ok(free.clone());
        }
        let session = Arc::new((self.make)()?);
        made.push(session.clone());
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn sessions(share: usize) -> Sessions<usize, &'static str> {
        let next = AtomicUsize::new(1);
        let make = move || match next.fetch_add(1, Ordering::Relaxed) {
            9 => Err("nine"),
            number => Ok(number),
        };
        Sessions::new(0, NonZeroUsize::new(share).unwrap(), make)
    }

    #[test]
    fn so_many_instances_run_a_session_and_the_next_one_gets_another() {
        let sessions = sessions(2);
        let held: Vec<_> = (0..5).map(|_| sessions.place().unwrap()).collect();
        assert_eq!(held.iter().map(|it| **it).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn a_place_that_is_left_is_taken_by_the_next_instance() {
        let sessions = sessions(1);
        let mut held: Vec<_> = (0..3).map(|_| sessions.place().unwrap()).collect();
        held.remove(1);
        assert_eq!(*sessions.place().unwrap(), 1);
    }

    #[test]
    fn a_session_that_cannot_be_made_is_an_error_of_its_instance() {
        let sessions = sessions(1);
        let held: Vec<_> = (0..9).map(|_| sessions.place().unwrap()).collect();
        assert_eq!(sessions.place(), Err("nine"));
        assert_eq!((held.len(), *sessions.place().unwrap()), (9, 10));
    }
}
