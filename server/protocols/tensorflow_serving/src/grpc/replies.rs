//! The replies to the parts of one `MultiInference`, until they are one.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use crate::grpc::messages;
use frontend::exchange::{
    Answer, Reply,
    offload::{LARGE, offload},
};
use inference::{error::Error, limits::Permit, timings::Spent, trace::Trace};

/// Replies, each for the tasks of one signature, and what covers them.
#[derive(Default)]
pub(super) struct Replies {
    of_signatures: Vec<(String, VecDeque<Bytes>)>,
    permits: Vec<Permit>,
    trace: Option<Arc<Trace>>,
    spent: Option<Spent>,
}

impl Replies {
    /// Adds the reply for the signature of that name.
    pub(super) fn add(&mut self, signature: String, answer: Answer<VecDeque<Bytes>>) {
        let Answer { reply, permit, trace, spent } = answer;
        self.of_signatures.push((signature, reply));
        self.permits.push(permit);
        self.trace = trace;
        self.spent = self.spent.into_iter().chain(spent).reduce(Spent::beside);
    }

    /// One reply with a result for each of these tasks, which are names of signatures. Until it is made, both forms are
    /// covered; then it alone is. Large ones are copied on the pool.
    ///
    /// # Errors
    /// Where they are too large together.
    pub(super) async fn join(self, tasks: Vec<String>) -> Result<Answer<VecDeque<Bytes>>, Error> {
        let Replies { of_signatures, mut permits, trace, spent } = self;
        let none = || Error::Internal("a request without tasks".to_owned());
        let mut permit = permits.pop().ok_or_else(none)?;
        let length = of_signatures.iter().map(|(_, it)| it.byte_len()).sum::<usize>();
        let own = permit.units();
        permit.cover(own.saturating_add(length));
        // The permits move with the memory: a client that leaves does not stop work that has begun on the pool.
        let join = move || {
            let reply = messages::join(&tasks, of_signatures)?;
            drop(permits);
            permit.resize(own.max(reply.byte_len()));
            Ok((reply, permit))
        };
        let (reply, permit) = match LARGE < length {
            true => offload(join).await.flatten()?,
            false => join()?,
        };
        Ok(Answer { reply, permit, trace, spent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontend::grpc::PREFIX;
    use inference::limits::Budget;

    /// A message with one field of so many bytes.
    fn message(byte: u8, length: usize) -> VecDeque<Bytes> {
        let mut message = vec![0; PREFIX];
        message.push(0x0a);
        prost::encoding::encode_varint(length as u64, &mut message);
        message.resize(message.len() + length, byte);
        [message.into()].into()
    }

    #[tokio::test]
    async fn all_replies_are_covered_until_they_are_one() {
        let budget = Budget::new(1 << 20);
        for length in [10, LARGE] {
            let mut replies = Replies::default();
            for (name, byte) in [("a", b'a'), ("b", b'b')] {
                let reply = message(byte, length);
                let permit = budget.take(reply.byte_len()).unwrap();
                replies.add(name.to_owned(), Answer { reply, permit, trace: None, spent: None });
            }
            let before = budget.used();
            assert!(2 * length < before, "both replies are covered");
            let joined = replies.join(vec!["b".into(), "a".into()]).await.unwrap();
            let bytes: Vec<u8> = joined.reply.into_iter().flatten().collect();
            let own = bytes.len();
            let at = |byte| bytes.iter().position(|it| *it == byte).unwrap();
            assert!(2 * length < own && at(b'b') < at(b'a'));
            assert_eq!(budget.used(), own);
            drop(joined.permit);
            assert_eq!(budget.used(), 0);
        }
    }
}
