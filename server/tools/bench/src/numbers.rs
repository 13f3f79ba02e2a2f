//! Times as numbers of JSON, whose names carry the unit.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Seconds with a fraction.
pub(crate) fn seconds<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(value.as_secs_f64())
}

/// Microseconds with a fraction.
pub(crate) fn micros<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(value.as_nanos() as f64 / 1e3)
}

/// Microseconds, or null.
pub(crate) fn optional_micros<S: Serializer>(
    value: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => micros(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// Seconds with a fraction, read again.
pub(crate) fn of_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
}

/// Microseconds with a fraction, read again.
pub(crate) fn of_micros<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)? / 1e6).map_err(D::Error::custom)
}
