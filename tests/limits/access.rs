//! Who may do what: tokens and restricted categories, on every route of every port.

use std::{
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::PathBuf,
};

use frontend::grpc::proto::{RepositoryModelLoadRequest, RepositoryModelLoadResponse};
use tonic::Code;

use crate::support::{
    Client, Process, Repository, Server, Start, first_of,
    grpc::{Client as GrpcClient, identity, refused},
    infer, row, skip, wait_for,
};

const METRICS: &str = "metrics-token-0123456789";
const INFERENCE: &str = "inference-token-0123456789";
const ADMIN: &str = "admin-token-0123456789";

/// Every route, its category, and what a token for it must allow.
const ROUTES: &[(&str, &str, &str, &str)] = &[
    ("GET", "/v2/health/live", "health", "metrics"),
    ("GET", "/v2/health/ready", "health", "metrics"),
    ("GET", "/v2/models/m/ready", "health", "metrics"),
    ("GET", "/v2/models/m/versions/1/ready", "health", "metrics"),
    ("GET", "/ping", "health", "metrics"),
    ("POST", "/ping", "health", "metrics"),
    ("GET", "/metrics", "metrics", "metrics"),
    ("GET", "/v2", "metadata", "inference"),
    ("GET", "/v2/models/m", "metadata", "inference"),
    ("GET", "/v1/models/m", "metadata", "inference"),
    ("GET", "/v1/models/m/metadata", "metadata", "inference"),
    ("GET", "/execution-parameters", "metadata", "inference"),
    ("GET", "/v2/models/m/config", "model-config", "inference"),
    ("POST", "/v2/models/m/infer", "inference", "inference"),
    ("POST", "/v2/models/m/versions/1/infer", "inference", "inference"),
    ("POST", "/v1/models/m:predict", "inference", "inference"),
    ("POST", "/v1/models/m/versions/1:classify", "inference", "inference"),
    ("POST", "/v1/models/m/labels/x:regress", "inference", "inference"),
    ("POST", "/invocations", "inference", "inference"),
    ("POST", "/models/m/invoke", "inference", "inference"),
    ("GET", "/models", "model-repository", "inference"),
    ("GET", "/models/m", "model-repository", "inference"),
    ("POST", "/models", "model-repository", "admin"),
    ("DELETE", "/models/m", "model-repository", "admin"),
    ("GET", "/invocations-bidirectional-stream", "inference", "inference"),
    ("GET", "/v2/trace/setting", "trace", "admin"),
    ("POST", "/v2/trace/setting", "trace", "admin"),
    ("GET", "/v2/models/m/trace/setting", "trace", "admin"),
    ("GET", "/v2/logging", "logging", "admin"),
    ("POST", "/v2/logging", "logging", "admin"),
    ("POST", "/v2/repository/index", "model-repository", "inference"),
    ("POST", "/v2/repository/models/m/load", "model-repository", "admin"),
    ("POST", "/v2/repository/models/m/unload", "model-repository", "admin"),
];

/// A model `m`, and a file of the three tokens.
struct Place {
    repository: Repository,
    files: Repository,
}

impl Place {
    fn new() -> Place {
        let place = Place { repository: Repository::identity("m", &[]), files: Repository::new() };
        write_tokens(&place.tokens(), INFERENCE);
        place
    }

    fn tokens(&self) -> PathBuf {
        self.files.at("tokens").into()
    }

    /// Loading, with these tokens.
    fn launch(&self, flags: &[&str]) -> Server {
        let file = format!("--auth-tokens-file={}", self.tokens().display());
        Start::new(&self.repository).flags(&[&file]).flags(flags).launch()
    }

    /// Loaded, with these tokens.
    fn start(&self, flags: &[&str]) -> Server {
        let server = self.launch(flags);
        assert!(server.wait_loaded());
        server
    }
}

fn repository() -> Repository {
    Repository::identity("m", &[])
}

