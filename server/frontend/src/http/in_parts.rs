//! Answers in parts over HTTP. The first part decides the status; the others leave as they come, in chunks, or each as
//! a message of a WebSocket.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::{
    StatusCode,
    body::{Body, Frame, Incoming},
};

use crate::{
    exchange::{
        self, Call, Failure, failure, failure_lines::FailureLines, in_parts::Replies,
        payload::Payload,
    },
    http::{
        answer::Answer,
        body::{BrokenOff, Messages, Segments},
        encoding,
        inference::{HttpCodec, call},
        parts::Parts,
        respond,
        service::Service,
    },
};
use ::inference::{
    error::{Error, Kind},
    request::Sequence,
};
use ::serving::ServedModel;
use formats::errors::ErrorForm;

/// Marks the head of a request that came as a message of a WebSocket: each part of its answer is a message, too.
#[derive(Debug, Clone, Copy)]
pub struct InMessages {
    /// Does an empty message say that there is no further part?
    pub ends_empty: bool,
}

/// How the parts of an answer are sent.
#[derive(Clone, Copy)]
pub enum Form {
    /// One behind the other, as one body. It breaks off at an error behind the first part. A single part has a length.
    Body,
    /// Each by itself. An error behind the first part is written as this says, and ends the body.
    Events(fn(&Error) -> Bytes),
}

/// An error behind the first of several events.
pub fn error_event(error: &Error) -> Bytes {
    [&b"data: "[..], &respond::error_body(error), b"\n\n"].concat().into()
}

/// Runs a request on `model`, which answers in parts, and sends them as they come. An answer without parts has no body.
/// `form` is heeded over HTTP; a WebSocket has a message for each part.
pub async fn inference_in_parts<C: HttpCodec>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: impl Into<Payload<'_, Incoming>>,
    codec: C,
    sequence: Option<&Sequence>,
    form: impl FnOnce(Option<&C::Format>) -> Form,
) -> Answer {
    let mut replies = begin(service, model, parts, body.into(), codec, sequence).await?;
    let Some(first) = replies.next().await else { return Ok(respond::empty(StatusCode::OK)) };
    let first = first?;
    let form = form(replies.format());
    let in_messages = parts.extensions.get::<InMessages>().copied();
    // It is asked for the end, too: the request is counted there.
    let is_only = matches!(form, Form::Body) && in_messages.is_none() && replies.is_at_end();
    let rest = if is_only { replies.next().await.transpose()? } else { None };
    let mut response = respond::ok(first.reply);
    response.body_mut().hold(first.permit);
    if is_only && rest.is_none() {
        return Ok(response);
    }
    let further = Further {
        replies: Some(replies),
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        id: service.request_id(parts, None),
        lines: service.serving.failure_lines.clone(),
    };
    let body = std::mem::take(response.body_mut());
    *response.body_mut() = match in_messages {
        Some(InMessages { ends_empty }) => body.with_messages(InTurn { further, ends_empty }),
        None => {
            let ready = VecDeque::new();
            body.followed_by(Rest { further, ready, breaks: None, form })
        }
    };
    Ok(response)
}

/// Runs a request on `model`, which may answer in any number of parts, where one is taken.
///
/// # Errors
/// Those of the request; [`Error::Internal`] with that text where there is not exactly one part.
pub async fn inference_of_one_part<C: HttpCodec>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: impl Into<Payload<'_, Incoming>>,
    codec: C,
    otherwise: &str,
) -> Answer {
    let mut replies = begin(service, model, parts, body.into(), codec, None).await?;
    let not_one = || Failure::of(replies_id(parts, service), Error::Internal(otherwise.to_owned()));
    let Some(only) = replies.next().await.transpose()? else { return Err(not_one()) };
    if replies.next().await.transpose()?.is_some() {
        return Err(not_one());
    }
    let mut response = respond::ok(only.reply);
    response.body_mut().hold(only.permit);
    Ok(response)
}

