//! Peers that are silent, slow or take nothing, on a connection in memory.

use std::time::Duration;

use super::*;
use crate::net::{footprint::Footprint, places::Seat};
use inference::ledger::Ledger;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// No room, which may grow up to three quarters of 16 MiB.
fn room() -> ConnectionBytes {
    Footprint::new(&Ledger::new(0, Some(0))).cover(0)
}

fn progress() -> Arc<Progress> {
    let seat = Seat::new([127, 0, 0, 1].into(), Instant::now());
    Arc::new(Progress::new(Arc::new(seat)))
}

/// The server's end of a connection with these timeouts, and the client's end.
async fn connection(idle: u64, head: u64, stall: u64) -> (TimedStream<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let [idle, head, stall] = [idle, head, stall].map(Duration::from_millis);
    let timeouts = Timeouts { idle, head, stall };
    let mut stream = TimedStream::new(stream, timeouts, progress(), room(), Arc::default());
    stream.wake();
    (stream, client)
}

async fn byte(stream: &mut TimedStream<TcpStream>) -> io::Result<u8> {
    stream.read_u8().await
}

fn is_timeout<T>(outcome: &io::Result<T>) -> bool {
    matches!(outcome, Err(error) if error.kind() == io::ErrorKind::TimedOut)
}

#[tokio::test]
async fn a_silent_peer_is_given_up_after_the_idle_time_and_not_before() {
    let started = Instant::now();
    let (mut stream, _client) = connection(100, 10, 10).await;
    assert!(is_timeout(&byte(&mut stream).await));
    assert!(started.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn a_head_has_its_time_from_its_first_byte_however_it_trickles() {
    let started = Instant::now();
    let (mut stream, mut client) = connection(60_000, 100, 60_000).await;
    let trickle = tokio::spawn(async move {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    while byte(&mut stream).await.is_ok() {}
    assert!(started.elapsed() >= Duration::from_millis(100));
    drop(stream);
    trickle.await.unwrap();
}

#[tokio::test]
async fn while_a_request_is_worked_on_the_peer_may_be_silent() {
    let (mut stream, mut client) = connection(10, 10, 10).await;
    stream.progress.busy();
    let silence = tokio::time::timeout(Duration::from_millis(100), byte(&mut stream)).await;
    assert!(silence.is_err());
    stream.progress.idle();
    client.write_all(b"x").await.unwrap();
    assert_eq!(byte(&mut stream).await.unwrap(), b'x');
}

#[tokio::test]
async fn a_peer_that_takes_nothing_of_a_reply_is_given_up() {
    let (mut stream, _client) = connection(60_000, 60_000, 50).await;
    assert!(is_timeout(&stream.write_all(&vec![0; 64 << 20]).await));
}

#[tokio::test]
async fn at_the_last_look_bytes_that_only_the_kernel_has_are_a_request_on_its_way() {
    let (mut stream, client) = connection(60_000, 60_000, 60_000).await;
    stream.progress.last_look();
    let mut look = || {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let read = Pin::new(&mut stream).poll_read(&mut context, &mut buffer);
        (read.is_pending(), stream.progress.is_arriving())
    };
    assert_eq!(look(), (true, false));
    // Without a turn of the runtime, which does not know of them then.
    client.try_write(b"G").unwrap();
    assert_eq!(look(), (true, true));
    client.writable().await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!look().0);
    // A head that has begun is one, too.
    assert_eq!(look(), (true, true));
}

/// Accepts all bytes, as TLS does up to a bound, but never finishes a flush.
struct Full;

impl AsyncWrite for Full {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn what_is_buffered_must_be_taken_in_time_too() {
    let long = Duration::from_secs(60);
    let timeouts = Timeouts { idle: long, head: long, stall: Duration::from_millis(50) };
    let stream = || {
        let mut stream = TimedStream::new(Full, timeouts, progress(), room(), Arc::default());
        stream.wake();
        stream
    };
    let mut flushed = stream();
    flushed.write_all(b"reply").await.unwrap();
    assert!(is_timeout(&flushed.flush().await));
    assert!(is_timeout(&stream().shutdown().await));
}

#[tokio::test]
async fn a_connection_is_idle_when_its_reply_has_been_written() {
    let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
    let progress = stream.progress.clone();
    progress.busy();
    progress.idle();
    let reply = vec![0; 64 << 20];
    let write = tokio::spawn(async move { stream.write_all(&reply).await.map(|()| stream) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!progress.is_idle());
    client.read_exact(&mut vec![0; 64 << 20]).await.unwrap();
    write.await.unwrap().unwrap();
    assert!(progress.is_idle());
}

#[tokio::test]
async fn a_peer_that_is_slow_to_take_a_reply_is_idle_only_after_that() {
    let slow = Duration::from_millis(50);
    let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
    let started = Instant::now();
    let reader = tokio::spawn(async move {
        tokio::time::sleep(slow).await;
        client.read_exact(&mut vec![0; 16 << 20]).await.unwrap();
        client
    });
    stream.write_all(&vec![0; 16 << 20]).await.unwrap();
    reader.await.unwrap();
    assert!(stream.waiting_since >= started + slow);
}

#[tokio::test]
async fn what_was_read_before_a_rest_comes_first_and_none_of_it_is_kept() {
    let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
    stream = stream.rest(Bytes::from_static(b"GE"));
    assert!(stream.arrival().await);
    client.write_all(b"T").await.unwrap();
    let mut read = [0; 3];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"GET");
    assert!(stream.unread.is_empty());
}

#[tokio::test]
async fn a_connection_is_at_rest_once_nothing_was_asked_for_long_enough() {
    let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
    let progress = stream.progress.clone();
    let began = Instant::now();
    poll_fn(|context| {
        let read = Pin::new(&mut stream).poll_read(context, &mut ReadBuf::new(&mut [0]));
        assert!(read.is_pending());
        if progress.is_at_rest() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    assert!(REST_AFTER <= began.elapsed());
    // It is not shut down by what ends with the rest.
    stream.shutdown().await.unwrap();
    client.write_all(b"G").await.unwrap();
    assert!(stream.arrival().await);
    assert_eq!(byte(&mut stream).await.unwrap(), b'G');
    assert!(!progress.is_at_rest());
    // A head that has begun is no rest.
    assert_eq!(stream.rests_at(), None);
}

#[tokio::test]
async fn empty_lines_between_requests_begin_no_head() {
    let (mut stream, mut client) = connection(60_000, 50, 60_000).await;
    client.write_all(b"\r\n").await.unwrap();
    assert_eq!(byte(&mut stream).await.unwrap(), b'\r');
    assert_eq!(byte(&mut stream).await.unwrap(), b'\n');
    let silence = tokio::time::timeout(Duration::from_millis(200), byte(&mut stream)).await;
    assert!(silence.is_err());
    assert!(stream.rests_at().is_none());
    // Those that were read and not used are dropped, and what stands behind them is not.
    let mut stream = stream.rest(Bytes::from_static(b"\r\n\n\rG\r"));
    assert_eq!(byte(&mut stream).await.unwrap(), b'G');
    assert_eq!(byte(&mut stream).await.unwrap(), b'\r');
    assert!(is_timeout(&byte(&mut stream).await));
}

#[tokio::test]
async fn once_no_head_is_waited_for_a_part_of_one_ends_the_connection_and_a_request_does_not() {
    let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
    stream.progress.busy();
    client.write_all(b"x").await.unwrap();
    assert_eq!(byte(&mut stream).await.unwrap(), b'x');
    stream.progress.wait_for_no_head();
    let silence = tokio::time::timeout(Duration::from_millis(1200), byte(&mut stream)).await;
    assert!(silence.is_err());
    stream.progress.idle();
    client.write_all(b"\nG").await.unwrap();
    assert_eq!(byte(&mut stream).await.unwrap(), b'\n');
    assert_eq!(byte(&mut stream).await.unwrap(), b'G');
    assert!(is_timeout(&byte(&mut stream).await));
}

#[tokio::test]
async fn a_connection_at_rest_is_given_up_after_the_idle_time() {
    let began = Instant::now();
    let (mut stream, _client) = connection(1200, 60_000, 60_000).await;
    assert!(!stream.arrival().await);
    assert!(Duration::from_millis(1200) <= began.elapsed());
}

#[tokio::test]
async fn what_is_read_ahead_has_room_and_where_there_is_none_little_is_read_of_a_body() {
    let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
    client.write_all(&[b'x'; 200_000]).await.unwrap();
    let mut buffer = vec![0; 100_000];
    // A body.
    stream.progress.busy();
    stream.read_exact(&mut buffer).await.unwrap();
    let room = stream.room.bytes();
    assert_eq!(room, 100_000 - FIRST_BUFFER);
    let footprint = stream.room.footprint().clone();
    let _all = footprint.cover(16 << 20);
    let mut large = vec![0; 200_000];
    let read = stream.read(&mut large).await.unwrap();
    assert!(0 < read && read <= 100_000, "{read}");
    assert_eq!(stream.room.bytes(), room);
    // At rest nothing is kept.
    let stream = stream.rest(Bytes::new());
    assert_eq!(stream.room.bytes(), 0);
}

#[tokio::test]
async fn a_head_for_which_there_is_no_memory_ends_its_connection() {
    let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
    let _all = stream.room.footprint().cover(16 << 20);
    client.write_all(&[b'x'; 100_000]).await.unwrap();
    let mut buffer = vec![0; 8 << 10];
    let mut head = 0;
    let error = loop {
        match stream.read(&mut buffer).await {
            Ok(read) => head += read,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert!(head <= FIRST_BUFFER, "{head}");
}
