//! The addresses of the services, and conflicts between them.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroUsize,
};

use super::tls;
use configuration::{
    Flag, Notice, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("allow-http", "", "Serve KServe v2 and TensorFlow Serving requests over HTTP. Default: true, but false where a hosting platform starts `serve`, unless --http-port is given"),
    Flag::value("http-address", "", "Address of the HTTP port, and of the others that have none of their own. Default: 127.0.0.1, which this machine alone can reach; but 0.0.0.0, all machines, in a container, on a hosting platform, and called as another server").named("ADDRESS"),
    Flag::value("http-port", "8000", "The HTTP port; 0 takes any free one").named("PORT"),
    Flag::boolean("reuse-http-port", "false", "Let several processes share the HTTP port"),
    Flag::value("http-thread-count", "auto", "Threads that serve sockets, of all HTTP ports together").named("COUNT"),
    Flag::boolean("allow-metrics", "", "Serve /metrics on a port of its own; the SageMaker port has it in any case. Default: as --allow-http"),
    Flag::value("metrics-address", "", "Address of the metrics port. Default: the HTTP address").named("ADDRESS"),
    Flag::value("metrics-port", "8002", "The metrics port").named("PORT"),
    Flag::boolean("allow-grpc", "", "Serve gRPC. Default: true, but false where a hosting platform starts `serve`, unless --grpc-port is given"),
    Flag::value("grpc-address", "", "Address of the gRPC port. Default: the HTTP address").named("ADDRESS"),
    Flag::value("grpc-port", "8001", "The gRPC port; 0 takes any free one").named("PORT"),
    Flag::boolean("reuse-grpc-port", "false", "Let several processes share the gRPC port"),
    Flag::boolean("allow-tfs-grpc", "", "Serve gRPC on TensorFlow Serving's port, too. Default: false, unless --tfs-grpc-port is given"),
    Flag::value("tfs-grpc-address", "", "Address of that port. Default: the gRPC address").named("ADDRESS"),
    Flag::value("tfs-grpc-port", "", "TensorFlow Serving's gRPC port, which this opens; 0 takes any free one. What else is said of gRPC holds there, too. Default: 8500").named("PORT"),
    Flag::boolean("allow-sagemaker", "true", "Serve /ping and /invocations"),
    Flag::value("sagemaker-address", "", "Address of the SageMaker port. Default: the HTTP address").named("ADDRESS"),
    Flag::value("sagemaker-port", "8080", "The SageMaker port").named("PORT"),
    Flag::value("sagemaker-safe-port-range", "", "<lowest>-<highest>: all other ports must be in it; one that was not given is taken from it").named("LOWEST-HIGHEST"),
    Flag::value("vertex-ai-address", "", "Address of the Vertex AI port. Default: the HTTP address").named("ADDRESS"),
    Flag::value("vertex-ai-port", "8080", "The Vertex AI port").named("PORT"),
];

/// Addresses to listen on; `None` where the service is off. Port 0 takes any free port. No two are the
/// same, and at least one is on.
#[derive(Debug, Clone, PartialEq)]
pub struct Listeners {
    /// The KServe and TensorFlow Serving routes: 8000.
    pub http: Option<SocketAddr>,
    /// `/ping`, `/invocations`, `/metrics`: 8080.
    pub sagemaker: Option<SocketAddr>,
    /// The two routes of Vertex AI: 8080.
    pub vertex_ai: Option<SocketAddr>,
    /// `/metrics` on a port of its own: 8002.
    pub metrics: Option<SocketAddr>,
    /// gRPC: 8001.
    pub grpc: Option<SocketAddr>,
    /// The same on TensorFlow Serving's port: 8500.
    pub tfs_grpc: Option<SocketAddr>,
    /// Set `SO_REUSEPORT` on the HTTP port, so that several processes may share it.
    pub reuse_http_port: bool,
    /// The same for the gRPC port.
    pub reuse_grpc_port: bool,
    /// The services, by their names in the log, that nobody has asked for: the server does without one whose port is
    /// taken.
    pub spare: Vec<&'static str>,
    /// `--http-thread-count`: threads that serve sockets, of all HTTP ports together; `None` for the
    /// server's choice.
    pub http_threads: Option<NonZeroUsize>,
}

