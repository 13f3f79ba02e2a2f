//! Why an operation is refused, by the names that clients of AWS choose an error type by. This is the only such table.

use serde_json::json;

use super::reply::Reply;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    name: &'static str,
    message: String,
}

/// The longest text of a refusal, in characters, as in the service.
const LONGEST: usize = 1024;

impl Fault {
    fn new(name: &'static str, message: impl Into<String>) -> Fault {
        Fault { name, message: message.into() }
    }

    /// A field has a value that cannot be used.
    pub(super) fn invalid(message: impl Into<String>) -> Fault {
        Fault::new("ValidationException", message)
    }

    /// There is no such job or model.
    pub(super) fn not_found(message: impl Into<String>) -> Fault {
        Fault::new("ResourceNotFound", message)
    }

    /// There is no such stream of logs.
    pub(super) fn no_stream() -> Fault {
        Fault::new("ResourceNotFoundException", "The specified log stream does not exist.")
    }

    /// There is such a job already.
    pub(super) fn in_use(message: impl Into<String>) -> Fault {
        Fault::new("ResourceInUse", message)
    }

    /// There is no room for another one.
    pub(super) fn limit(message: impl Into<String>) -> Fault {
        Fault::new("ResourceLimitExceeded", message)
    }

    /// The body is not JSON, or a field is of another type.
    pub(super) fn unreadable(message: impl Into<String>) -> Fault {
        Fault::new("SerializationException", message)
    }

    /// There is no such operation.
    pub(super) fn unknown(target: &str) -> Fault {
        let shown: String = target.chars().take(100).collect();
        Fault::new("UnknownOperationException", format!("there is no operation '{shown}'"))
    }

    /// A disk fails.
    pub(super) fn internal(message: impl Into<String>) -> Fault {
        Fault::new("InternalFailure", message)
    }

    /// The reply. Both spellings of the text are there, for both services have their own.
    pub(super) fn reply(&self) -> Reply {
        let message: String = self.message.chars().take(LONGEST).collect();
        let body = json!({"__type": self.name, "Message": message, "message": message});
        let status = if self.name == "InternalFailure" { 500 } else { 400 };
        Reply { status, body: body.to_string().into_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_type_and_is_not_longer_than_the_services() {
        let reply = Fault::in_use("x".repeat(2000)).reply();
        let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((reply.status, body["__type"].as_str()), (400, Some("ResourceInUse")));
        assert_eq!(body["Message"].as_str().map(str::len), Some(1024));
        assert_eq!(Fault::internal("disk").reply().status, 500);
    }
}