fn replies_id(parts: &Parts, service: &Service) -> Option<Arc<str>> {
    Some(service.request_id(parts, None).into())
}

async fn begin<C: HttpCodec>(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
    codec: C,
    sequence: Option<&Sequence>,
) -> Result<Replies<C>, Failure> {
    let Service { serving, settings, .. } = service;
    let encoding = encoding::of_body(&parts.headers, settings.compression)?;
    // A compressed part would wait for the next one.
    let call =
        Call { sequence, takes_one: None, compression: None, ..call(service, parts, encoding)? };
    // Boxed: the futures of other requests stay small.
    let prepared =
        Box::pin(exchange::prepare(serving, &settings.body, model, &call, body, codec)).await?;
    prepared.stream(serving, &call)
}

/// The parts behind the first.
struct Further<C: HttpCodec> {
    /// `None` once there is no further one.
    replies: Option<Replies<C>>,
    method: String,
    path: String,
    /// The name of the request, for the log.
    id: String,
    lines: Arc<FailureLines>,
}

impl<C: HttpCodec> Further<C> {
    /// The next one; `None` behind the last.
    ///
    /// # Errors
    /// Why there is no further one, once. It has been logged.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Segments, Error>>> {
        let Some(replies) = &mut self.replies else { return Poll::Ready(None) };
        let next = ready!(replies.poll_next(context)).map(|it| match it {
            Ok(answer) => {
                let mut segments = Segments::from(answer.reply.body);
                segments.hold(answer.permit);
                Ok(segments)
            }
            Err(failure) => {
                self.log(&failure);
                Err(failure.error)
            }
        });
        if !matches!(next, Some(Ok(_))) {
            self.replies = None;
        }
        Poll::Ready(next)
    }

    fn log(&self, failure: &Failure) {
        let context = failure::Context {
            method: &self.method,
            path: Some(&self.path),
            ..failure::Context::default()
        };
        failure::log(
            &self.lines,
            context,
            &failure.error,
            failure.id.as_deref().unwrap_or(&self.id),
        );
    }
}

/// The parts behind the first, as one body.
struct Rest<C: HttpCodec> {
    further: Further<C>,
    /// Pieces of the part that is sent at present.
    ready: VecDeque<Bytes>,
    /// Why the body breaks off behind them.
    breaks: Option<BrokenOff>,
    form: Form,
}

impl<C: HttpCodec> Body for Rest<C> {
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
            if let Some(breaks) = self.breaks.take() {
                return Poll::Ready(Some(Err(breaks)));
            }
            match ready!(self.further.poll_next(context)) {
                Some(Ok(mut segments)) => self.ready = segments.take_pieces(),
                Some(Err(error)) => match self.form {
                    Form::Events(say) => self.ready.push_back(say(&error)),
                    Form::Body => {
                        let is_late = error.kind() == Kind::DeadlineExceeded;
                        self.breaks = Some(BrokenOff { text: respond::excerpt(&error), is_late });
                        // hyper writes out what it has when nothing is ready, and drops it at an error.
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                },
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The parts behind the first, as messages.
struct InTurn<C: HttpCodec> {
    further: Further<C>,
    /// Is an empty message owed behind the last?
    ends_empty: bool,
}

impl<C: HttpCodec> Messages for InTurn<C> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Segments, Segments>>> {
        let next = ready!(self.further.poll_next(context));
        Poll::Ready(match next {
            Some(Ok(segments)) => Some(Ok(segments)),
            Some(Err(error)) => {
                // An error is the last message in any case.
                self.ends_empty = false;
                let response = respond::error(&error, &self.further.id, ErrorForm::Plain);
                Some(Err(response.into_body()))
            }
            None if std::mem::take(&mut self.ends_empty) => Some(Ok(Segments::default())),
            None => None,
        })
    }
}

// Nothing in it is pinned.
impl<C: HttpCodec> Unpin for Rest<C> {}
