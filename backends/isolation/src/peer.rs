//! What the server makes of bytes that a worker sends, and of what it writes into shared memory: the server's readers
//! without a process at the other end. For fuzz targets.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
};

use backend::NamedTensor;

use crate::{
    arena::HostArena,
    channel::{ChannelError, Receiver},
    frame::{self, Encoding, LONGEST, LONGEST_ANSWER},
    mailbox::{self, Incoming, Outgoing},
    mapping::Mapping,
    message::{Answer, LoadAnswer, Opened},
};

/// Most bytes that are sent: fewer than what a socket holds, so that nobody need read while they are written.
const MOST_SENT: usize = 1 << 16;

/// What the server waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// What a worker says of the model that it has loaded.
    Load,
    /// Whether a lane is open.
    Opened,
    /// Answers to runs.
    Answer,
}

/// A lane of the server, at whose other end anybody may be.
pub struct Peer {
    arena: HostArena,
    theirs: Mapping,
    incoming: Incoming,
    /// The worker's.
    outgoing: Outgoing,
}

impl Peer {
    /// Room for `half` bytes of inputs, and for as many of outputs.
    ///
    /// # Errors
    /// When the system has no memory file.
    pub fn new(half: usize) -> io::Result<Peer> {
        let arena = HostArena::create(half)?;
        let theirs = Mapping::open(arena.file().try_clone_to_owned()?)?;
        let (ours, incoming) = mailbox::create(Encoding::Postcard)?;
        let (outgoing, _) = mailbox::open(ours.file().try_clone_to_owned()?)?;
        Ok(Peer { arena, theirs, incoming, outgoing })
    }

    /// Reads what a worker sends (64 KiB of it at most) that has written `memory` into its half of the lane and ends
    /// then. `take` gets the outputs of each frame, which are none but in answers. Why no more is read comes back: a
    /// sentence.
    pub fn read(
        &mut self,
        awaited: Awaited,
        memory: &[u8],
        sent: &[u8],
        mut take: impl FnMut(Vec<NamedTensor>),
    ) -> String {
        let half = self.theirs.len() / 2;
        let written = memory.get(..memory.len().min(half)).unwrap_or_default();
        let outcome = match self.theirs.pages().write(half, written) {
            Some(()) => self.read_all(awaited, sent, &mut take),
            None => return "the memory holds no more".to_owned(),
        };
        outcome.err().map_or_else(String::new, |it| it.to_string())
    }

    fn read_all(
        &mut self,
        awaited: Awaited,
        sent: &[u8],
        take: &mut dyn FnMut(Vec<NamedTensor>),
    ) -> Result<(), ChannelError> {
        let sent = sent.get(..sent.len().min(MOST_SENT)).unwrap_or_default();
        if awaited == Awaited::Answer {
            return self.take_all(sent, take);
        }
        let (mut theirs, ours) = UnixStream::pair()?;
        theirs.write_all(sent)?;
        drop(theirs);
        let longest = if awaited == Awaited::Load { LONGEST } else { LONGEST_ANSWER };
        let mut receiver = Receiver::new(ours, longest);
        loop {
            match awaited {
                Awaited::Load => receiver.receive::<LoadAnswer>().map(drop)?,
                Awaited::Opened | Awaited::Answer => receiver.receive::<Opened>().map(drop)?,
            }
            take(Vec::new());
        }
    }

    /// Answers one after the other, each with what follows it behind it in the memory.
    fn take_all(
        &mut self,
        mut sent: &[u8],
        take: &mut dyn FnMut(Vec<NamedTensor>),
    ) -> Result<(), ChannelError> {
        while !sent.is_empty() {
            self.outgoing.put(sent)?;
            let outputs = match self.incoming.receive::<Answer<'_>>()?.outputs {
                Ok(placed) => self.arena.take(&placed)?,
                Err(_) => Vec::new(),
            };
            take(outputs);
            let end = frame::end(sent, LONGEST_ANSWER)?;
            sent = end.and_then(|it| sent.get(it..)).unwrap_or_default();
        }
        Err(ChannelError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backend::DataType;

    use super::*;
    use crate::message::Placed;

    fn framed(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32).to_le_bytes(), body].concat()
    }

    #[test]
    fn answers_are_read_until_one_is_garbage() {
        let mut peer = Peer::new(4096).unwrap();
        let of = |at| Placed { name: "y".into(), dtype: DataType::Fp32, dims: vec![1], at, len: 4 };
        let answer = |at| {
            framed(
                &postcard::to_stdvec(&Answer {
                    run: 0,
                    took: Duration::ZERO,
                    wide: false,
                    outputs: Ok(vec![of(at)]),
                })
                .unwrap(),
            )
        };
        let sent = [answer(4096), answer(8192), answer(4096)].concat();
        let mut taken = Vec::new();
        let end = peer.read(Awaited::Answer, &1.5f32.to_le_bytes(), &sent, |it| taken.push(it));
        assert_eq!(end, "what came cannot be read: output 'y' lies outside of its memory");
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0][0].tensor.as_slice_of::<f32>().unwrap(), [1.5]);
        let opened = framed(&postcard::to_stdvec(&Opened::Ok(())).unwrap());
        let end = peer.read(Awaited::Opened, &[], &opened, |it| assert!(it.is_empty()));
        assert_eq!(end, "the other side has ended");
    }
}
