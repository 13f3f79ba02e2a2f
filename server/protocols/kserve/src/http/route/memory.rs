//! Addresses of the shared memory extension.

use hyper::Method;

use super::super::operation::{MemoryAction, MemoryKind, MemoryPath, Operation};
use frontend::http::address::{GET, POST, percent_decode};
use inference::error::Error;

/// `[/region/<name>]/status`, `/region/<name>/register`, `[/region/<name>]/unregister` below the address of a kind of
/// memory; `None` for anything else there.
pub(super) fn memory<'a>(
    kind: &str,
    rest: &[&'a str],
) -> Result<Option<(&'static [Method], Operation<'a>)>, Error> {
    let kind = match kind {
        "cudasharedmemory" => MemoryKind::Cuda,
        _ => MemoryKind::System,
    };
    let (region, action) = match rest {
        [action] => (None, *action),
        ["region", "", _] => return Ok(None),
        ["region", name, action] => (Some(percent_decode(name)?), *action),
        _ => return Ok(None),
    };
    let (allowed, action) = match (action, &region) {
        ("status", _) => (GET, MemoryAction::Status),
        ("unregister", _) => (POST, MemoryAction::Unregister),
        ("register", Some(_)) => (POST, MemoryAction::Register),
        _ => return Ok(None),
    };
    Ok(Some((allowed, Operation::SharedMemory(MemoryPath { kind, region, action }))))
}

#[cfg(test)]
mod tests {
    use super::{super::tests::routed, *};

    #[track_caller]
    fn check(method: Method, path: &str, kind: MemoryKind, region: &str, action: MemoryAction) {
        let region = (!region.is_empty()).then(|| region.into());
        let expected = Operation::SharedMemory(MemoryPath { kind, region, action });
        assert_eq!(routed(method, path), Ok(Some(expected)), "{path}");
    }

    #[test]
    fn regions_are_registered_shown_and_unregistered() {
        use MemoryAction::{Register, Status, Unregister};
        use MemoryKind::{Cuda, System};
        check(Method::GET, "/v2/systemsharedmemory/status", System, "", Status);
        check(Method::GET, "/v2/systemsharedmemory/region/a%20b/status", System, "a b", Status);
        check(Method::POST, "/v2/systemsharedmemory/region/r/register", System, "r", Register);
        check(Method::POST, "/v2/systemsharedmemory/region/r/unregister", System, "r", Unregister);
        check(Method::POST, "/v2/systemsharedmemory/unregister", System, "", Unregister);
        check(Method::GET, "/v2/cudasharedmemory/status", Cuda, "", Status);
        check(Method::POST, "/v2/cudasharedmemory/region/r/register", Cuda, "r", Register);
    }

    #[test]
    fn other_addresses_are_unknown_and_wrong_methods_are_refused() {
        for path in [
            "",
            "/register",
            "/region//register",
            "/region/r",
            "/region/r/x",
            "/region/r/register/x",
            "/x",
        ] {
            let path = format!("/v2/systemsharedmemory{path}");
            assert_eq!(routed(Method::POST, &path), Ok(None), "{path}");
        }
        let wrong = [
            (Method::POST, "/v2/systemsharedmemory/status"),
            (Method::GET, "/v2/cudasharedmemory/unregister"),
        ];
        for (method, path) in wrong {
            let error = routed(method, path);
            assert!(matches!(error, Err(Error::MethodNotAllowed { .. })), "{path}");
        }
    }
}
