//! A request's place in the order of replies, taken before it is known where its answer comes from.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    reply::{Order, Reply},
    work::Done,
};
use inference::error::Error;

/// The place of one request. Dropped, it lets later answers pass.
pub struct ReplySlot {
    pub(super) reply: Reply,
    pub(super) receiver: oneshot::Receiver<Result<Done, Error>>,
}

impl ReplySlot {
    /// The next place, where there is an order.
    pub(super) fn new(order: Option<&Arc<Order>>) -> ReplySlot {
        let (reply, receiver) = Reply::channel(order);
        ReplySlot { reply, receiver }
    }

    /// The place of a part of a request, which has no order among replies.
    pub fn unordered() -> ReplySlot {
        ReplySlot::new(None)
    }

    /// Waits until every earlier request has been answered.
    ///
    /// # Cancel safety
    /// Dropping the future lets later answers pass.
    pub async fn wait_for_earlier(self) {
        let ReplySlot { reply, receiver } = self;
        // What is sent does not matter, only when it arrives.
        reply.send(Err(Error::ShuttingDown));
        let _ = receiver.await;
    }
}
