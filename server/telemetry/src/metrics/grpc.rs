//! Answered gRPC calls by status.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::lanes::Lanes;

/// The names of gRPC's statuses, each at its number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// One counter for every status.
pub(super) struct GrpcRequests(Lanes<[AtomicU64; CODES.len()]>);

impl GrpcRequests {
    pub(super) fn new() -> GrpcRequests {
        GrpcRequests(Lanes::new())
    }

    /// Counts a call that ended with the status of that number.
    pub(super) fn count(&self, code: u8) {
        if let Some(count) = self.0.mine(Default::default).get(usize::from(code)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// What has been seen: status, count.
    pub(super) fn seen(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CODES.into_iter().enumerate().filter_map(|(at, name)| {
            let lanes = self.0.all().filter_map(|it| it.get(at));
            let count: u64 = lanes.map(|it| it.load(Relaxed)).sum();
            (count > 0).then_some((name, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_own_count_and_what_is_none_is_not_counted() {
        let requests = GrpcRequests::new();
        [0, 0, 14, 16, 17, u8::MAX].into_iter().for_each(|it| requests.count(it));
        let seen: Vec<_> = requests.seen().collect();
        assert_eq!(seen, [("OK", 2), ("UNAVAILABLE", 1), ("UNAUTHENTICATED", 1)]);
    }
}
