//! Settings of access: the tokens of clients, and what they may do.

use std::path::PathBuf;

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};
use inference::access::{
    Categories, Category, Forwarding, HostNames, Restriction, Scope, Tokens, overlap,
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("auth-tokens-file", "", "File of lines '<scope> <token>', the scope one of metrics, inference, admin: every request needs a token. Read again when it changes").named("FILE"),
    Flag::value("api-key", "", "One token of scope inference, in place of a file of them: every request needs it, as 'Authorization: Bearer <token>'").secret().named("TOKEN"),
    Flag::boolean("allow-remote-administration", "", "Answer requests that load or unload models, share memory, or concern trace and log settings to clients on other machines, too, without tokens. Default: in containers, where an address such as --http-address is given, on hosting platforms, and called as another server"),
    Flag::value("allowed-hosts", "", "Names of this server, with commas between them: pages of a browser that reach it by another name than these, localhost or an address change nothing in it without a token").named("NAMES"),
    Flag::value("auth-open", "health", "Categories of requests, as --http-restricted-api has them, that need no token, with commas between them; none for no category").named("CATEGORIES"),
    Flag::many("http-restricted-api", "<category>[,<category>..]:<header>=<value>: requests of these categories need this header. Categories: health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging, metrics").with_secret().named("CATEGORY:HEADER=VALUE"),
    Flag::many("grpc-restricted-protocol", "The same over gRPC, where the metadata key is triton-grpc-protocol-<header>").with_secret().named("CATEGORY:HEADER=VALUE"),
    Flag::value("http-header-forward-pattern", "", "Regular expression: headers of inference requests in whose name it is found, in any case, become string parameters of the request").named("PATTERN"),
    Flag::value("grpc-header-forward-pattern", "", "The same for the metadata of gRPC").named("PATTERN"),
];

/// The access of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessSettings {
    /// `--auth-tokens-file`: the tokens of clients; `None` where every client may ask.
    pub tokens_file: Option<PathBuf>,
    /// `--api-key`: the only token; `None` where there is a file, or every client may ask.
    pub api_key: Option<Tokens>,
    /// `--auth-open`: the requests that need no token.
    pub open: Categories,
    /// `--allow-remote-administration`.
    pub remote_administration: RemoteAdministration,
    /// `--allowed-hosts`: the names by which pages know the server.
    pub hosts: HostNames,
    /// Over HTTP.
    pub http: WireAccess,
    /// Over gRPC.
    pub grpc: WireAccess,
}

/// The access over one protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct WireAccess {
    /// `--http-restricted-api`, `--grpc-restricted-protocol`: no category is in two of them.
    pub restrictions: Vec<Restriction>,
    /// `--http-header-forward-pattern`, `--grpc-header-forward-pattern`.
    pub forwarding: Option<Forwarding>,
}

impl AccessSettings {
    /// Does a request need a token?
    pub fn has_tokens(&self) -> bool {
        self.tokens_file.is_some() || self.api_key.is_some()
    }
}

/// May clients on other machines administrate without a token?
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteAdministration {
    /// They may.
    pub is_allowed: bool,
    /// Why, or why not; the end of a sentence.
    pub reason: String,
}

/// Settings of addresses: who gives one has thought of who can reach it.
const ADDRESSES: [&str; 5] =
    ["http-address", "grpc-address", "sagemaker-address", "vertex-ai-address", "tfs-grpc-address"];

/// `place` is a reason to allow it that lies in where the server runs.
fn remote_administration(
    sources: &Sources,
    place: Option<&'static str>,
    problems: &mut Vec<String>,
) -> RemoteAdministration {
    let setting = "allow-remote-administration";
    if let Some(is_allowed) = sources.read(setting, value::boolean, problems) {
        let reason = sources.last(setting).map_or_else(String::new, |it| format!("by {it}"));
        return RemoteAdministration { is_allowed, reason };
    }
    let address = ADDRESSES.iter().find(|it| sources.last(it).is_some());
    match (place, address) {
        (Some(place), _) => RemoteAdministration { is_allowed: true, reason: place.to_owned() },
        (None, Some(address)) => {
            RemoteAdministration { is_allowed: true, reason: format!("as --{address} is given") }
        }
        (None, None) => {
            let reason = "unless --allow-remote-administration=true, or with tokens".to_owned();
            RemoteAdministration { is_allowed: false, reason }
        }
    }
}

/// Reads the settings. `place` is a reason to let clients on other machines administrate that lies in where the server
/// runs.
pub fn resolve(
    sources: &Sources,
    place: Option<&'static str>,
    problems: &mut Vec<String>,
) -> AccessSettings {
    let open = sources.read("auth-open", open, problems);
    let tokens_file = sources.read("auth-tokens-file", value::path, problems);
    let api_key = sources.read("api-key", token, problems);
    if tokens_file.is_some() && api_key.is_some() {
        problems
            .push("--auth-tokens-file and --api-key: expected one of them, given both".to_owned());
    }
    AccessSettings {
        tokens_file,
        api_key,
        open: open.unwrap_or(Categories::only(&[Category::Health])),
        remote_administration: remote_administration(sources, place, problems),
        hosts: sources.read("allowed-hosts", hosts, problems).unwrap_or_default(),
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
    let restrictions = sources.read_all(restricted, restriction, problems);
    if let Some(category) = overlap(&restrictions) {
        problems.push(format!(
            "--{restricted}: the category '{}' is in two groups, expected in one at most",
            category.name()
        ));
    }
    let forwarding = sources.read(forward, pattern, problems);
    WireAccess { restrictions, forwarding }
}

fn hosts(text: &str) -> Parse<HostNames> {
    HostNames::parse(text).map_err(|it| it.to_string())
}

fn restriction(text: &str) -> Parse<Restriction> {
    Restriction::parse(text).map_err(|it| it.to_string())
}

fn pattern(text: &str) -> Parse<Forwarding> {
    Forwarding::new(text).map_err(|it| it.to_string())
}

fn token(text: &str) -> Parse<Tokens> {
    Tokens::one(Scope::Inference, text).map_err(|it| it.to_string())
}

fn open(text: &str) -> Parse<Categories> {
    match text {
        "none" => Ok(Categories::default()),
        text => Categories::parse(text).map_err(|it| format!("none, or {it}")),
    }
}