/// Who can reach ports whose address nobody has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Programs on this machine.
    ThisMachine,
    /// All machines that have a way to this one.
    Everywhere,
}

/// What decides about the ports beside their own settings.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// A platform that wants one port started the process.
    pub hosted: bool,
    /// Is the port of Vertex AI on?
    pub vertex_ai: bool,
    /// Who can reach ports whose address nobody has chosen.
    pub reach: Reach,
}

/// A service before its port is settled.
struct Service {
    name: &'static str,
    /// In the log.
    label: &'static str,
    /// The setting of its port.
    port_setting: &'static str,
    on: bool,
    address: IpAddr,
    port: u16,
    /// Is the port configured, rather than a default?
    chosen: bool,
    /// Is the service or its port configured?
    asked: bool,
}

impl Service {
    fn socket(&self) -> Option<SocketAddr> {
        self.on.then(|| SocketAddr::new(self.address, self.port))
    }
}

/// The settings of the services' ports, in the order in which a health check tries them.
pub const PORTS: [&str; 3] = ["sagemaker-port", "http-port", "metrics-port"];

/// The services of SageMaker, HTTP, metrics, gRPC, Vertex AI and TensorFlow Serving's gRPC, as they are configured.
fn services(sources: &Sources, asked: Asked, problems: &mut Vec<String>) -> [Service; 6] {
    let Asked { hosted, vertex_ai, reach } = asked;
    let usual = match reach {
        Reach::ThisMachine => Ipv4Addr::LOCALHOST,
        Reach::Everywhere => Ipv4Addr::UNSPECIFIED,
    };
    let address = sources.read("http-address", value::address, problems).unwrap_or(usual.into());
    let has_address = sources.last("tfs-grpc-address").is_some();
    let tfs_address = Some(if has_address { "tfs-grpc-address" } else { "grpc-address" });
    let mut service = |name, allow, own_address: Option<&'static str>, port_setting, port| {
        let own_address = own_address.and_then(|it| sources.read(it, value::address, problems));
        let chosen = sources.last(port_setting).is_some();
        // A platform that chose one port gets no others, unless they are configured.
        let on_by_default = match allow {
            "allow-sagemaker" => !vertex_ai || chosen,
            "allow-tfs-grpc" => chosen,
            "allow-http" | "allow-grpc" => !hosted && !vertex_ai || chosen,
            _ => !hosted || chosen,
        };
        let (name, label) = name;
        Service {
            name,
            label,
            port_setting,
            on: match allow {
                "allow-vertex-ai" => vertex_ai,
                _ => sources.read(allow, value::boolean, problems).unwrap_or(on_by_default),
            },
            address: own_address.unwrap_or(address),
            port: sources.read(port_setting, value::port, problems).unwrap_or(port),
            chosen,
            asked: chosen || sources.last(allow).is_some(),
        }
    };
    [
        service(
            ("SageMaker", "sagemaker"),
            "allow-sagemaker",
            Some("sagemaker-address"),
            PORTS[0],
            8080,
        ),
        service(("HTTP", "http"), "allow-http", None, PORTS[1], 8000),
        service(("metrics", "metrics"), "allow-metrics", Some("metrics-address"), PORTS[2], 8002),
        service(("gRPC", "grpc"), "allow-grpc", Some("grpc-address"), "grpc-port", 8001),
        service(
            ("Vertex AI", "vertex-ai"),
            "allow-vertex-ai",
            Some("vertex-ai-address"),
            "vertex-ai-port",
            8080,
        ),
        service(
            ("TensorFlow gRPC", "tfs-grpc"),
            "allow-tfs-grpc",
            tfs_address,
            "tfs-grpc-port",
            8500,
        ),
    ]
}

