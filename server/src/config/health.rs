//! `muster health`: finds the address to ask, from the settings that the server was started with. The two processes
//! share the environment; the server's command line is that of process 1, if process 1 of the container is muster.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::Path,
};

use super::other_servers::offer_defaults;
use configuration::{
    Environment, FlagTable,
    command_line::{self, Health, Parsed, Serve},
    compat::tensorflow_command,
    gather, value,
};
use frontend::settings::listeners;

/// The address that a health check asks.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthCheck {
    /// Over TLS, with any certificate.
    pub tls: bool,
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, which begins with a slash.
    pub path: String,
}

impl HealthCheck {
    /// Host and port in the form of the header `Host`.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// The address to ask; `None`, with a further problem, where it is unknown.
pub(super) fn resolve(
    command: Health,
    flags: &FlagTable,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<HealthCheck> {
    if let Some(url) = command.url {
        return given(&url, problems);
    }
    let typed = |setting: &str| command.settings.iter().any(|it| it.name == setting);
    let typed = listeners::PORTS.into_iter().find(|it| typed(it));
    // Of two values the later one counts, which is the one typed for this command.
    let server = first_process(flags, environment);
    let settings: Vec<_> = server.settings.iter().cloned().chain(command.settings).collect();
    let mut sources = gather(&settings, flags, environment, problems);
    offer_defaults(&server, &mut sources, environment, problems);
    let service = listeners::to_ask(&sources, typed, problems)?;
    Some(HealthCheck {
        tls: service.tls,
        host: service.address.ip().to_string(),
        port: service.address.port(),
        path: if service.sagemaker { "/ping" } else { "/v2/health/ready" }.to_owned(),
    })
}

/// The address from `--url`.
fn given(url: &OsStr, problems: &mut Vec<String>) -> Option<HealthCheck> {
    let text = url.to_string_lossy();
    match value::any_url(&text) {
        Ok((tls, (host, port, path))) => {
            let path = if path.is_empty() { "/ping".to_owned() } else { path };
            Some(HealthCheck { tls, host, port, path })
        }
        Err(expected) => {
            problems.push(format!("--url '{text}' (command line): expected {expected}"));
            None
        }
    }
}

/// The command line of process 1, if that is a server, also behind the name of an init program, as in `docker-init --
/// /muster serve`.
fn first_process(flags: &FlagTable, environment: &dyn Environment) -> Serve {
    let args = environment.first_process().unwrap_or_default();
    let is_muster = |it: &OsString| {
        let name = Path::new(it).file_name();
        name == Some(OsStr::new("muster")) || tensorflow_command::is_name(it)
    };
    let args = args.into_iter().skip_while(|it| !is_muster(it)).collect();
    // Problems in that command line are the server's to report.
    match command_line::parse(args, flags, &mut Vec::new()) {
        Parsed::Serve(serve) => serve,
        _ => Serve::default(),
    }
}
