//! A local SageMaker runtime: settings.

use super::{Setting, Takes, many, value};

const SECTION: &str = "A local SageMaker runtime";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    Setting { name: "aws-facade", takes: Takes::Switch, default: "false", help: "Serve the addresses of SageMaker's runtime, /endpoints/<name>/.., as clients of AWS call them. Signatures are not checked", section: SECTION },
    value(SECTION, "async-spool", "", "Directory in which asynchronous invocations find s3://<bucket>/<key> as <bucket>/<key>, and leave results. Default: none, s3:// is S3"),
    value(SECTION, "async-output", "", "s3://bucket/prefix below which results of asynchronous invocations are written. Default: s3://muster/async with --async-spool; without that, there are no asynchronous invocations"),
    many(SECTION, "async-input", "s3://bucket or s3://bucket/prefix: inputs of asynchronous invocations may come from there. Default: the bucket of --async-output; all of --async-spool"),
    value(SECTION, "async-queue", "64", "Asynchronous invocations that may wait; further ones are answered with 503"),
    value(SECTION, "async-concurrency", "4", "Asynchronous invocations that run at the same time"),
];
