//! The way of a request whose model answers in parts, from where it can be run: each part is encoded like an answer.
//!
//! A part is taken from the model only when somebody asks for the next reply. So a client that does not read holds what
//! the model may send ahead, and no more.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use flate2::Compression;

use super::{
    Answer, Call, Codec, Failure, Prepared, Reply, Windows, compression, encode,
    offload::{LARGE, LARGE_COMPRESSED, offload},
};
use crate::serving::Serving;
use inference::{
    error::Error,
    limits::{Budget, Permit},
    request::InferenceResponse,
    trace::Trace,
};
use serving::{Responses, ServedModel};

/// A part that was encoded, and what encodes it.
type Encoded<C> = (Encoder<C>, Result<Answer<<C as Codec>::Reply>, Error>);

/// A part that is being encoded elsewhere.
type Encoding<C> = Pin<Box<dyn Future<Output = Result<Encoded<C>, Error>> + Send>>;

/// The replies to one request, one for each part. Dropped before the last of them, it withdraws the request.
pub struct Replies<C: Codec> {
    responses: Responses,
    /// `None` while it encodes, and once it was lost.
    encoder: Option<Encoder<C>>,
    /// A long part.
    encoding: Option<Encoding<C>>,
    model: Arc<ServedModel>,
    /// The client's name for the request.
    id: Option<Arc<str>>,
    trace: Option<Arc<Trace>>,
    /// The status of an answer.
    ok: u16,
    is_over: bool,
    /// Covers the request.
    _permit: Permit,
}

/// What turns the parts of an answer into replies.
struct Encoder<C: Codec> {
    model: Arc<ServedModel>,
    /// The number of the signature.
    named: usize,
    format: C::Format,
    windows: Option<Windows>,
    budget: Arc<Budget>,
    compression: Option<(compression::Encoding, Compression, usize)>,
}

impl<C: Codec> Encoder<C> {
    /// Bytes that are looked at one by one for that part.
    fn work(&self, response: &InferenceResponse) -> usize {
        let work = C::encode_work(&self.format, response);
        match &self.windows {
            Some(windows) => work.max(windows.byte_len(response)),
            None => work,
        }
    }

    fn encode(&self, response: &InferenceResponse) -> Result<Answer<C::Reply>, Error> {
        let mut permit = Permit::nothing(&self.budget);
        permit.cover(response.outputs.iter().map(|it| it.tensor.byte_len()).sum());
        self.windows.as_ref().map_or(Ok(()), |it| it.store(response))?;
        let signature = self.model.signature.at(self.named);
        let reply = encode::<C>(&self.format, signature, response, &mut permit)?;
        let length = reply.byte_len();
        let reply = match self.compression {
            // A part is sent as it is where there is no room for both forms, or it would hold others up.
            Some((encoding, level, least))
                if least <= length && length <= LARGE_COMPRESSED && permit.grow_by(length) =>
            {
                reply.compress(encoding, level)
            }
            Some(_) | None => reply,
        };
        Ok(Answer { reply, permit, trace: None, spent: None })
    }
}

impl<C: Codec> Prepared<C> {
    /// The model that it is for.
    pub fn model(&self) -> &Arc<ServedModel> {
        &self.model
    }

    /// Runs it on its model, which answers in parts. Nothing is done before the first reply is asked for.
    ///
    /// # Errors
    /// Where there is no room for parts that wait.
    pub fn stream(self, serving: &Serving, call: &Call<'_>) -> Result<Replies<C>, Failure> {
        let Prepared { model, request, format, windows, permit, trace } = self;
        let id = request.id.clone().or_else(|| call.id.map(Arc::from));
        let named = request.signature;
        let responses = serving
            .inference
            .stream(&model, request)
            .map_err(|error| call.failed(trace.as_ref(), Failure::of(id.clone(), error), &model))?;
        let compression = call.reply_compression(usize::MAX);
        let least = call.wire.smallest_compressed;
        let encoder = Encoder {
            model: model.clone(),
            named,
            format,
            windows,
            budget: permit.budget().clone(),
            compression: compression.map(|(encoding, level)| (encoding, level, least)),
        };
        Ok(Replies {
            responses,
            encoder: Some(encoder),
            encoding: None,
            model,
            id,
            trace,
            ok: call.wire.ok,
            is_over: false,
            _permit: permit,
        })
    }
}

impl<C: Codec> Replies<C> {
    /// The model that answers.
    pub fn model(&self) -> &Arc<ServedModel> {
        &self.model
    }

    /// The client's name for the request.
    pub fn id(&self) -> Option<&Arc<str>> {
        self.id.as_ref()
    }

    /// The form of the replies; `None` while one of them is encoded.
    pub fn format(&self) -> Option<&C::Format> {
        self.encoder.as_ref().map(|it| &it.format)
    }

    /// Did the model send the part that was taken last as its last?
    pub fn has_taken_last(&self) -> bool {
        self.responses.has_taken_last()
    }

    /// Has the answer ended with the reply that was taken last?
    pub fn is_at_end(&self) -> bool {
        self.is_over || (self.encoding.is_none() && self.responses.is_at_end())
    }

    /// The next reply; `None` behind the last.
    ///
    /// # Errors
    /// Why there is no further one, once.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Answer<C::Reply>, Failure>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Answer<C::Reply>, Failure>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let reply = match ready!(self.poll_reply(context)) {
            Some(Ok(reply)) => return Poll::Ready(Some(Ok(reply))),
            Some(Err(error)) => {
                let failure = Failure::of(self.id.clone(), error);
                Some(Err(failure.traced(&self.model.signature.model, self.trace.as_ref())))
            }
            None => {
                if let Some(trace) = &self.trace {
                    trace.answered(self.ok);
                }
                None
            }
        };
        self.is_over = true;
        Poll::Ready(reply)
    }

    fn poll_reply(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Answer<C::Reply>, Error>>> {
        loop {
            if let Some(encoding) = &mut self.encoding {
                let encoded = ready!(encoding.as_mut().poll(context));
                self.encoding = None;
                return Poll::Ready(Some(encoded.and_then(|(encoder, reply)| {
                    self.encoder = Some(encoder);
                    reply
                })));
            }
            let response = match ready!(self.responses.poll_next(context)) {
                Some(Ok(response)) => response,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            let Some(mut encoder) = self.encoder.take() else {
                let lost = "what encodes the answer was lost".to_owned();
                return Poll::Ready(Some(Err(Error::Internal(lost))));
            };
            C::mark_part(&mut encoder.format, self.responses.has_taken_last());
            if encoder.work(&response) <= LARGE {
                let reply = encoder.encode(&response);
                self.encoder = Some(encoder);
                return Poll::Ready(Some(reply));
            }
            let encode = move || {
                let reply = encoder.encode(&response);
                (encoder, reply)
            };
            self.encoding = Some(Box::pin(offload(encode)));
        }
    }
}