/// Is the Vertex AI port wanted?
pub fn has_vertex_ai(sources: &Sources, problems: &mut Vec<String>) -> bool {
    sources.read("allow-vertex-ai", value::boolean, problems).unwrap_or(false)
}

/// Settles the ports.
pub fn resolve(sources: &mut Sources, asked: Asked, problems: &mut Vec<String>) -> Listeners {
    let [mut sagemaker, mut http, mut metrics, mut grpc, vertex_ai, mut tfs_grpc] =
        services(sources, asked, problems);
    let mut spare = Vec::new();
    if asked.reach == Reach::ThisMachine {
        spare = make_way(&http, [&mut sagemaker, &mut metrics, &mut grpc], &mut sources.notices);
    }
    if let Some(range) = sources.read("sagemaker-safe-port-range", port_range, problems) {
        let movable = [&mut grpc, &mut http, &mut metrics, &mut tfs_grpc];
        fit_into(range, sagemaker.port, movable, &mut sources.notices, problems);
    }
    let services = [&http, &sagemaker, &vertex_ai, &metrics, &grpc, &tfs_grpc];
    check_distinct(&services, problems);
    let is_usual = sources.last("http-address").is_none();
    if is_usual && services.iter().all(|it| !it.on || it.address.is_loopback()) {
        sources.notices.push(Notice::info(THIS_MACHINE.to_owned()));
    }
    if services.iter().all(|it| !it.on) {
        problems.push(
            "there is nothing to listen on: --allow-http, --allow-grpc, --allow-sagemaker, --allow-vertex-ai, \
             --allow-metrics and --allow-tfs-grpc are all false"
                .to_owned(),
        );
    }
    Listeners {
        http: http.socket(),
        sagemaker: sagemaker.socket(),
        vertex_ai: vertex_ai.socket(),
        metrics: metrics.socket(),
        grpc: grpc.socket(),
        tfs_grpc: tfs_grpc.socket(),
        spare,
        reuse_http_port: sources.read("reuse-http-port", value::boolean, problems).unwrap_or(false),
        reuse_grpc_port: sources.read("reuse-grpc-port", value::boolean, problems).unwrap_or(false),
        http_threads: sources
            .read("http-thread-count", value::threads_or_auto, problems)
            .unwrap_or_default(),
    }
}

/// For the log, where nobody has chosen an address.
const THIS_MACHINE: &str = "only this machine can reach the ports, as the server runs in no container: \
                            --http-address=0.0.0.0 opens them to all machines";

/// The services that nobody has asked for, where HTTP is on: they are off where HTTP was given the port of one.
fn make_way(
    http: &Service,
    others: [&mut Service; 3],
    notices: &mut Vec<Notice>,
) -> Vec<&'static str> {
    let mut spare = Vec::new();
    for service in others.into_iter().filter(|it| http.on && it.on && !it.asked) {
        let Service { name, port, port_setting, label, .. } = *service;
        spare.push(label);
        if http.chosen && http.port == port {
            service.on = false;
            notices.push(Notice::info(format!(
                "the {name} service is off, as --http-port has its port {port}; --{port_setting} gives it another"
            )));
        }
    }
    spare
}

/// The service of a server that answers a health check.
pub struct ToAsk {
    /// Where it listens, as seen from this machine.
    pub address: SocketAddr,
    /// By TLS?
    pub tls: bool,
    /// Is it SageMaker's port?
    pub sagemaker: bool,
}

