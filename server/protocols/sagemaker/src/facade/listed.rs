//! Every address of an endpoint of the local runtime, as documents list them.

use hyper::StatusCode;

use super::exception::Exception;
use crate::listed::{ANY_JSON, BODIES, REPLIES};
use frontend::{
    exchange::rendering::Rendering,
    http::routes::{Content, Family, Route, Schema},
};
use inference::error::Kind;

/// Failures have a message under the platform's key.
const FAMILY: &Family = &Family {
    name: "SageMaker runtime",
    failure: Schema {
        name: "RuntimeFailure",
        json: r#"{"type":"object","required":["Message"],"properties":{"Message":{"type":"string"}}}"#,
    },
    status,
};

const EVENTS: &[Content] = &[Content::of("application/vnd.amazon.eventstream")];
const RESULT: &[Content] = &[ANY_JSON];

fn status(kind: Kind) -> StatusCode {
    Exception::of(kind).named(Rendering::status_of(kind)).1
}

/// All of them.
pub fn routes() -> [Route; 3] {
    let path = |operation: &str| format!("/endpoints/{{endpoint}}/{operation}");
    [
        FAMILY
            .post("invoke_endpoint", path("invocations"), "Inference, as clients of AWS ask for it")
            .takes(BODIES)
            .gives(REPLIES),
        FAMILY
            .post(
                "invoke_endpoint_with_response_stream",
                path("invocations-response-stream"),
                "The same, answered as an event stream",
            )
            .takes(BODIES)
            .gives(EVENTS),
        FAMILY
            .post(
                "invoke_endpoint_async",
                path("async-invocations"),
                "The same, answered into a file or an object",
            )
            .takes(BODIES)
            .gives(RESULT),
    ]
}

#[cfg(test)]
mod tests {
    use super::{
        super::address::{Operation, endpoint},
        *,
    };
    use frontend::http::listing::sample;

    #[test]
    fn every_listed_route_is_an_operation_of_an_endpoint() {
        let operations = routes().map(|it| endpoint(&it.method, &sample(&it)).unwrap().operation);
        let all = [Operation::Invoke, Operation::InvokeStream, Operation::InvokeAsync];
        assert_eq!(operations, all);
    }
}
