//! Who may do what, as the operator says it.

use std::path::PathBuf;

use super::{
    sources::Sources,
    value::{self, Parse},
};
use inference::access::{Categories, Category, Forwarding, Restriction, overlap};

/// Who may do what.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessConfig {
    /// `--auth-tokens-file`: who may ask; `None` for everybody.
    pub tokens_file: Option<PathBuf>,
    /// `--auth-open`: what needs no token.
    pub open: Categories,
    /// Over HTTP.
    pub http: WireAccess,
    /// Over gRPC.
    pub grpc: WireAccess,
}

/// What holds for one protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct WireAccess {
    /// `--http-restricted-api`, `--grpc-restricted-protocol`: no category is in two of them.
    pub restrictions: Vec<Restriction>,
    /// `--http-header-forward-pattern`, `--grpc-header-forward-pattern`.
    pub forwarding: Option<Forwarding>,
}

pub(super) fn resolve(sources: &Sources, problems: &mut Vec<String>) -> AccessConfig {
    let open = sources.read("auth-open", open, problems);
    AccessConfig {
        tokens_file: sources.read("auth-tokens-file", value::path, problems),
        open: open.unwrap_or(Categories::only(&[Category::Health])),
        http: wire(sources, "http-restricted-api", "http-header-forward-pattern", problems),
        grpc: wire(sources, "grpc-restricted-protocol", "grpc-header-forward-pattern", problems),
    }
}

fn wire(
    sources: &Sources,
    restricted: &'static str,
    forward: &'static str,
    problems: &mut Vec<String>,
) -> WireAccess {
    let restrictions = sources.read_all(restricted, Restriction::parse, problems);
    if let Some(category) = overlap(&restrictions) {
        problems.push(format!(
            "--{restricted}: the category '{}' is in two groups, expected in one at most",
            category.name()
        ));
    }
    let forwarding = sources.read(forward, Forwarding::new, problems);
    WireAccess { restrictions, forwarding }
}

fn open(text: &str) -> Parse<Categories> {
    match text {
        "none" => Ok(Categories::default()),
        text => Categories::parse(text).map_err(|it| format!("none, or {it}")),
    }
}
