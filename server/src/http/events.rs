//! A reply's body as an event stream: what comes of it leaves in frames at once, and what breaks it is told in one.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use crate::protocol::eventstream::{self, Broken};

/// The frames of a body.
pub struct EventStream<B: Body> {
    /// What is framed; `None` once it has ended.
    inner: Option<B>,
    /// Pieces of frames that are ready to be sent: those of one chunk of the body.
    ready: VecDeque<Bytes>,
    /// What an error of the body is called, and says.
    told: fn(B::Error) -> (Broken, String),
}

impl<B: Body> EventStream<B> {
    /// Frames `inner`. `told` says what is wrong where it breaks off.
    pub fn new(inner: B, told: fn(B::Error) -> (Broken, String)) -> EventStream<B> {
        EventStream { inner: Some(inner), ready: VecDeque::new(), told }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for EventStream<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
            match ready!(Pin::new(inner).poll_frame(context)) {
                // Trailers have no place in an event stream.
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    eventstream::parts(data, &mut self.ready);
                }
                Some(Err(error)) => {
                    let (broken, message) = (self.told)(error);
                    eventstream::exception(broken, &message, &mut self.ready);
                    self.inner = None;
                }
                None => self.inner = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;

    use super::*;

    /// A body of what is sent to it.
    struct Told(mpsc::Receiver<Result<Bytes, &'static str>>);

    impl Body for Told {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            self.0.poll_recv(context).map(|it| it.map(|it| it.map(Frame::data)))
        }
    }

    fn stream() -> (mpsc::Sender<Result<Bytes, &'static str>>, EventStream<Told>) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, EventStream::new(Told(receiver), |it| (Broken::Off, it.to_owned())))
    }

    fn parts(chunk: &'static [u8]) -> Vec<Bytes> {
        let mut out = Vec::new();
        eventstream::parts(Bytes::from_static(chunk), &mut out);
        out
    }

    #[tokio::test]
    async fn each_chunk_leaves_in_a_frame_before_the_next_one_has_come() {
        let (sender, mut stream) = stream();
        for chunk in [b"first", b"other"] {
            sender.send(Ok(Bytes::from_static(chunk))).await.unwrap();
            let piece = stream.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!([piece], *parts(chunk));
        }
        drop(sender);
        assert!(stream.frame().await.is_none());
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
