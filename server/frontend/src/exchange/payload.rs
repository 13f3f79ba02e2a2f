//! The body of a request that is to be run: it comes over a connection, or is in memory.

use bytes::Bytes;

use super::{
    inflation::{Arrived, Inflation},
    intake::{Limits, Received, Source, read, read_with_tensors},
};
use inference::error::Error;

/// The body of a request that is to be run.
pub enum Payload<'a, S> {
    /// The body comes over the connection of its request.
    Coming(&'a mut S),
    /// The body is in memory already: a message, a part of a message, or a file.
    Here(Received),
    /// The body is in memory, and only its start is plain.
    Inflating(Box<Inflation>),
    /// The body was received behind the admission of its request, which is not admitted again.
    Admitted(Arrived),
}

impl<S> From<Arrived> for Payload<'_, S> {
    fn from(arrived: Arrived) -> Self {
        match arrived {
            Arrived::Whole(received) => Payload::Here(received),
            Arrived::Start(inflation) => Payload::Inflating(inflation),
        }
    }
}

impl<'a, S: Source> From<&'a mut S> for Payload<'a, S> {
    fn from(source: &'a mut S) -> Payload<'a, S> {
        Payload::Coming(source)
    }
}

impl<S: Source> Payload<'_, S> {
    /// Receives the body. `header_length` is the number of bytes in front of raw tensors; `None` where it has
    /// none.
    ///
    /// # Errors
    /// Those of [`read`].
    pub async fn receive(
        self,
        header_length: Option<usize>,
        limits: &Limits,
    ) -> Result<Arrived, Error> {
        Ok(match (self, header_length) {
            (Payload::Inflating(inflation), _) => return Ok(Arrived::Start(inflation)),
            (Payload::Admitted(arrived), _) => return Ok(arrived),
            (Payload::Here(received), _) => received,
            (Payload::Coming(source), Some(length @ 1..)) => {
                read_with_tensors(length, source, limits).await?
            }
            (Payload::Coming(source), _) => read(source, 0, limits).await?,
        }
        .into())
    }

    /// Asks `admit` whether the request is let in, unless that was asked before its body was received.
    ///
    /// # Errors
    /// Those of `admit`.
    pub fn admit(&self, admit: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        match self {
            Payload::Admitted(_) => Ok(()),
            Payload::Coming(_) | Payload::Here(_) | Payload::Inflating(_) => admit(),
        }
    }

    /// Bytes of the body; `None` where they are known only at its end.
    pub fn length(&self) -> Option<u64> {
        match self {
            Payload::Coming(source) => source.declared(),
            Payload::Here(received) | Payload::Admitted(Arrived::Whole(received)) => {
                Some(received.bytes.len() as u64)
            }
            Payload::Inflating(_) | Payload::Admitted(Arrived::Start(_)) => None,
        }
    }
}

/// A source for payloads that are always in memory already.
#[derive(Debug)]
pub enum Nowhere {}

impl Source for Nowhere {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match *self {}
    }

    fn declared(&self) -> Option<u64> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inference::limits::Budget;

    #[test]
    fn a_request_is_admitted_once_wherever_its_body_is() {
        let budget = Budget::new(1 << 10);
        let received = || {
            let permit = budget.take(2).unwrap();
            Received { bytes: Bytes::from_static(b"{}"), permit }
        };
        let admissions = |payload: Payload<'_, Nowhere>| {
            let mut count = 0;
            let admitted = payload.admit(|| {
                count += 1;
                Ok(())
            });
            assert_eq!((admitted, payload.length()), (Ok(()), Some(2)));
            count
        };
        assert_eq!(admissions(Payload::Here(received())), 1);
        assert_eq!(admissions(Payload::Admitted(received().into())), 0);
        let refused = Payload::<Nowhere>::Here(received()).admit(|| Err(Error::ShuttingDown));
        assert_eq!(refused, Err(Error::ShuttingDown));
    }
}
