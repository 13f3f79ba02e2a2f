//! A local SageMaker runtime: whether its addresses are served, and where asynchronous invocations read and write.

use std::{num::NonZeroUsize, path::PathBuf};

use configuration::{
    Environment, Flag, PathKind, Sources,
    value::{self, Parse},
};
use stores::{Provider, StoreUrl};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("aws-facade", "false", "Serve the addresses of SageMaker's runtime, /endpoints/<name>/.., as clients of AWS call them. Signatures are not checked"),
    Flag::value("async-spool", "", "Directory in which asynchronous invocations find s3://<bucket>/<key> as <bucket>/<key>, and leave results. Default: none, s3:// is S3").named("DIR"),
    Flag::value("async-output", "", "s3://bucket/prefix below which results of asynchronous invocations are written. Default: s3://muster/async with --async-spool; without that, there are no asynchronous invocations").named("URL"),
    Flag::many("async-input", "s3://bucket or s3://bucket/prefix: inputs of asynchronous invocations may come from there. Default: the bucket of --async-output; all of --async-spool").named("URL"),
    Flag::value("async-queue", "64", "Asynchronous invocations that may wait; further ones are answered with 503").named("COUNT"),
    Flag::value("async-concurrency", "4", "Asynchronous invocations that run at the same time").named("COUNT"),
];

/// The prefix of results in a spool, by default.
const SPOOL_OUTPUT: &str = "s3://muster/async";

/// Invocations that may wait, and that run at the same time, by default.
const QUEUE: usize = 64;
const CONCURRENCY: usize = 4;

/// The addresses below `/endpoints`.
#[derive(Debug, Clone, PartialEq)]
pub struct AwsFacade {
    /// The settings of asynchronous invocations; `None` where they are off.
    pub async_invocations: Option<AsyncInvocations>,
}

/// Settings of asynchronous invocations.
#[derive(Debug, Clone, PartialEq)]
pub struct AsyncInvocations {
    /// The store that addresses of S3 stand for.
    pub objects: ObjectsAt,
    /// `--async-output`: the bucket and the prefix below which results are written; the latter may be empty.
    pub output: (String, String),
    /// `--async-input`: buckets and prefixes below which inputs lie; empty where they may lie anywhere.
    pub inputs: Vec<(String, String)>,
    /// `--async-queue`: invocations that may wait.
    pub queue: NonZeroUsize,
    /// `--async-concurrency`: invocations that run at the same time.
    pub concurrency: NonZeroUsize,
}

/// The store that addresses of S3 stand for.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectsAt {
    /// `--async-spool`: files below this directory, `<bucket>/<key>`.
    Folder(PathBuf),
    /// Objects of S3; behind this endpoint, where one is given.
    S3(Option<String>),
}

impl AwsFacade {
    /// Does it read and write objects of S3?
    pub fn needs_store(&self) -> bool {
        matches!(&self.async_invocations, Some(AsyncInvocations { objects: ObjectsAt::S3(_), .. }))
    }
}

/// Reads the settings; `None` where the addresses are off.
pub fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<AwsFacade> {
    let on = sources.read("aws-facade", value::boolean, problems).unwrap_or(false);
    let spool = sources.read("async-spool", value::path, problems);
    let output = sources.read("async-output", output, problems);
    let inputs = sources.read_all("async-input", input, problems);
    let queue = sources.read("async-queue", value::places, problems);
    let concurrency = sources.read("async-concurrency", value::threads, problems);
    if !on {
        // An operator who says where results go expects results.
        for (name, is_given) in [
            ("async-spool", spool.is_some()),
            ("async-output", output.is_some()),
            ("async-input", !inputs.is_empty()),
        ] {
            let given = sources.last(name).filter(|_| is_given);
            problems.extend(given.map(|it| format!("{it}: expected --aws-facade beside it")));
        }
        return None;
    }
    if let (Some(given), Some(path)) = (sources.last("async-spool"), &spool)
        && environment.kind_of(path) != Some(PathKind::Directory)
    {
        problems.push(format!("{given}: expected a directory, there is none"));
    }
    let objects = match (spool, &output) {
        (Some(path), _) => ObjectsAt::Folder(path),
        (None, Some(output)) => ObjectsAt::S3(output.endpoint.clone()),
        (None, None) => return Some(AwsFacade { async_invocations: None }),
    };
    let output = output.or_else(|| StoreUrl::parse(SPOOL_OUTPUT).ok());
    let output = output.map(|it| (it.bucket, it.prefix)).unwrap_or_default();
    // A spool holds only files for this purpose; the credentials of a store may open much more.
    let inputs = match &objects {
        ObjectsAt::S3(_) if inputs.is_empty() => vec![(output.0.clone(), String::new())],
        _ => inputs,
    };
    let count = |given: Option<NonZeroUsize>, usual| {
        given.or(NonZeroUsize::new(usual)).unwrap_or(NonZeroUsize::MIN)
    };
    let (queue, concurrency) = (count(queue, QUEUE), count(concurrency, CONCURRENCY));
    Some(AwsFacade {
        async_invocations: Some(AsyncInvocations { objects, output, inputs, queue, concurrency }),
    })
}

/// Parses an address of S3.
fn output(text: &str) -> Parse<StoreUrl> {
    let url = StoreUrl::parse(text).ok().filter(|it| it.provider == Provider::S3);
    url.ok_or_else(|| "s3://bucket/prefix or s3://[https://]host:port/bucket/prefix".to_owned())
}

/// Parses an address in the store of the results.
fn input(text: &str) -> Parse<(String, String)> {
    let url = StoreUrl::parse(text).ok();
    let url = url.filter(|it| it.provider == Provider::S3 && it.endpoint.is_none());
    let place = url.map(|it| (it.bucket, it.prefix));
    place.ok_or_else(|| {
        "s3://bucket or s3://bucket/prefix, without a host: that of --async-output holds".to_owned()
    })
}
