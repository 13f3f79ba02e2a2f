//! The jobs of the Inference Recommender that clients of AWS ask this server for.

use std::path::PathBuf;

use super::{engines, isolation};
use configuration::{Environment, Flag, PathKind, Sources, value, variable_of};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value(JOBS, "", "Directory of jobs of SageMaker's Inference Recommender. With it, and with --aws-facade, clients of AWS have other settings of models tried on this machine, by load tests that disturb this server. Default: none, jobs are refused").named("DIR"),
    Flag::value(PRICES, "", "Machines with their processors and prices for those jobs, as TOML").named("FILE"),
];

const JOBS: &str = "recommendation-jobs";
const PRICES: &str = "recommendation-prices";

/// Flags of engines that are this server's alone.
const OWN: &[&str] = &["model-cache-dir"];

/// Where jobs are kept, and what their servers are told.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommending {
    /// `--recommendation-jobs`: their directory.
    pub jobs: PathBuf,
    /// `--recommendation-prices`: machines and prices.
    pub prices: Option<PathBuf>,
    /// Variables by which engines find the libraries of this server's, and models are kept apart as here.
    pub environment: Vec<(String, String)>,
}

/// Reads the settings; `None` where jobs are off.
pub(super) fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    has_facade: bool,
    problems: &mut Vec<String>,
) -> Option<Recommending> {
    let jobs = sources.read(JOBS, value::path, problems);
    let prices = sources.read(PRICES, value::path, problems);
    let beside = [
        (JOBS, jobs.is_some(), has_facade, "--aws-facade"),
        (PRICES, prices.is_some(), jobs.is_some(), "--recommendation-jobs"),
    ];
    for (name, is_given, has_other, other) in beside {
        let given = sources.last(name).filter(|_| is_given && !has_other);
        problems.extend(given.map(|it| format!("{it}: expected {other} beside it")));
    }
    for (name, path, kind, expected) in [
        (JOBS, &jobs, PathKind::Directory, "a directory, or one that can be made"),
        (PRICES, &prices, PathKind::File, "a file"),
    ] {
        let Some((given, path)) = sources.last(name).zip(path.as_ref()) else { continue };
        let found = environment.kind_of(path);
        // The directory is made where it is not there.
        if found != Some(kind) && (found.is_some() || kind == PathKind::File) {
            problems.push(format!("{given}: expected {expected}"));
        }
    }
    let passed = engines::FLAGS.iter().chain(isolation::FLAGS).map(|it| it.name);
    let passed = passed.filter(|it| !OWN.contains(it));
    let passed = passed.filter_map(|it| Some((variable_of(it), sources.last(it)?.text.clone())));
    let mut passed: Vec<(String, String)> = passed.collect();
    if refuses_code(sources) {
        passed.push((variable_of("secure-mode"), "true".to_owned()));
    }
    Some(Recommending { jobs: jobs?, prices, environment: passed })
}

/// May models that clients name bring no code? Jobs may what requests to load a model may. What is wrong with these
/// flags is told where models are read.
fn refuses_code(sources: &Sources) -> bool {
    let is_on = |name| sources.read(name, value::boolean, &mut Vec::new()).unwrap_or(false);
    is_on("secure-mode") || !is_on("trust-load-requests")
}
