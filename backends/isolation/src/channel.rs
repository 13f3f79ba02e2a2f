//! Frames over a Unix socket; open files may come along with one.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};

use crate::frame::{self, Encoding, Garbage, HEAD};

/// A worker that reads nothing for so long while there is no room for more is of no use.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// Bytes that one read asks for: more than a usual frame.
const READ: usize = 16 << 10;

/// Most open files that one frame brings along.
pub(crate) const FILES: usize = 4;

/// Why no frame came or went.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    /// The other side has ended.
    #[error("the other side has ended")]
    Closed,
    /// No frame came within the time that was set.
    #[error("nothing came in time")]
    Timeout,
    /// The other side reads nothing, and there is no room for more.
    #[error("it reads nothing of what it is sent")]
    Unread,
    /// What came is no frame, or not the one that was waited for.
    #[error("what came cannot be read: {0}")]
    Garbage(#[from] Garbage),
    /// It is longer than there is room for.
    #[error("a frame of {bytes} bytes, where there is room for {room}")]
    TooLong { bytes: usize, room: usize },
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
    encoding: Encoding,
    frame: Vec<u8>,
}

impl Sender {
    /// One that waits for the other side to read, however long that takes.
    pub(crate) fn new(stream: UnixStream) -> Sender {
        Sender { stream, encoding: Encoding::default(), frame: Vec::new() }
    }

    /// One that waits for [`LONGEST_SILENCE`] at most.
    pub(crate) fn impatient(stream: UnixStream) -> io::Result<Sender> {
        stream.set_write_timeout(Some(LONGEST_SILENCE))?;
        Ok(Sender::new(stream))
    }

    /// From now on frames are written so.
    pub(crate) fn write_in(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// Sends one frame. Blocks while the other side reads nothing and the socket is full.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        self.encode(message)?;
        self.stream.write_all(&self.frame).map_err(unsent)
    }

    /// Sends one frame if there is room for it at once. Where there is not, it is lost.
    pub(crate) fn send_at_once(&mut self, message: &impl Serialize) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if self.encode(message).is_ok() {
            // A frame of a few bytes goes as a whole or not at all.
            let _ = rustix::net::send(&self.stream, &self.frame, flags);
        }
    }

    /// Sends one frame, and open files with it. [`ChannelError::Unread`] where there is no room for it at once.
    pub(crate) fn send_with(
        &mut self,
        message: &impl Serialize,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        self.encode(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(files));
        let frame = [IoSlice::new(&self.frame)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::sendmsg(&self.stream, &frame, &mut ancillary, flags);
        let sent = sent.map_err(|it| unsent(it.into()))?;
        self.stream.write_all(self.frame.get(sent..).unwrap_or_default()).map_err(unsent)
    }

    fn encode(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        let frame = std::mem::take(&mut self.frame);
        let frame = frame::encode(self.encoding, message, frame).map_err(ChannelError::Io)?;
        self.frame = frame.ok_or(ChannelError::Io(io::ErrorKind::FileTooLarge.into()))?;
        Ok(())
    }
}

fn unsent(error: io::Error) -> ChannelError {
    match ChannelError::from(error) {
        ChannelError::Timeout => ChannelError::Unread,
        other => other,
    }
}

/// The receiving half of a socket.
pub(crate) struct Receiver {
    stream: UnixStream,
    encoding: Encoding,
    /// A longer frame is garbage.
    longest: usize,
    /// May files come along? Where they may not, they are closed by the system, and are garbage.
    takes_files: bool,
    timeout: Option<Duration>,
    /// Room for what is read, which keeps its length: to clear it before each read would take as long as the rest of a
    /// read. The first `held` bytes were read, and the first `used` of these are of the frame that was given out last.
    buffer: Vec<u8>,
    held: usize,
    used: usize,
    files: VecDeque<OwnedFd>,
}

impl Receiver {
    /// Of frames of at most `longest` bytes, without files.
    pub(crate) fn new(stream: UnixStream, longest: usize) -> Receiver {
        Receiver {
            stream,
            encoding: Encoding::default(),
            longest,
            takes_files: false,
            timeout: None,
            buffer: Vec::new(),
            held: 0,
            used: 0,
            files: VecDeque::new(),
        }
    }

    /// The same of frames with which files come along.
    pub(crate) fn with_files(stream: UnixStream, longest: usize) -> Receiver {
        Receiver { takes_files: true, ..Receiver::new(stream, longest) }
    }

    /// From now on frames are read so.
    pub(crate) fn read_in(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// From now on files that come along are garbage.
    pub(crate) fn take_no_more_files(&mut self) {
        self.takes_files = false;
        self.files.clear();
    }

    /// [`Receiver::wait`] fails with [`ChannelError::Timeout`] after that time, and can be called again.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = Some(timeout);
        self.stream.set_read_timeout(Some(timeout))
    }

