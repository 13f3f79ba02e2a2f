//! Are the answers right? A server that is fast because it answers nonsense must not win a benchmark.

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::answers::Mismatch;

/// A complete reply, for a check.
#[derive(Debug, Clone, Copy)]
pub struct CheckedReply<'a> {
    /// Index of the request in the plan.
    pub request: usize,
    /// Status code; always 2xx, since others are counted by status.
    pub status: u16,
    /// The whole body.
    pub body: &'a [u8],
}

/// What is asked of a reply.
pub type Judge = dyn Fn(&CheckedReply<'_>) -> bool + Send + Sync;

/// The same, where what is wrong is said.
pub type Critic = dyn Fn(&CheckedReply<'_>) -> Result<(), WrongReply> + Send + Sync;

/// The first reply that a check found wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstWrong {
    /// Index of the request in the plan.
    pub request: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// What is wrong with a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongReply {
    /// [`Check::FirstReply`] refuses it.
    #[error("it has not the form of an answer")]
    NoAnswer,
    /// [`Check::EveryBody`] expects another hash.
    #[error("its bytes are others than expected")]
    OtherBytes,
    /// It says something else than the answer that it is compared with.
    #[error(transparent)]
    Differs(#[from] Mismatch),
}

/// Which 2xx replies are checked, and how. Replies of the warm-up are checked too.
#[derive(Clone, Default)]
pub enum Check {
    /// None.
    #[default]
    Nothing,
    /// The first on each connection, each time it is opened; right where the function says so.
    FirstReply(Arc<Judge>),
    /// Some, whoever gets them: one in each 20 ms at most, and so few that the function takes a twentieth of the
    /// time; right where the function finds nothing wrong.
    Sample(Arc<Critic>),
    /// All of them: the [`body_hash`] of the answer to request `i` of the plan is entry `i`. Costs about
    /// 1 ns per byte.
    EveryBody(Vec<u64>),
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Nothing => f.write_str("Nothing"),
            Check::FirstReply(_) => f.write_str("FirstReply(..)"),
            Check::Sample(_) => f.write_str("Sample(..)"),
            Check::EveryBody(hashes) => f.debug_tuple("EveryBody").field(hashes).finish(),
        }
    }
}

/// The 64-bit FNV-1a hash of a body. The same in every version of this library.
pub fn body_hash(body: &[u8]) -> u64 {
    let mut hash = BodyHash::default();
    hash.update(body);
    hash.value()
}

/// [`body_hash`] over a body that comes in pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyHash(u64);

impl Default for BodyHash {
    fn default() -> BodyHash {
        BodyHash(0xcbf2_9ce4_8422_2325)
    }
}

impl BodyHash {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        for &byte in piece {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// Does the body look like the answer to a KServe v2 inference: a JSON object with outputs, followed by
/// raw tensors or not? A [`Check::FirstReply`] for servers whose exact answer is not known.
pub fn is_inference(reply: &CheckedReply<'_>) -> bool {
    let mut values =
        serde_json::Deserializer::from_slice(reply.body).into_iter::<serde_json::Value>();
    let Some(Ok(answer)) = values.next() else { return false };
    answer.get("outputs").and_then(|it| it.as_array()).is_some_and(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one_however_the_body_is_cut() {
        assert_eq!(body_hash(b""), 0xcbf29ce484222325);
        assert_eq!(body_hash(b"foobar"), 0x85944171f73967e8);
        let mut hash = BodyHash::default();
        hash.update(b"foo");
        hash.update(b"bar");
        assert_eq!(hash.value(), body_hash(b"foobar"));
    }

    #[test]
    fn an_inference_has_outputs() {
        let check = |body: &[u8]| is_inference(&CheckedReply { request: 0, status: 200, body });
        assert!(check(br#"{"model_name":"m","outputs":[{"name":"y","data":[1]}]}"#));
        assert!(check(b"{\"outputs\":[{\"name\":\"y\"}]}\x00\x01\xff"));
        assert!(!check(br#"{"outputs":[]}"#));
        assert!(!check(br#"{"error":"outputs"}"#));
        assert!(!check(b"<html>"));
    }
}
