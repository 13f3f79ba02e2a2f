//! A reply's body as an event stream: each chunk leaves in frames at once, and an error becomes the last frame.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use crate::codec::eventstream::{self, Broken};
use frontend::http::body::BrokenOff;

/// The frames of a body.
pub struct EventStream<B: Body> {
    /// The body that is framed; `None` once it has ended.
    inner: Option<B>,
    /// The chunk that is not in a frame yet.
    chunk: Bytes,
    /// Pieces of the frame that is sent at present.
    ready: VecDeque<Bytes>,
    /// The kind of an error of the body, and its text.
    describe: fn(B::Error) -> (Broken, String),
}

impl<B: Body> EventStream<B> {
    /// Frames `inner`. `describe` turns an error of the body into the last frame's kind and text.
    pub fn new(inner: B, describe: fn(B::Error) -> (Broken, String)) -> EventStream<B> {
        EventStream { inner: Some(inner), chunk: Bytes::new(), ready: VecDeque::new(), describe }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for EventStream<B> {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let this = &mut *self;
            // One frame at a time: framing a large chunk takes long, and other connections take their turn between
            // the writes.
            if eventstream::part(&mut this.chunk, &mut this.ready) {
                continue;
            }
            let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
            match ready!(Pin::new(inner).poll_frame(context)) {
                // An event stream has no place for trailers: they are dropped.
                Some(Ok(frame)) => {
                    this.chunk = frame.into_data().unwrap_or_default();
                }
                Some(Err(error)) => {
                    let (broken, message) = (this.describe)(error);
                    eventstream::exception(broken, &message, &mut this.ready);
                    this.inner = None;
                }
                None => this.inner = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;

    use super::*;

    /// A body whose chunks come over a channel.
    struct Channel(mpsc::Receiver<Result<Bytes, &'static str>>);

    impl Body for Channel {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            self.0.poll_recv(context).map(|it| it.map(|it| it.map(Frame::data)))
        }
    }

    fn stream() -> (mpsc::Sender<Result<Bytes, &'static str>>, EventStream<Channel>) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, EventStream::new(Channel(receiver), |it| (Broken::Off, it.to_owned())))
    }

    fn part(chunk: &'static [u8]) -> Vec<Bytes> {
        let mut out = Vec::new();
        assert!(eventstream::part(&mut Bytes::from_static(chunk), &mut out));
        out
    }

    #[tokio::test]
    async fn each_chunk_leaves_in_a_frame_before_the_next_one_has_come() {
        let (sender, mut stream) = stream();
        for chunk in [b"first", b"other"] {
            sender.send(Ok(Bytes::from_static(chunk))).await.unwrap();
            let piece = stream.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!([piece], *part(chunk));
        }
        drop(sender);
        assert!(stream.frame().await.is_none());
    }

    #[tokio::test]
    async fn the_frames_of_a_large_chunk_are_made_one_after_another() {
        let (sender, mut stream) = stream();
        let chunk = Bytes::from(vec![0; 2 * eventstream::MOST_PAYLOAD]);
        sender.send(Ok(chunk)).await.unwrap();
        drop(sender);
        stream.frame().await.unwrap().unwrap();
        assert_eq!(stream.chunk.len(), eventstream::MOST_PAYLOAD);
        let mut pieces = 1;
        while let Some(piece) = stream.frame().await {
            piece.unwrap();
            pieces += 1;
        }
        assert_eq!(pieces, 6);
    }

    #[tokio::test]
    async fn what_breaks_off_ends_with_an_exception() {
        let (sender, mut stream) = stream();
        sender.send(Err("it fell")).await.unwrap();
        let mut expected = Vec::new();
        eventstream::exception(Broken::Off, "it fell", &mut expected);
        let piece = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!([piece], *expected);
        assert!(stream.frame().await.is_none());
    }
}
