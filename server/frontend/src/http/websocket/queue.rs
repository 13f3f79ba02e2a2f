//! Answers that are being made, returned in the order of their requests.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use crate::http::websocket::reader::Kind;
use crate::net::Task;
use inference::error::Error;

/// Answers that are being made, at most `most`. Each runs as a task of its own, whether it is polled or not: it holds
/// an instance of a model, and a slow peer must not keep that from other clients. Dropping the queue ends the tasks,
/// which withdraws their requests.
pub struct Queue<T> {
    answers: VecDeque<(Kind, Task<T>)>,
    most: usize,
}

impl<T: Send + 'static> Queue<T> {
    /// An empty queue for that many answers.
    pub fn new(most: usize) -> Queue<T> {
        Queue { answers: VecDeque::new(), most }
    }

    /// Is no answer in the queue?
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// May another answer be pushed, where so many others are under way?
    pub fn has_room_beside(&self, others: usize) -> bool {
        self.answers.len() + others < self.most
    }

    /// Queues the answer to a message of that kind behind the others.
    pub fn push(&mut self, kind: Kind, answer: impl Future<Output = T> + Send + 'static) {
        self.answers.push_back((kind, Task::spawn(answer)));
    }

    /// The next answer, once it is ready; an error where its task has panicked.
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
        assert!(queue.has_room_beside(0) && !queue.has_room_beside(1));
        queue.push(Kind::Binary, async move {
            done.send(()).unwrap();
            2
        });
        assert!(!queue.has_room_beside(0));
        // The second answer makes progress without being polled.
        other.await.unwrap();
        first.send(1).unwrap();
        for expect in [(Kind::Text, 1), (Kind::Binary, 2)] {
            let (kind, answer) = poll_fn(|context| queue.poll(context)).await;
            assert_eq!((kind, answer.unwrap()), expect);
        }
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn dropping_the_future_withdraws_the_request() {
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
