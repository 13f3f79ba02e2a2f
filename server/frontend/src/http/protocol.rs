//! A family of clients over HTTP, and lists of such families.

use hyper::{Method, Response, StatusCode, body::Incoming};

use super::{
    address::RequestHead, answer::Answer, body::Segments, failed::Failed, parts::Parts, respond,
    routes::Route, service::Service,
};
use crate::{either::Either, exchange::intake::Received};
use formats::errors::ErrorForm;
use inference::{access::Need, error::Error};
use telemetry::metrics::Protocol as Label;

/// A family of clients over HTTP: its addresses, its answers, its errors. Knows no engine, and no other protocol. Its
/// methods are called statically. What answers requests is a [`inference::boxed::BoxFuture`] that the protocol's own
/// crate makes, so that the code of all protocols is not made once more for each port.
pub trait Protocol: Clone + Send + Sync + 'static {
    /// What a request asks for.
    type Operation<'a>: Send + Sync;

    /// What a request with this head asks for; `None` where its address is not of this protocol.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown address below one of its own, [`Error::MethodNotAllowed`] for a known one,
    /// [`Error::InvalidRequest`] where the address is malformed.
    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Self::Operation<'a>, Error>>;

    /// All that it takes, for documents that clients are made from. A test of each protocol asks [`Protocol::route`]
    /// for every one of them.
    fn routes(&self) -> Vec<Route>;

    /// The access that a client needs for it, on every port.
    fn need(&self, operation: &Self::Operation<'_>, method: &Method) -> Need;

    /// As metrics name those who ask for it. `None` is an address of this protocol that asks for nothing.
    fn label(&self, operation: Option<&Self::Operation<'_>>, head: &RequestHead<'_>) -> Label;

    /// Answers a request that its client may make.
    fn answer(
        &self,
        service: &Service,
        operation: &Self::Operation<'_>,
        parts: &Parts,
        body: &mut Incoming,
    ) -> impl Future<Output = Answer> + Send;

    /// The reply to a request that failed: the one place that says its status and its body. `None` is an address of
    /// this protocol that asks for nothing.
    fn failure(
        &self,
        service: &Service,
        operation: Option<&Self::Operation<'_>>,
        failed: &Failed<'_>,
    ) -> Response<Segments>;

    /// Answers a message of a WebSocket, or says why it is refused. `parts` is the head of the request that opened it.
    /// Not asked of a protocol that opens none.
    fn message(
        &self,
        service: &Service,
        parts: &Parts,
        body: Result<Received, Error>,
    ) -> impl Future<Output = Response<Segments>> + Send {
        let _ = (service, parts, body);
        async { respond::empty(StatusCode::NOT_FOUND) }
    }
}

/// A list of protocols is a pair of its first one and the list of the others. An address belongs to the first that
/// takes it.
impl<A: Protocol, B: Protocol> Protocol for (A, B) {
    type Operation<'a> = Either<A::Operation<'a>, B::Operation<'a>>;

    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Self::Operation<'a>, Error>> {
        match self.0.route(head) {
            Some(found) => Some(found.map(Either::First)),
            None => self.1.route(head).map(|it| it.map(Either::Other)),
        }
    }

    fn routes(&self) -> Vec<Route> {
        let mut routes = self.0.routes();
        routes.extend(self.1.routes());
        routes
    }

    fn need(&self, operation: &Self::Operation<'_>, method: &Method) -> Need {
        match operation {
            Either::First(operation) => self.0.need(operation, method),
            Either::Other(operation) => self.1.need(operation, method),
        }
    }

    fn label(&self, operation: Option<&Self::Operation<'_>>, head: &RequestHead<'_>) -> Label {
        match operation {
            Some(Either::First(operation)) => self.0.label(Some(operation), head),
            Some(Either::Other(operation)) => self.1.label(Some(operation), head),
            None if self.0.route(head).is_some() => self.0.label(None, head),
            None => self.1.label(None, head),
        }
    }

    async fn answer(
        &self,
        service: &Service,
        operation: &Self::Operation<'_>,
        parts: &Parts,
        body: &mut Incoming,
    ) -> Answer {
        match operation {
            Either::First(operation) => self.0.answer(service, operation, parts, body).await,
            Either::Other(operation) => self.1.answer(service, operation, parts, body).await,
        }
    }

    fn failure(
        &self,
        service: &Service,
        operation: Option<&Self::Operation<'_>>,
        failed: &Failed<'_>,
    ) -> Response<Segments> {
        let is_first = match operation {
            Some(operation) => matches!(operation, Either::First(_)),
            None => self.0.route(&RequestHead::of(failed.parts)).is_some(),
        };
        match is_first {
            true => self.0.failure(service, operation.and_then(Either::first), failed),
            false => self.1.failure(service, operation.and_then(Either::other), failed),
        }
    }

    async fn message(
        &self,
        service: &Service,
        parts: &Parts,
        body: Result<Received, Error>,
    ) -> Response<Segments> {
        match self.0.route(&RequestHead::of(parts)) {
            Some(_) => self.0.message(service, parts, body).await,
            None => self.1.message(service, parts, body).await,
        }
    }
}

/// The end of a list, and what stands for a protocol that was left out of the build: no address is its own.
impl Protocol for () {
    type Operation<'a> = std::convert::Infallible;

    fn route<'a>(&self, _: &RequestHead<'a>) -> Option<Result<Self::Operation<'a>, Error>> {
        None
    }

    fn routes(&self) -> Vec<Route> {
        Vec::new()
    }

    fn need(&self, operation: &Self::Operation<'_>, _: &Method) -> Need {
        match *operation {}
    }

    fn label(&self, _: Option<&Self::Operation<'_>>, _: &RequestHead<'_>) -> Label {
        Label::Other
    }

    async fn answer(
        &self,
        _: &Service,
        operation: &Self::Operation<'_>,
        _: &Parts,
        _: &mut Incoming,
    ) -> Answer {
        match *operation {}
    }

    fn failure(
        &self,
        _: &Service,
        _: Option<&Self::Operation<'_>>,
        failed: &Failed<'_>,
    ) -> Response<Segments> {
        respond::error(failed.error, failed.id, ErrorForm::Plain)
    }
}
