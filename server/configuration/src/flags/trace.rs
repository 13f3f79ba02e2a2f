//! Traces of requests: settings.

use super::{Setting, many, value};

const SECTION: &str = "Traces";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    many(SECTION, "trace-config", "level=OFF|TIMESTAMPS|TENSORS, rate=<one in so many> (1000), count=<so many, -1 for all> (-1), mode=triton|opentelemetry; triton,file=<path>, triton,log-frequency=<traces in one file, 0 for all>; opentelemetry,url=<http://host:port/path> (http://localhost:4318/v1/traces), opentelemetry,resource=<key>=<value>, opentelemetry,bsp_max_queue_size=<spans>, opentelemetry,bsp_schedule_delay=<milliseconds>, opentelemetry,bsp_max_export_batch_size=<spans>"),
    value(SECTION, "trace-file", "", "Older name of --trace-config triton,file=<path>"),
    many(SECTION, "trace-level", "Older name of --trace-config level=<level>"),
    value(SECTION, "trace-rate", "", "Older name of --trace-config rate=<number>"),
    value(SECTION, "trace-count", "", "Older name of --trace-config count=<number>"),
    value(SECTION, "trace-log-frequency", "", "Older name of --trace-config triton,log-frequency=<number>"),
];
