//! The addresses of SageMaker's runtime, below `/endpoints`. They exist only with `--aws-facade`.

use std::borrow::Cow;

use hyper::Method;

use frontend::http::address::{percent_decode, unknown};
use inference::{
    access::{Category, Need},
    error::Error,
};

/// The prefix of these addresses.
pub const PREFIX: &str = "/endpoints/";

/// The access that these addresses need.
pub const NEED: Need = Need::reading(Category::Inference);

/// The operations of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Invoke it, and answer with a reply.
    Invoke,
    /// Invoke it, and answer with an event stream.
    InvokeStream,
    /// Invoke it, and write the reply to a store.
    InvokeAsync,
}

/// An endpoint and an operation, from an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// Its name, percent-decoded; not empty.
    pub name: Cow<'a, str>,
    /// The operation.
    pub operation: Operation,
}

/// Parses the address of a request.
///
/// # Errors
/// [`Error::NotFound`] for an unknown address, [`Error::MethodNotAllowed`] for a known one,
/// [`Error::InvalidRequest`] where the name is not percent-encoded.
pub fn endpoint<'a>(method: &Method, path: &'a str) -> Result<Endpoint<'a>, Error> {
    let parts = path.strip_prefix(PREFIX).and_then(|it| it.split_once('/'));
    let (name, operation) = parts.filter(|it| !it.0.is_empty()).ok_or_else(|| unknown(path))?;
    let operation = match operation {
        "invocations" => Operation::Invoke,
        "invocations-response-stream" => Operation::InvokeStream,
        "async-invocations" => Operation::InvokeAsync,
        _ => return Err(unknown(path)),
    };
    if method != Method::POST {
        return Err(Error::MethodNotAllowed { method: method.to_string(), allowed: "POST" });
    }
    Ok(Endpoint { name: percent_decode(name)?, operation })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_an_endpoint_and_what_is_asked_of_it() {
        for (path, name, operation) in [
            ("/endpoints/my-ep/invocations", "my-ep", Operation::Invoke),
            ("/endpoints/a%20b/invocations-response-stream", "a b", Operation::InvokeStream),
            ("/endpoints/a%2Fb/async-invocations", "a/b", Operation::InvokeAsync),
        ] {
            let name = name.into();
            assert_eq!(endpoint(&Method::POST, path), Ok(Endpoint { name, operation }));
            let other = endpoint(&Method::GET, path);
            assert!(matches!(other, Err(Error::MethodNotAllowed { .. })), "{path}");
        }
    }

    #[test]
    fn nothing_else_is_there() {
        for path in [
            "/endpoints/",
            "/endpoints/e",
            "/endpoints/e/",
            "/endpoints//invocations",
            "/endpoints/e/invocations/more",
            "/endpoints/e/x",
        ] {
            assert!(matches!(endpoint(&Method::POST, path), Err(Error::NotFound(_))), "{path}");
        }
        let undecodable = endpoint(&Method::POST, "/endpoints/%zz/invocations");
        assert!(matches!(undecodable, Err(Error::InvalidRequest(_))));
    }
}
