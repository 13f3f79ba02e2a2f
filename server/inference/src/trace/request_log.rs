//! The line that the log has for each request, where that was asked for.

use std::time::Duration;

use super::record::{Moment, Record, Transport};

/// Writes the line of a request that is over.
pub(super) fn write(record: &Record) {
    let micros = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(u64::MAX);
    let between = |from, to| record.between(from, to).map(micros);
    let first = record.stamps.first().map(|it| it.1);
    let total = first.zip(record.stamps.last()).map(|(first, last)| micros(last.1 - first));
    let protocol = match record.transport {
        Transport::Http => "http",
        Transport::Grpc => "grpc",
        Transport::Inside => "inside",
    };
    let rows = |it: Option<usize>| it.map(|it| it as u64);
    // Without a status, the client left before it was answered.
    tracing::info!(
        protocol,
        request_id = record.name().map(|it| &**it),
        x_request_id =
            record.x_request_id.as_deref().filter(|it| record.name().map(|it| &**it) != Some(*it)),
        model = &*record.model,
        version = record.version,
        signature = record.signature.as_deref(),
        status = record.status.map(u64::from),
        rows = rows(record.rows),
        batch_rows = rows(record.batch_rows),
        receive_us = between(Moment::ReceiveStart, Moment::ReceiveEnd),
        queue_us = between(Moment::QueueStart, Moment::ComputeStart),
        input_us = between(Moment::ComputeStart, Moment::ComputeInputEnd),
        infer_us = between(Moment::ComputeInputEnd, Moment::ComputeOutputStart),
        output_us = between(Moment::ComputeOutputStart, Moment::ComputeEnd),
        total_us = total,
        error = record.error.as_deref(),
        "request"
    );
}
