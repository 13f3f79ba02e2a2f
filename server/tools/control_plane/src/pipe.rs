//! The operations over a pair of sockets, for a server that has started this program to do jobs beside it: a request
//! is the lengths of its target and its body and both of them, a reply its status, its length and its body. Nobody
//! else can reach a pair, and its end is the end of the one that holds the other socket.

use std::{
    io::{self, BufReader, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::host::Reply;

/// Most bytes of an operation's name, of a request's body and of a reply.
const MOST_TARGET: usize = 256;
const MOST_BODY: usize = 128 << 10;
const MOST_REPLY: usize = 16 << 20;
/// How soon `stop` is seen.
const LOOK: Duration = Duration::from_millis(100);
/// An answer takes a moment; who does not answer for so long is taken to be gone.
const LONGEST: Duration = Duration::from_secs(30);

/// Who asks: the end of the server.
#[derive(Debug)]
pub struct Asking(UnixStream);

impl Asking {
    /// Asks over this socket.
    ///
    /// # Errors
    /// When it takes no bound for its waits.
    pub fn new(socket: UnixStream) -> io::Result<Asking> {
        socket.set_read_timeout(Some(LONGEST))?;
        socket.set_write_timeout(Some(LONGEST))?;
        Ok(Asking(socket))
    }

    /// The reply to an operation, which the value of the header `X-Amz-Target` names. Blocks until it is there.
    ///
    /// # Errors
    /// When the other end is gone, does not answer in time, or says what is no reply. No further one may be asked.
    pub fn ask(&mut self, target: &str, body: &[u8]) -> io::Result<Reply> {
        write_lengths(&mut self.0, [target.len(), body.len()])?;
        self.0.write_all(target.as_bytes())?;
        self.0.write_all(body)?;
        let [status, length] = read_lengths(&mut self.0)?;
        let status = u16::try_from(status).map_err(|_| too_large("a status", status))?;
        Ok(Reply { status, body: read(&mut self.0, length, MOST_REPLY, "a reply")? })
    }
}

/// The socket that is this program's standard input.
///
/// # Errors
/// When it is none.
pub fn standard_input() -> io::Result<UnixStream> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Of anything else there is no other end.
    socket.peer_addr()?;
    Ok(socket)
}

/// Answers operations by `control`, given their name and body, until the other end is gone or `stop` is set; blocks
/// until then.
///
/// # Errors
/// When what comes is no request.
pub fn serve(
    socket: &UnixStream,
    control: impl Fn(&str, &[u8]) -> Reply,
    stop: &AtomicBool,
) -> io::Result<()> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) && !is_over.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
            }
            // It is over anyway.
            let _ = socket.shutdown(Shutdown::Both);
        });
        let outcome = answer(socket, control);
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}

fn answer(socket: &UnixStream, control: impl Fn(&str, &[u8]) -> Reply) -> io::Result<()> {
    let mut requests = BufReader::new(socket);
    let mut replies = socket;
    loop {
        let [target, body] = match read_lengths(&mut requests) {
            Ok(lengths) => lengths,
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let target = read(&mut requests, target, MOST_TARGET, "the name of an operation")?;
        let body = read(&mut requests, body, MOST_BODY, "a request")?;
        let reply = control(&String::from_utf8_lossy(&target), &body);
        let written = write_lengths(&mut replies, [reply.status.into(), reply.body.len()]);
        match written.and_then(|()| replies.write_all(&reply.body)) {
            Err(error) if is_gone(&error) => return Ok(()),
            written => written?,
        }
    }
}

/// Is nobody there at the other end?
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn write_lengths(to: &mut impl Write, lengths: [usize; 2]) -> io::Result<()> {
    let [a, b] = lengths.map(|it| u32::try_from(it).map(u32::to_le_bytes));
    let (a, b) = (a.map_err(io::Error::other)?, b.map_err(io::Error::other)?);
    to.write_all(&[a, b].concat())
}

fn read_lengths(from: &mut impl Read) -> io::Result<[usize; 2]> {
    let mut bytes = [[0; 4]; 2];
    from.read_exact(bytes.as_flattened_mut())?;
    Ok(bytes.map(|it| u32::from_le_bytes(it) as usize))
}

/// So many bytes, unless they are more than that.
fn read(from: &mut impl Read, length: usize, most: usize, what: &str) -> io::Result<Vec<u8>> {
    if length > most {
        return Err(too_large(what, length));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn too_large(what: &str, given: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} cannot be as large as {given}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    /// Answers with the operation's name, and with 400 where it has no body.
    fn echo(target: &str, body: &[u8]) -> Reply {
        Reply { status: if body.is_empty() { 400 } else { 200 }, body: target.into() }
    }

    #[test]
    fn operations_are_answered_until_the_other_end_is_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let serving = scope.spawn(|| serve(&theirs, echo, &stop));
            let mut asking = Asking::new(ours).unwrap();
            for _ in 0..2 {
                let reply = asking.ask("SageMaker.Something", b"{}").unwrap();
                assert_eq!(reply, Reply { status: 200, body: b"SageMaker.Something".to_vec() });
            }
            assert_eq!(asking.ask("SageMaker.Nothing", b"").unwrap().status, 400);
            drop(asking);
            assert!(serving.join().unwrap().is_ok());
        });
    }

    #[test]
    fn a_stop_ends_it_and_nothing_is_held_for_a_length_that_is_too_large() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert!(serve(&theirs, echo, &AtomicBool::new(true)).is_ok());
        assert!(Asking::new(ours).unwrap().ask("x", b"").is_err());

        let (mut ours, theirs) = UnixStream::pair().unwrap();
        write_lengths(&mut ours, [1, u32::MAX as usize]).unwrap();
        ours.write_all(b"x").unwrap();
        let error = serve(&theirs, echo, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.to_string(), "a request cannot be as large as 4294967295");
    }
}