fn write_tokens(path: &PathBuf, inference: &str) {
    let text = format!("# who\nmetrics {METRICS}\ninference {inference}\nadmin {ADMIN}\n");
    // As a whole, as who changes such a file should.
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

fn rank(scope: &str) -> usize {
    ["metrics", "inference", "admin"].iter().position(|it| *it == scope).unwrap()
}

/// The status of a route on every port, which must be the same.
#[track_caller]
fn status(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
    let body = (method == "POST").then_some(&b"{}"[..]);
    let ports = ["http", "sagemaker", "metrics"];
    let of = |port: &str| {
        Client::connect(server.address(port).unwrap()).request(method, path, headers, body).status
    };
    let statuses = ports.map(of);
    assert!(statuses.iter().all(|it| *it == statuses[0]), "{method} {path}: {statuses:?}");
    statuses[0]
}

#[test]
fn every_route_asks_for_its_token_on_every_port() {
    let place = Place::new();
    let server = place.start(&[]);
    for (method, path, category, needed) in ROUTES {
        let open = *category == "health";
        for header in ["authorization", "x-api-key"] {
            let value = |token: &str| match header {
                "authorization" => format!("Bearer {token}"),
                _ => token.to_owned(),
            };
            for wrong in ["", "x", "inference-token-012345678", "admin"] {
                let status = status(&server, method, path, &[(header, &value(wrong))]);
                assert_eq!(status == 401, !open, "{method} {path} with {wrong:?}: {status}");
            }
            for (token, scope) in [(METRICS, "metrics"), (INFERENCE, "inference"), (ADMIN, "admin")]
            {
                let status = status(&server, method, path, &[(header, &value(token))]);
                let enough = open || rank(needed) <= rank(scope);
                assert!(status != 401, "{method} {path} as {scope}");
                assert_eq!(status == 403, !enough, "{method} {path} as {scope}: {status}");
            }
        }
        assert_eq!(status(&server, method, path, &[]) == 401, !open, "{method} {path}");
    }
}

#[test]
fn other_spellings_of_an_address_are_no_way_around() {
    let place = Place::new();
    let server = place.start(&[]);
    for path in [
        "/v2/models/m/infer/",
        "/v2/models/m/infer?x=/v2/health/live",
        "/v2/models/%6d/infer",
        "/v2/models/m/infer;/v2/health/live",
        "/v2/health/live/../../models/m/infer",
        "/v2/health/live%2f..%2f..%2fmodels/m/infer",
        "//v2/models/m/infer",
        "/V2/models/m/infer",
        "http://x/v2/models/m/infer",
        "/v2/repository/models/%2e/load",
    ] {
        let status = server.client().post(path, &[], row(1)).status;
        assert!([401, 404, 400].contains(&status), "{path}: {status}");
    }
    // Nor are other methods. OPTIONS says which ones there are, and no more.
    for method in ["HEAD", "GET", "PUT", "DELETE", "X"] {
        let reply = server.client().request(method, "/v2/models/m/infer", &[], None);
        assert!([401, 405].contains(&reply.status), "{method}: {}", reply.status);
    }
    let options = server.client().request("OPTIONS", "/v2/models/m/infer", &[], None);
    assert_eq!((options.status, options.text().as_str()), (204, ""));
    let head = server.client().request("HEAD", "/metrics", &[], None);
    assert_eq!(head.status, 401);
}

#[test]
fn a_refusal_says_which_header_is_missing_and_how_to_send_it() {
    let place = Place::new();
    let server = place.start(&[]);
    let reply = server.post(&infer("m"), row(1));
    assert!(reply.error(401).contains("Authorization: Bearer"), "{}", reply.text());
    assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"muster\""));
    let mut client = server.client();
    let token = format!("Bearer {METRICS}");
    let reply = client.post(&infer("m"), &[("authorization", &token)], row(1));
    assert!(reply.error(403).contains("needs 'inference'"), "{}", reply.text());
    assert!(!reply.text().contains(METRICS));
    // The same connection, with the right one.
    let token = format!("Bearer {INFERENCE}");
    assert_eq!(first_of(&client.post(&infer("m"), &[("authorization", &token)], row(7))), 7.0);
}

#[test]
fn what_is_open_can_be_chosen() {
    let place = Place::new();
    let server = place.start(&["--auth-open=health,metrics"]);
    assert_eq!(server.get("/metrics").status, 200);
    assert_eq!(server.get("/v2").status, 401);
    drop(server);
    let server = place.launch(&["--auth-open=none"]);
    assert_eq!(server.get("/v2/health/live").status, 401);
}

#[test]
fn a_token_that_is_taken_back_stops_working_while_the_server_runs() {
    let place = Place::new();
    let server = place.start(&[]);
    let status =
        |token: &str| server.client().post(&infer("m"), &[("x-api-key", token)], row(1)).status;
    assert_eq!(status(INFERENCE), 200);
    let other = "another-token-0123456789";
    write_tokens(&place.tokens(), other);
    wait_for("the new token", || (status(other) == 200).then_some(()));
    assert_eq!(status(INFERENCE), 401);
    // A file that goes bad changes nothing.
    fs::write(place.tokens(), "nonsense").unwrap();
    assert_eq!(status(other), 200);
}

#[test]
fn a_restricted_category_needs_its_header_on_every_port() {
    let repository = repository();
    for category in
        ["health", "metadata", "inference", "model-config", "model-repository", "metrics"]
    {
        // The wait for the start asks for health.
        let flag = format!("--http-restricted-api={category}:X-Key=let=me:in");
        let server = Start::new(&repository).flags(&[&flag]).launch();
        let right = ("x-key", "let=me:in");
        let loaded = || {
            let reply = server.client().request("GET", "/v2/health/ready", &[right], None);
            (reply.status == 200).then_some(())
        };
        wait_for("the models", loaded);
        for (method, path, of, _) in ROUTES {
            for wrong in [None, Some("let=me:i"), Some("let=me:inn"), Some("LET=ME:IN"), Some("")] {
                let headers: Vec<_> = wrong.iter().map(|it| ("x-key", *it)).collect();
                let status = status(&server, method, path, &headers);
                assert_eq!(status == 403, *of == category, "{category}: {method} {path}: {status}");
            }
            let status = status(&server, method, path, &[right]);
            assert!(status != 403 && status != 401, "{category}: {method} {path}: {status}");
        }
    }
}

