//! What a worker has sent and nobody has read: whole frames, however they came.

use std::{io::Read, os::unix::net::UnixStream};

use super::message::{HEAD, LONGEST_JSON};
use crate::{channel::ChannelError, frame::Garbage};

/// Bytes that one read asks for.
const READ: usize = 64 << 10;

/// Room that is kept for the next frame.
const KEPT: usize = 1 << 20;

/// The frames that come. Memory is taken for what has come, not for what is announced.
pub(super) struct Inbox {
    /// The longest that may lie behind the JSON of a frame.
    longest: usize,
    buffer: Vec<u8>,
    held: usize,
}

/// A frame: its JSON, and what lies behind it.
pub(super) type Frame<'a> = (&'a [u8], &'a [u8]);

impl Inbox {
    pub(super) fn new(longest: usize) -> Inbox {
        Inbox { longest, buffer: Vec::new(), held: 0 }
    }

    /// Reads what is there, and gives each frame that is whole to `take`. Where the stream does not block, it is
    /// [`ChannelError::Timeout`] that there is nothing.
    ///
    /// # Errors
    /// Those of `take`, [`ChannelError::Closed`] at the end, [`ChannelError::Garbage`] where a frame is too long.
    pub(super) fn read(
        &mut self,
        mut stream: &UnixStream,
        mut take: impl FnMut(Frame<'_>) -> Result<(), ChannelError>,
    ) -> Result<(), ChannelError> {
        // At most twice what has come, so that long frames are not copied often.
        let room = self.held + READ.max(self.held.min(self.missing()?));
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let count = stream.read(self.buffer.get_mut(self.held..).unwrap_or_default())?;
        if count == 0 {
            return Err(ChannelError::Closed);
        }
        self.held += count;
        let mut used = 0;
        while let Some((json, end)) = self.frame(used)? {
            let at = |from, to| self.buffer.get(from..to).unwrap_or_default();
            take((at(used + HEAD, json), at(json, end)))?;
            used = end;
        }
        self.buffer.copy_within(used..self.held, 0);
        self.held -= used;
        if self.held == 0 && KEPT < self.buffer.len() {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Where the JSON of the frame ends that begins there, and the frame. `None` where it is not whole yet.
    fn frame(&self, from: usize) -> Result<Option<(usize, usize)>, Garbage> {
        let held = self.buffer.get(from..self.held).unwrap_or_default();
        let Some(head) = held.first_chunk::<HEAD>() else { return Ok(None) };
        let [json, behind] = self.lengths(head)?;
        let (json, end) = (from + HEAD + json, from + HEAD + json + behind);
        Ok(Some((json, end)).filter(|_| end <= self.held))
    }

    /// How many bytes of the first frame have not come, as far as that is known.
    fn missing(&self) -> Result<usize, Garbage> {
        let held = self.buffer.get(..self.held).unwrap_or_default();
        let Some(head) = held.first_chunk::<HEAD>() else { return Ok(0) };
        let [json, behind] = self.lengths(head)?;
        Ok((HEAD + json + behind).saturating_sub(self.held))
    }

    fn lengths(&self, head: &[u8; HEAD]) -> Result<[usize; 2], Garbage> {
        let (lengths, _) = head.as_chunks::<4>();
        let mut lengths = lengths.iter().map(|it| u32::from_le_bytes(*it) as usize);
        let mut within = |longest| {
            let len = lengths.next().unwrap_or_default();
            if longest < len { Err(Garbage::TooLong { len, longest }) } else { Ok(len) }
        };
        Ok([within(LONGEST_JSON)?, within(self.longest)?])
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn frame(json: &[u8], behind: &[u8]) -> Vec<u8> {
        let head = [json.len(), behind.len()].map(|it| (it as u32).to_le_bytes());
        [head.as_flattened(), json, behind].concat()
    }

    type Came = Vec<(Vec<u8>, Vec<u8>)>;

    /// What comes of these pieces, each of which is read before the next is sent.
    fn read(longest: usize, pieces: &[&[u8]]) -> (Came, Option<ChannelError>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (mut inbox, mut came) = (Inbox::new(longest), Vec::new());
        for piece in pieces {
            theirs.write_all(piece).unwrap();
            loop {
                let read = inbox.read(&ours, |(json, behind)| {
                    came.push((json.to_vec(), behind.to_vec()));
                    Ok(())
                });
                match read {
                    Ok(()) => {}
                    Err(ChannelError::Timeout) => break,
                    Err(error) => return (came, Some(error)),
                }
            }
        }
        (came, None)
    }

    #[test]
    fn frames_come_one_by_one_however_they_were_sent() {
        let long = vec![7; 3 * READ];
        let all = [frame(b"a", b"bc"), frame(b"", b""), frame(b"d", &long)].concat();
        let expected: Came =
            vec![(b"a".into(), b"bc".into()), (Vec::new(), Vec::new()), (b"d".into(), long)];
        for size in [1, 3, 50_000] {
            let pieces: Vec<&[u8]> = all.chunks(size).collect();
            let (came, error) = read(1 << 20, &pieces);
            assert!(error.is_none() && came == expected, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_longer_than_it_may_be_is_garbage_before_it_has_come() {
        let heads: [[u32; 2]; 2] = [[LONGEST_JSON as u32 + 1, 0], [1, 17]];
        for head in heads {
            let head = head.map(u32::to_le_bytes);
            let (came, error) = read(16, &[head.as_flattened()]);
            assert!(came.is_empty());
            assert!(matches!(error, Some(ChannelError::Garbage(Garbage::TooLong { .. }))));
        }
        assert_eq!(read(16, &[&frame(b"a", &[0; 16])]).0.len(), 1);
    }
}