/// Where such a server can be asked how it is: the service whose port setting is `named`, else the first that
/// is on. One that wants a certificate of its clients is passed over.
pub fn to_ask(sources: &Sources, named: Option<&str>, problems: &mut Vec<String>) -> Option<ToAsk> {
    // What a platform changes is which services are on beside SageMaker's, which is on in any case.
    // gRPC has health checks of its own, and those of Vertex AI are the platform's business.
    let vertex_ai = has_vertex_ai(sources, problems);
    let asked = Asked { hosted: false, vertex_ai, reach: Reach::ThisMachine };
    let [sagemaker, http, metrics, ..] = services(sources, asked, problems);
    let services = [sagemaker, http, metrics];
    let is_named = |it: &Service| it.on && named.is_none_or(|name| it.port_setting == name);
    let tls = tls::resolve(sources, problems);
    let has_tls =
        |it: &Service| tls.as_ref().is_some_and(|tls| tls.ports.has(&it.name.to_ascii_lowercase()));
    let asks_back = tls.as_ref().is_some_and(|it| it.files.client_ca.is_some());
    let found = services.iter().position(|it| is_named(it) && !(asks_back && has_tls(it)));
    let Some((at, service)) = found.and_then(|at| Some((at, services.get(at)?))) else {
        problems.push(match services.iter().any(is_named) {
            false => "the server has no HTTP, SageMaker or metrics port to ask: these services are off; name \
                      another address with --url"
                .to_owned(),
            true => "the server wants a certificate of its clients there, which this command has not: leave the \
                     metrics port on and without TLS (--allow-metrics, --http-tls-ports)"
                .to_owned(),
        });
        return None;
    };
    let ip = match service.address {
        it if !it.is_unspecified() => it,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    if service.port == 0 {
        problems.push(
            "the server's port is 0, any free one: name the one that it took with --url".to_owned(),
        );
        return None;
    }
    let address = SocketAddr::new(ip, service.port);
    Some(ToAsk { address, tls: has_tls(service), sagemaker: at == 0 })
}

/// Moves default ports into the platform's range, lowest first and in this order, and warns of chosen ports outside
/// of it. The platform's own port need not be inside.
fn fit_into(
    (low, high): (u16, u16),
    sagemaker_port: u16,
    services: [&mut Service; 4],
    notices: &mut Vec<Notice>,
    problems: &mut Vec<String>,
) {
    let mut taken = vec![sagemaker_port];
    taken.extend(services.iter().filter(|it| it.on && it.chosen).map(|it| it.port));
    for service in services.into_iter().filter(|it| it.on) {
        let inside = (low..=high).contains(&service.port);
        if service.chosen && !inside {
            problems.push(format!(
                "the port {} of the {} service (--{}) is outside the safe port range {low}-{high}",
                service.port, service.name, service.port_setting
            ));
        } else if !service.chosen {
            let Some(free) = (low..=high).find(|it| !taken.contains(it)) else {
                problems.push(format!(
                    "the safe port range {low}-{high} has no port left for the {} service (--{})",
                    service.name, service.port_setting
                ));
                continue;
            };
            notices.push(Notice::info(format!(
                "the {} service takes port {free} of the safe port range {low}-{high}",
                service.name
            )));
            service.port = free;
            taken.push(free);
        }
    }
}

fn check_distinct(services: &[&Service], problems: &mut Vec<String>) {
    let on: Vec<_> = services.iter().filter(|it| it.on && it.port != 0).collect();
    for (index, first) in on.iter().enumerate() {
        for second in on.iter().skip(index + 1) {
            // The address for "all" covers the others of its kind.
            let meet = first.address == second.address
                || (first.address.is_ipv4() == second.address.is_ipv4()
                    && (first.address.is_unspecified() || second.address.is_unspecified()));
            if first.port == second.port && meet {
                problems.push(format!(
                    "the {} service (--{}) and the {} service (--{}) are both on port {}",
                    first.name, first.port_setting, second.name, second.port_setting, first.port
                ));
            }
        }
    }
}

/// `lowest-highest`, both included.
fn port_range(text: &str) -> Parse<(u16, u16)> {
    let range = text.split_once('-').and_then(|(low, high)| {
        let (low, high): (u16, u16) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        (1 <= low && low <= high).then_some((low, high))
    });
    range.ok_or_else(|| "two ports, as 9000-9999, the lower one first".to_owned())
}
