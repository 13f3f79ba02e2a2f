//! A request's place among the answers, taken before it is known where its answer comes from.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    reply::{Order, Reply},
    run::Done,
};
use inference::error::Error;

/// The place of one request. Dropped, it lets later answers pass.
pub struct Turn {
    pub(super) reply: Reply,
    pub(super) receiver: oneshot::Receiver<Result<Done, Error>>,
}

impl Turn {
    /// The next place in an order.
    pub(super) fn new(order: &Arc<Order>) -> Turn {
        Turn::of(Some(order))
    }

    /// The next place, where there is an order.
    pub(super) fn of(order: Option<&Arc<Order>>) -> Turn {
        let (reply, receiver) = Reply::channel(order);
        Turn { reply, receiver }
    }

    /// Waits until every earlier request has been answered.
    ///
    /// # Cancel safety
    /// Dropping the future lets later answers pass.
    pub async fn come(self) {
        let Turn { reply, receiver } = self;
        // What is sent does not matter, only when it arrives.
        reply.send(Err(Error::ShuttingDown));
        let _ = receiver.await;
    }
}
