//! Which handler answers which address, and how its failures look.

use hyper::{Method, Response, body::Incoming, header::CONTENT_TYPE};

use crate::{
    bidirectional,
    facade::{self, runtime},
    front::{Hosting, SageMaker},
    invoke, listed, message, multi_model,
    operation::Operation,
    route, state,
};
use formats::errors::ErrorForm;
use frontend::{
    exchange::intake::Received,
    http::{
        Service, address::RequestHead, answer::Answer, body::Segments, failed::Failed,
        parts::Parts, protocol::Protocol, respond, routes::Route,
    },
};
use inference::{access::Need, boxed::BoxFuture, error::Error};
use telemetry::metrics::Protocol as Label;

impl Protocol for SageMaker {
    type Operation<'a> = Operation<'a>;

    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Operation<'a>, Error>> {
        match runtime::asked(self, head) {
            Some(operation) => Some(Ok(operation)),
            None => route::route(head).transpose(),
        }
    }

    fn routes(&self) -> Vec<Route> {
        let mut routes = listed::routes();
        if self.facade.is_some() {
            // Operations on jobs are not among them: they are posted to `/`, where a header tells them from a pipeline.
            routes.extend(facade::runtime_routes());
        }
        routes
    }

    fn need(&self, operation: &Operation<'_>, _: &Method) -> Need {
        operation.need()
    }

    fn label(&self, operation: Option<&Operation<'_>>, _: &RequestHead<'_>) -> Label {
        operation.map_or(Label::Other, |_| Label::Sagemaker)
    }

    async fn answer(
        &self,
        service: &Service,
        operation: &Self::Operation<'_>,
        parts: &Parts,
        body: &mut Incoming,
    ) -> Answer {
        answer(Hosting { http: service, sagemaker: self }, operation, parts, body).await
    }

    fn failure(
        &self,
        _: &Service,
        operation: Option<&Operation<'_>>,
        failed: &Failed<'_>,
    ) -> Response<Segments> {
        match operation {
            // Most of AWS's containers have the Multi Model Server on these addresses; others read `error`.
            Some(Operation::MultiModel(_) | Operation::Predictions(..)) => {
                respond::error(failed.error, failed.id, ErrorForm::Mms)
            }
            Some(Operation::Runtime(_, call)) => runtime::refused(self, *call, failed),
            Some(_) => self.invocation_failure(failed),
            None => respond::error(failed.error, failed.id, ErrorForm::Plain),
        }
    }

    async fn message(
        &self,
        service: &Service,
        parts: &Parts,
        body: Result<Received, Error>,
    ) -> Response<Segments> {
        message::answer(Hosting { http: service, sagemaker: self }, parts, body).await
    }
}

fn answer<'a>(
    hosting: Hosting<'a>,
    operation: &'a Operation<'_>,
    parts: &'a Parts,
    body: &'a mut Incoming,
) -> BoxFuture<'a, Answer> {
    Box::pin(async move {
        let hosting = &hosting;
        match operation {
            Operation::Invocations => invoke::invocations(hosting, parts, body.into()).await,
            Operation::InvocationsStream => bidirectional::open(hosting, parts),
            Operation::Ping => Ok(state::ping(hosting)),
            Operation::MultiModel(path) => multi_model::answer(hosting, path, parts, body).await,
            Operation::Predictions(name, version) => {
                let version = version.as_deref();
                invoke::predictions(hosting, name, version, parts, body.into()).await
            }
            Operation::Version => Ok(state::version()),
            Operation::ExecutionParameters => Ok(state::execution_parameters(hosting).await),
            Operation::Runtime(facade, call) => {
                Ok(runtime::answer(hosting, facade, *call, parts, body).await)
            }
        }
    })
}

impl SageMaker {
    /// The reply of `/invocations` to a request that failed: in the form of the container whose place this one takes.
    pub fn invocation_failure(&self, failed: &Failed<'_>) -> Response<Segments> {
        let form = self.options.error_form(failed.header(&CONTENT_TYPE));
        respond::error(failed.error, failed.id, form)
    }
}