    /// Waits until the next frame is here. Blocking.
    pub(crate) fn wait(&mut self) -> Result<(), ChannelError> {
        let used = std::mem::take(&mut self.used);
        self.buffer.copy_within(used..self.held, 0);
        self.held -= used;
        let mut began = None;
        while self.frame_end()?.is_none() {
            self.read()?;
            // A frame whose bytes come one by one is not here in time, either.
            let began = *began.get_or_insert_with(Instant::now);
            if self.timeout.is_some_and(|it| it <= began.elapsed()) && self.frame_end()?.is_none() {
                return Err(ChannelError::Timeout);
            }
        }
        Ok(())
    }

    /// The next frame. Blocking.
    pub(crate) fn receive<'a, T: Deserialize<'a>>(&'a mut self) -> Result<T, ChannelError> {
        self.wait()?;
        self.used = self.frame_end()?.unwrap_or(HEAD);
        let frame = self.buffer.get(..self.used).unwrap_or_default();
        Ok(frame::decode(self.encoding, frame)?)
    }

    /// Where in the buffer the first frame ends, if it is there.
    fn frame_end(&self) -> Result<Option<usize>, ChannelError> {
        let held = self.buffer.get(..self.held).unwrap_or_default();
        Ok(frame::end(held, self.longest)?)
    }

    /// The next of the files that have come along.
    pub(crate) fn file(&mut self) -> Option<OwnedFd> {
        self.files.pop_front()
    }

    fn read(&mut self) -> Result<(), ChannelError> {
        let had = self.held;
        if self.buffer.len() < had + READ {
            self.buffer.resize(had + READ, 0);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let room = if self.takes_files { space.len() } else { 0 };
        let mut ancillary = RecvAncillaryBuffer::new(space.get_mut(..room).unwrap_or_default());
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
        self.held = had + count;
        let received = received.map_err(io::Error::from)?;
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Garbage::Unexpected("files that were not asked for".into()).into());
        }
        if count == 0 { Err(ChannelError::Closed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::LONGEST;
    use std::os::fd::AsFd;

    fn pair() -> (Sender, Receiver) {
        let (one, other) = UnixStream::pair().unwrap();
        (Sender::new(one), Receiver::with_files(other, LONGEST))
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
        sender.send_with(&7u32, &[one.as_fd(), other.as_fd()]).unwrap();
        assert_eq!(receiver.receive::<u32>().unwrap(), 7);
        let came: Vec<OwnedFd> = std::iter::from_fn(|| receiver.file()).collect();
        assert_eq!(came.len(), 2);
        UnixStream::from(came[0].try_clone().unwrap()).write_all(b"!").unwrap();
    }

    #[test]
    fn files_that_nobody_asked_for_are_closed_and_garbage() {
        let (mut sender, receiver) = pair();
        let mut receiver = Receiver::new(receiver.stream, LONGEST);
        let (one, other) = UnixStream::pair().unwrap();
        sender.send_with(&7u32, &[other.as_fd(), other.as_fd()]).unwrap();
        drop(other);
        assert!(matches!(receiver.receive::<u32>(), Err(ChannelError::Garbage(_))));
        assert!(receiver.file().is_none());
        // Nobody has the other end open.
        let mut one = one;
        assert_eq!(std::io::Read::read(&mut one, &mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_frame_that_comes_byte_by_byte_is_not_in_time() {
        let (mut sender, mut receiver) = pair();
        receiver.set_timeout(Duration::from_millis(30)).unwrap();
        let slow = std::thread::spawn(move || {
            sender.stream.write_all(&50u32.to_le_bytes()).unwrap();
            for byte in [0; 50] {
                std::thread::sleep(Duration::from_millis(5));
                if sender.stream.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        let (mut timeouts, mut outcome) = (0, receiver.wait());
        while let Err(ChannelError::Timeout) = outcome {
            timeouts += 1;
            outcome = receiver.wait();
        }
        outcome.unwrap();
        assert!(0 < timeouts);
        assert_eq!(receiver.receive::<[u8; 32]>().unwrap(), [0; 32]);
        slow.join().unwrap();
    }

    #[test]
    fn one_that_reads_nothing_is_not_waited_for_for_ever() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut sender = Sender::impatient(ours).unwrap();
        let unread = std::iter::repeat_with(|| sender.send(&7u32)).find_map(Result::err).unwrap();
        assert!(matches!(unread, ChannelError::Unread));
        let (one, other) = UnixStream::pair().unwrap();
        let unread = sender.send_with(&7u32, &[one.as_fd(), other.as_fd()]);
        assert!(matches!(unread, Err(ChannelError::Unread)));
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
