//! Frames over a Unix socket: a length, then so many bytes; open files may come along with one.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};

/// Bytes of the length before a frame.
const HEAD: usize = 4;

/// The longest frame. A model's description is the longest that there is: it has labels and metadata of its file.
const LONGEST: usize = 256 << 20;

/// Bytes that one read asks for: more than a usual frame.
const READ: usize = 16 << 10;

/// Open files that one frame brings along.
pub(crate) const FILES: usize = 2;

/// Why no frame came or went.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    /// The other side has ended.
    #[error("the other side has ended")]
    Closed,
    /// No frame came within the time that was set.
    #[error("nothing came in time")]
    Timeout,
    /// What came is no frame.
    #[error("what came cannot be read: {0}")]
    Garbage(String),
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> ChannelError {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ChannelError::Closed,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ChannelError::Timeout,
            _ => ChannelError::Io(error),
        }
    }
}

/// The sending half of a socket.
pub(crate) struct Sender {
    stream: UnixStream,
    frame: Vec<u8>,
}

impl Sender {
    pub(crate) fn new(stream: UnixStream) -> Sender {
        Sender { stream, frame: Vec::new() }
    }

    /// Sends one frame. Blocks while the other side reads nothing and the socket is full.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        self.encode(message)?;
        Ok(self.stream.write_all(&self.frame)?)
    }

    /// Sends one frame if there is room for it at once. Where there is not, it is lost.
    pub(crate) fn send_at_once(&mut self, message: &impl Serialize) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if self.encode(message).is_ok() {
            // A frame of a few bytes goes as a whole or not at all.
            let _ = rustix::net::send(&self.stream, &self.frame, flags);
        }
    }

    /// Sends one frame, and open files with it.
    pub(crate) fn send_with(
        &mut self,
        message: &impl Serialize,
        files: [BorrowedFd<'_>; FILES],
    ) -> Result<(), ChannelError> {
        self.encode(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let frame = [IoSlice::new(&self.frame)];
        let sent = rustix::net::sendmsg(&self.stream, &frame, &mut ancillary, SendFlags::NOSIGNAL);
        let sent = sent.map_err(io::Error::from)?;
        Ok(self.stream.write_all(self.frame.get(sent..).unwrap_or_default())?)
    }

    fn encode(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.extend([0; HEAD]);
        let unwritable = |it: postcard::Error| ChannelError::Io(io::Error::other(it));
        self.frame = postcard::to_extend(message, frame).map_err(unwritable)?;
        let len = self.frame.len() - HEAD;
        if LONGEST < len {
            return Err(ChannelError::Io(io::ErrorKind::FileTooLarge.into()));
        }
        self.frame[..HEAD].copy_from_slice(&(len as u32).to_le_bytes());
        Ok(())
    }
}

/// The receiving half of a socket.
pub(crate) struct Receiver {
    stream: UnixStream,
    /// What was read. The first `used` bytes are of the frame that was given out last.
    buffer: Vec<u8>,
    used: usize,
    files: VecDeque<OwnedFd>,
}

impl Receiver {
    pub(crate) fn new(stream: UnixStream) -> Receiver {
        Receiver { stream, buffer: Vec::new(), used: 0, files: VecDeque::new() }
    }

    /// [`Receiver::wait`] fails with [`ChannelError::Timeout`] after that time, and can be called again.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }

    /// Waits until the next frame is here. Blocking.
    pub(crate) fn wait(&mut self) -> Result<(), ChannelError> {
        self.buffer.drain(..std::mem::take(&mut self.used));
        while self.frame_end()?.is_none() {
            self.read()?;
        }
        Ok(())
    }

    /// The next frame. Blocking.
    pub(crate) fn receive<'a, T: Deserialize<'a>>(&'a mut self) -> Result<T, ChannelError> {
        self.wait()?;
        self.used = self.frame_end()?.unwrap_or(HEAD);
        let frame = self.buffer.get(HEAD..self.used).unwrap_or_default();
        postcard::from_bytes(frame).map_err(|it| ChannelError::Garbage(it.to_string()))
    }

    /// Where in the buffer the first frame ends, if it is there.
    fn frame_end(&self) -> Result<Option<usize>, ChannelError> {
        let Some(head) = self.buffer.first_chunk::<HEAD>() else { return Ok(None) };
        let len = u32::from_le_bytes(*head) as usize;
        if LONGEST < len {
            return Err(ChannelError::Garbage(format!("a frame of {len} bytes")));
        }
        Ok(Some(HEAD + len).filter(|end| *end <= self.buffer.len()))
    }

    /// The next of the files that have come along.
    pub(crate) fn file(&mut self) -> Option<OwnedFd> {
        self.files.pop_front()
    }

    fn read(&mut self) -> Result<(), ChannelError> {
        let had = self.buffer.len();
        self.buffer.resize(had + READ, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(self.buffer.get_mut(had..).unwrap_or_default())];
        let received = loop {
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.stream, &mut parts, &mut ancillary, flags) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        let count = received.as_ref().map_or(0, |it| it.bytes);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        self.buffer.truncate(had + count);
        let received = received.map_err(io::Error::from)?;
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ChannelError::Garbage("more files than a frame brings".to_owned()));
        }
        if count == 0 { Err(ChannelError::Closed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn pair() -> (Sender, Receiver) {
        let (one, other) = UnixStream::pair().unwrap();
        (Sender::new(one), Receiver::new(other))
    }

    #[test]
    fn frames_come_one_by_one_however_they_were_written() {
        let (mut sender, mut receiver) = pair();
        let long = "x".repeat(3 * READ);
        let sent = std::thread::spawn(move || {
            for text in ["one", &long, ""] {
                sender.send(&text).unwrap();
            }
        });
        assert_eq!(receiver.receive::<&str>().unwrap(), "one");
        assert_eq!(receiver.receive::<&str>().unwrap().len(), 3 * READ);
        assert_eq!(receiver.receive::<&str>().unwrap(), "");
        sent.join().unwrap();
        assert!(matches!(receiver.receive::<&str>(), Err(ChannelError::Closed)));
    }

    #[test]
    fn files_come_along() {
        let (mut sender, mut receiver) = pair();
        let (one, other) = UnixStream::pair().unwrap();
        sender.send_with(&7u32, [one.as_fd(), other.as_fd()]).unwrap();
        assert_eq!(receiver.receive::<u32>().unwrap(), 7);
        let came: Vec<OwnedFd> = std::iter::from_fn(|| receiver.file()).collect();
        assert_eq!(came.len(), 2);
        UnixStream::from(came[0].try_clone().unwrap()).write_all(b"!").unwrap();
    }

    #[test]
    fn garbage_and_silence_are_errors() {
        let (mut sender, mut receiver) = pair();
        receiver.set_timeout(Duration::from_millis(1)).unwrap();
        assert!(matches!(receiver.receive::<u32>(), Err(ChannelError::Timeout)));
        sender.send(&"no sixteen numbers").unwrap();
        assert!(matches!(receiver.receive::<[&str; 16]>(), Err(ChannelError::Garbage(_))));
        sender.stream.write_all(&[0xff; 8]).unwrap();
        assert!(matches!(receiver.receive::<u32>(), Err(ChannelError::Garbage(_))));
    }
}
