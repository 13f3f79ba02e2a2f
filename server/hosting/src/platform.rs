//! Which handler answers which address of a platform.

use hyper::{Request, Response, body::Incoming, http::request::Parts};

use crate::{
    bidirectional, facade::runtime, front::Hosting, invoke, message, multi_model, state, vertex,
};
use frontend::{
    exchange::intake::Received,
    http::{
        answer::Answer,
        body::Segments,
        dispatch,
        platform::Platform,
        router::{PlatformRoute, Route},
        service::Service,
    },
};
use inference::error::Error;

impl Platform for Hosting {
    fn service(&self) -> &Service {
        &self.http
    }

    fn route<'a>(&self, parts: &'a Parts) -> Result<Route<'a>, Error> {
        match &self.vertex_ai {
            None => dispatch::route(&self.http, parts),
            Some(routes) => vertex::route(routes, parts),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Segments> {
        let (parts, body) = request.into_parts();
        if let Some(facade) = runtime::facade_for(self, &parts) {
            // Boxed: the futures of other requests stay small.
            return Box::pin(runtime::answer(self, &facade, parts, body)).await;
        }
        dispatch::answer(self, self.route(&parts), &parts, body).await
    }

    async fn handle(&self, route: PlatformRoute<'_>, parts: &Parts, body: &mut Incoming) -> Answer {
        match route {
            PlatformRoute::Invocations => invoke::invocations(self, parts, body.into()).await,
            PlatformRoute::InvocationsStream => bidirectional::open(self, parts),
            PlatformRoute::Ping => Ok(state::ping(self)),
            PlatformRoute::MultiModel(path) => multi_model::answer(self, &path, parts, body).await,
            PlatformRoute::Version => Ok(state::version()),
            PlatformRoute::ExecutionParameters => Ok(state::execution_parameters(self).await),
            PlatformRoute::VertexHealth => Ok(vertex::health(self)),
            PlatformRoute::VertexInfer(path) => {
                vertex::infer(self, path.as_ref(), parts, body).await
            }
        }
    }

    async fn message(&self, parts: &Parts, body: Result<Received, Error>) -> Response<Segments> {
        message::answer(self, parts, body).await
    }
}
