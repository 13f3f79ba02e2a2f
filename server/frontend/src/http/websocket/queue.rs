//! Answers on their way, taken in the order of their questions.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use crate::http::websocket::reader::Kind;
use crate::net::Task;
use inference::error::Error;

/// Answers on their way. Each goes on by itself, whether or not somebody looks: what it holds of a model others wait
/// for, and they must not wait for the peer that is to read it. Dropping it ends them, which withdraws their requests.
pub struct Queue<T> {
    answers: VecDeque<(Kind, Task<T>)>,
    most: usize,
}

impl<T: Send + 'static> Queue<T> {
    /// For so many at once.
    pub fn new(most: usize) -> Queue<T> {
        Queue { answers: VecDeque::new(), most }
    }

    /// Is nothing on its way?
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// May another one be pushed?
    pub fn has_room(&self) -> bool {
        self.answers.len() < self.most
    }

    /// The answer to a question of that kind comes behind the others.
    pub fn push(&mut self, kind: Kind, answer: impl Future<Output = T> + Send + 'static) {
        self.answers.push_back((kind, Task::spawn(answer)));
    }

    /// The next answer, once it is there; an error where it never will be.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Kind, Result<T, Error>)> {
        let Some((kind, answer)) = self.answers.front_mut() else { return Poll::Pending };
        let kind = *kind;
        let answer = ready!(Pin::new(answer).poll(context));
        self.answers.pop_front();
        Poll::Ready((kind, answer))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn answers_leave_in_the_order_of_their_questions_whichever_is_there_first() {
        let mut queue = Queue::new(2);
        let (first, answer) = oneshot::channel();
        let (done, other) = oneshot::channel();
        queue.push(Kind::Text, async move { answer.await.unwrap() });
        assert!(queue.has_room());
        queue.push(Kind::Binary, async move {
            done.send(()).unwrap();
            2
        });
        assert!(!queue.has_room());
        // The other one goes on though nobody asks for it.
        other.await.unwrap();
        first.send(1).unwrap();
        for expect in [(Kind::Text, 1), (Kind::Binary, 2)] {
            let (kind, answer) = poll_fn(|context| queue.poll(context)).await;
            assert_eq!((kind, answer.unwrap()), expect);
        }
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn who_drops_it_withdraws_what_was_asked() {
        let mut queue = Queue::new(1);
        let (held, gone) = oneshot::channel::<()>();
        queue.push(Kind::Text, async move {
            let _held = held;
            pending::<()>().await;
        });
        tokio::task::yield_now().await;
        drop(queue);
        gone.await.unwrap_err();
    }
}
