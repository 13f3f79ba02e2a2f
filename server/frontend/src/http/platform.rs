//! What the crate above this one adds to the addresses of the server: those of hosting platforms.

use hyper::{Request, Response, body::Incoming, http::request::Parts};

use super::{
    answer::Answer,
    body::Segments,
    router::{PlatformRoute, Route},
    service::Service,
};
use crate::exchange::intake::Received;
use inference::error::Error;

/// An HTTP front with the addresses of hosting platforms. Its methods are called statically, and their futures are
/// part of those of the connection.
pub trait Platform: Clone + Send + Sync + 'static {
    /// What all handlers need.
    fn service(&self) -> &Service;

    /// The route of a request.
    ///
    /// # Errors
    /// Those of [`router::route`](super::router::route).
    fn route<'a>(&self, parts: &'a Parts) -> Result<Route<'a>, Error>;

    /// Answers a request: chooses its route, and has [`dispatch::answer`](super::dispatch::answer) do the rest.
    fn answer(&self, request: Request<Incoming>)
    -> impl Future<Output = Response<Segments>> + Send;

    /// Answers a request on a route of the platform that the client may use.
    fn handle(
        &self,
        route: PlatformRoute<'_>,
        parts: &Parts,
        body: &mut Incoming,
    ) -> impl Future<Output = Answer> + Send;

    /// Answers a message of a WebSocket, or says why it is refused. `parts` is the head of the request that opened it.
    fn message(
        &self,
        parts: &Parts,
        body: Result<Received, Error>,
    ) -> impl Future<Output = Response<Segments>> + Send;
}
