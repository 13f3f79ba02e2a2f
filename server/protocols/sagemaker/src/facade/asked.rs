//! Operations that clients ask for, on their way to whoever does them: a bounded queue.

use std::io;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use frontend::http::parts::Parts;

/// Operations that may wait; further ones are answered with 503.
const QUEUE: usize = 16;

/// Why an operation has no reply.
#[derive(Debug, thiserror::Error)]
pub enum NoReply {
    /// Whoever does it cannot be started.
    #[error("the recommender: {0}")]
    NotStarted(io::Error),
    /// It has ended, with this as its last word.
    #[error("the recommender has ended: {0}")]
    Ended(String),
}

/// An operation that somebody asks for.
#[derive(Debug)]
pub struct Asked {
    /// The head of the request.
    pub parts: Parts,
    /// The operation's name.
    pub target: String,
    /// Its request.
    pub body: Bytes,
    /// Takes the status and the body of the reply, or why there is none. Nobody may wait for it any more.
    pub reply: oneshot::Sender<Result<(u16, Vec<u8>), NoReply>>,
}

/// The sending end of the queue.
pub struct Operations(mpsc::Sender<Asked>);

/// Both ends of the queue.
pub fn operations() -> (Operations, mpsc::Receiver<Asked>) {
    let (sender, asked) = mpsc::channel(QUEUE);
    (Operations(sender), asked)
}

impl Operations {
    /// Hands an operation on; `false` where the queue is full, or nobody does them any more.
    pub(super) fn push(&self, asked: Asked) -> bool {
        self.0.try_send(asked).is_ok()
    }
}
