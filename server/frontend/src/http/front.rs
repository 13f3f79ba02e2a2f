//! The way of every HTTP request: its route, its permission, its handler, its answer, its count.

use hyper::{Method, Response, body::Incoming};

use super::{
    address::{RequestHead, unknown},
    answer,
    body::Segments,
    cors,
    failed::Failed,
    parts::Parts,
    protocol::Protocol,
    service::{Listener, Service},
};
use crate::exchange::{Failure, intake::Received};
use inference::{access::Need, error::Error};

/// The HTTP front of a port: the state that handlers share, and the protocols that are spoken. Each I/O thread has a
/// clone of its own.
#[derive(Clone)]
pub struct HttpFront<P> {
    /// What all handlers need.
    pub service: Service,
    /// Every family of clients.
    pub protocols: P,
}

impl<P: Protocol> HttpFront<P> {
    /// The same front on a port with another encryption.
    pub fn behind(&self, listener: Listener) -> HttpFront<P> {
        HttpFront { service: Service { listener, ..self.service.clone() }, ..self.clone() }
    }

    /// The same front for clients on other machines, which may not administrate without more ado.
    pub fn from_afar(&self) -> HttpFront<P> {
        let mut front = self.clone();
        front.service.settings.access = front.service.settings.access.from_afar();
        front
    }

    /// The access that a request with this head needs; `None` where its address asks for nothing.
    pub fn need(&self, parts: &Parts) -> Option<Need> {
        let operation = self.protocols.route(&RequestHead::of(parts))?.ok()?;
        Some(self.protocols.need(&operation, &parts.method))
    }

    /// Answers a request. Whatever is left of its body is for [`answer::forget`].
    pub async fn answer(&self, parts: &Parts, body: &mut Incoming) -> Response<Segments> {
        let HttpFront { service, protocols } = self;
        let head = RequestHead::of(parts);
        if *head.method == Method::OPTIONS
            && let Some(response) = self.options(&head)
        {
            let label = protocols.label(None, &head);
            service.serving.metrics.http(label, response.status().as_u16());
            return response;
        }
        let route = protocols.route(&head).unwrap_or_else(|| Err(unknown(head.path)));
        let (operation, outcome) = match route {
            // The permission is checked before anything else of the request is read.
            Ok(operation) => {
                let need = protocols.need(&operation, &parts.method);
                let outcome = match service.check(need, &parts.headers) {
                    Ok(()) => protocols.answer(service, &operation, parts, body).await,
                    Err(error) => Err(error.into()),
                };
                (Some(operation), outcome)
            }
            Err(error) => (None, Err(Failure::from(error))),
        };
        let operation = operation.as_ref();
        let label = protocols.label(operation, &head);
        let response = outcome.unwrap_or_else(|failure| {
            answer::failed(service, parts, &failure, |failed: &Failed<'_>| {
                protocols.failure(service, operation, failed)
            })
        });
        service.serving.metrics.http(label, response.status().as_u16());
        response
    }

    /// The reply to `OPTIONS`. Nobody's permission is asked for it: a browser that asks for a page sends no token, and
    /// learns no more than which methods there are.
    fn options(&self, head: &RequestHead<'_>) -> Option<Response<Segments>> {
        let is_taken = |it: &Method| {
            let head = RequestHead::new(it, head.path, head.headers);
            // `*` is the server as a whole.
            head.path == "*" || self.protocols.route(&head).is_some_and(|it| it.is_ok())
        };
        let methods: Vec<Method> = cors::METHODS.into_iter().filter(is_taken).collect();
        cors::options(&self.service.settings.origins, head.headers, &methods)
    }

    /// Answers a message of a WebSocket, or says why it is refused. `parts` is the head of the request that opened it.
    pub async fn message(
        &self,
        parts: &Parts,
        body: Result<Received, Error>,
    ) -> Response<Segments> {
        self.protocols.message(&self.service, parts, body).await
    }
}