#[test]
fn a_restriction_names_the_header_and_not_its_value() {
    let repository = repository();
    let flags = ["--http-restricted-api=inference,model-config:X-Key=hush"];
    let server = Server::start(&repository, &flags);
    let reply = server.post(&infer("m"), row(1));
    let text = reply.error(403);
    assert!(text.contains("'x-key'") && text.contains("inference"), "{text}");
    assert!(!text.contains("hush"), "{text}");
    let reply = server.client().post(&infer("m"), &[("X-KEY", "hush")], row(4));
    assert_eq!(first_of(&reply), 4.0);
    assert_eq!(server.get("/v2/models/m").status, 200);
}

#[test]
fn a_start_that_would_protect_nothing_is_refused() {
    let repository = repository();
    let start = |flags: &[&str]| Start::new(&repository).flags(flags).config();
    let twice =
        start(&["--http-restricted-api=health:a=b", "--http-restricted-api=trace,health:c=d"]);
    assert!(twice.unwrap_err().contains("'health' is in two groups"));
    assert!(start(&["--http-restricted-api=nothing:a=b"]).is_err());
    let missing = Start::new(&repository).flags(&["--auth-tokens-file=/nowhere/tokens"]);
    let outcome = std::panic::catch_unwind(|| missing.launch());
    let text = outcome.err().and_then(|it| it.downcast::<String>().ok()).unwrap();
    assert!(text.contains("--auth-tokens-file '/nowhere/tokens' cannot be read"), "{text}");
}

#[test]
fn headers_of_reserved_names_are_not_forwarded() {
    let repository = repository();
    let server =
        Server::start(&repository, &["--http-header-forward-pattern=^(x-|priority|triton_)"]);
    let mut client = server.client();
    let mut ask = |header: (&str, &str)| client.post(&infer("m"), &[header], row(2));
    assert_eq!(first_of(&ask(("x-user", "ann"))), 2.0);
    assert_eq!(first_of(&ask(("sequence_id", "1"))), 2.0);
    for name in ["priority", "PRIORITY", "triton_anything"] {
        let text = ask((name, "1")).error(400);
        assert!(text.contains(&name.to_lowercase()) && text.contains("reserved"), "{text}");
    }
    assert!(ask(("x-odd", "\u{fc}")).status == 200);
}

/// An address of this machine that is not loopback; `None` where there is no network.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|it| !it.is_loopback() && !it.is_unspecified())
}

#[test]
fn clients_that_do_not_come_over_loopback_may_ask_and_not_administrate() {
    let Some(own) = own_address() else {
        return skip("administration from other machines: this one has no network");
    };
    let repository = Repository::identity("m", &[]);
    let everywhere = ["--http-address=0.0.0.0", "--model-control-mode=explicit", "--load-model=m"];
    let flags = [&everywhere[..], &["--allow-remote-administration=false"]].concat();
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_for_line("is open to this machine only");
    server.wait_ready();
    let afar = |port: SocketAddr| Client::connect(SocketAddr::new(own, port.port()));
    let http = server.address("http");
    for (path, body) in [
        ("/v2/repository/models/m/load", ""),
        ("/v2/repository/models/m/unload", ""),
        ("/v2/logging", "{\"log_info\": false}"),
        ("/v2/trace/setting", "{}"),
        ("/v2/systemsharedmemory/region/r/register", "{}"),
    ] {
        let error = afar(http).post(path, &[], body).error(403);
        assert!(error.contains("--allow-remote-administration"), "{path}: {error}");
    }
    afar(http).get("/v2/models/m/ready").expect(200);
    assert_eq!(first_of(&afar(http).post(&infer("m"), &[], row(3))), 3.0);
    let mut grpc = GrpcClient::connect(SocketAddr::new(own, server.address("grpc").port()));
    let load = || RepositoryModelLoadRequest { model_name: "m".to_owned(), ..Default::default() };
    let answer = grpc.call::<_, RepositoryModelLoadResponse>("RepositoryModelLoad", load());
    let error = refused(answer, Code::PermissionDenied);
    assert!(error.contains("--allow-remote-administration"), "{error}");
    grpc.infer(identity("m", &[1.0, 2.0, 3.0, 4.0])).unwrap();
    let here = SocketAddr::from(([127, 0, 0, 1], http.port()));
    Client::connect(here).post("/v2/repository/models/m/load", &[], "").expect(200);

    // An address that is given is a decision of the operator.
    let mut server = Process::start(&repository, &everywhere, &[]);
    server.wait_for_line("is open to all machines, as ");
    server.wait_ready();
    let http = server.address("http");
    afar(http).post("/v2/repository/models/m/load", &[], "").expect(200);
}
