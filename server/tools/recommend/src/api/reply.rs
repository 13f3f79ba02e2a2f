//! What an operation answers.

pub use control_plane::Reply;
use serde_json::Value;

/// A success.
pub(super) fn success(value: &Value) -> Reply {
    let body = if value.is_null() { Vec::new() } else { value.to_string().into_bytes() };
    Reply { status: 200, body }
}
