//! Variables of TorchServe and of the containers that start it.

use super::mapping::{
    Family,
    Means::{AboveOne, Milliseconds, Same, Seconds},
};

#[rustfmt::skip]
pub(super) const FAMILY: Family = Family {
    means: &[
        ("SAGEMAKER_TS_MAX_WORKERS", Same("default-instance-count")),
        ("TS_DEFAULT_WORKERS_PER_MODEL", Same("default-instance-count")),
        ("SAGEMAKER_TS_BATCH_SIZE", AboveOne("default-max-batch-size")),
        ("SAGEMAKER_TS_MAX_BATCH_DELAY", Milliseconds("default-queue-delay-us")),
        ("TS_JOB_QUEUE_SIZE", Same("default-max-queue-size")),
        ("SAGEMAKER_TS_RESPONSE_TIMEOUT", Seconds("request-timeout-ms")),
        ("TS_MAX_REQUEST_SIZE", Same("http-max-input-size")),
    ],
    without_effect: &["SAGEMAKER_TS_MIN_WORKERS", "TS_MAX_RESPONSE_SIZE"],
};
