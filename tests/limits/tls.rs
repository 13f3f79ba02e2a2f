//! TLS on the HTTP ports: certificates of clients, renewed files, and peers that speak something else.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    process::Command,
    sync::Arc,
    time::Duration,
};

use muster::config::HealthCheck;
use muster::health;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, ClientConnection, RootCertStore, StreamOwned,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::support::{
    Client, PATIENCE, Page, Repository, Server, Start, bench, control::EXPLICIT, first_of, infer,
    row, wait_for, wait_queued, websocket::Socket, with_tools,
};

/// An authority, and what it has signed.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
struct Signed {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// For `localhost`, as a server or as a client.
    fn sign(&self) -> Signed {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost", "127.0.0.1"].map(str::to_owned)).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A client that believes this authority, and shows a certificate if it has one.
    fn client(&self, own: Option<&Signed>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        Arc::new(match own {
            None => config.with_no_client_auth(),
            Some(own) => {
                let certificate =
                    CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        })
    }
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn connect(config: &Arc<ClientConfig>, address: SocketAddr) -> Secure {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), stream)
}

/// Sends one request and reads until the server closes.
fn ask(stream: &mut Secure, method: &str, path: &str, body: &str) -> io::Result<String> {
    let length = body.len();
    let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

/// A server with a certificate for `localhost`.
struct Place {
    authority: Authority,
    repository: Repository,
    files: Repository,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            authority: Authority::new(),
            repository: Repository::identity("m", &[]),
            files: Repository::new(),
        };
        place.renew(&place.authority.sign());
        fs::write(place.file("ca"), place.authority.0.pem()).unwrap();
        place
    }

    fn file(&self, name: &str) -> String {
        self.files.at(&format!("{name}.pem"))
    }

    fn renew(&self, signed: &Signed) {
        fs::write(self.file("cert"), &signed.certificate).unwrap();
        fs::write(self.file("key"), &signed.key).unwrap();
    }

    fn flags(&self) -> Vec<String> {
        vec![
            format!("--http-tls-cert={}", self.file("cert")),
            format!("--http-tls-key={}", self.file("key")),
        ]
    }

    /// Started, and loaded by what the metrics port says.
    fn start(&self, flags: &[&str]) -> Server {
        let own = self.flags();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let server = Start::new(&self.repository).flags(&own).flags(flags).launch();
        let metrics = server.address("metrics").unwrap();
        wait_for("the models", || {
            (Client::connect(metrics).get("/v2/health/ready").status == 200).then_some(())
        });
        server
    }

    fn problem(&self) -> String {
        let own = self.flags();
        let ca = format!("--http-tls-client-ca={}", self.file("ca"));
        let own: Vec<&str> = own.iter().map(String::as_str).chain([&*ca]).collect();
        let start = Start::new(&self.repository).flags(&own);
        let outcome = std::panic::catch_unwind(|| start.launch());
        *outcome.err().and_then(|it| it.downcast::<String>().ok()).expect("no start")
    }
}

#[test]
fn the_load_generator_speaks_tls_and_believes_whom_it_is_told_to() {
    let port = |kind: &str| format!("{kind} {{ name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }}\n");
    let wide = ["backend: \"identity\"\n".to_owned(), port("input"), port("output")].concat();
    let repository = Repository::identity("m", &[]).model("wide", &wide);
    let place = Place { repository, ..Place::new() };
    let (cert, key) = (place.file("cert"), place.file("key"));
    let grpc = [format!("--grpc-server-cert={cert}"), format!("--grpc-server-key={key}")];
    let server = place.start(&["--grpc-use-ssl=true", &grpc[0], &grpc[1]]);
    let url = format!("https://{}", server.http());
    let ca = place.file("ca");
    let foreign = place.files.at("foreign.pem");
    fs::write(&foreign, Authority::new().0.pem()).unwrap();
    let with = |url: &str, more: &[&str]| bench(url, &[&["-m", "m", "-c", "4"], more].concat());
    for more in [&["--cacert", &*ca][..], &["--insecure"]] {
        let (found, problem, good) = with(&url, more);
        assert!(good && found["ok"] == 40, "{more:?}: {found:#} {problem}");
        assert_eq!((&found["wrong"], &found["reconnects"]), (&0.into(), &0.into()), "{found:#}");
    }
    // Bodies of many records, both ways.
    let wide = ["-m", "wide", "--shape", "x:250000", "-c", "4", "--cacert", &ca];
    let (found, problem, good) = bench(&url, &wide);
    assert!(good && found["ok"] == 40, "{found:#} {problem}");
    assert!(found["bytes_received"].as_u64() > Some(40 * 900_000), "{found:#}");
    // The authorities of the machine have not signed it, nor has that one.
    for more in [&[][..], &["--cacert", &*foreign]] {
        let (_, problem, good) = with(&url, more);
        assert!(!good && problem.contains("invalid peer certificate"), "{more:?}: {problem}");
    }
    let (_, problem, good) = with(&url, &["--cacert", &key]);
    assert!(
        !good && problem.contains("--cacert: ") && problem.contains("there is none"),
        "{problem}"
    );

    let address = server.address("grpc").unwrap();
    let more = ["--format", "kserve-grpc", "--describe", &url, "--cacert", &ca];
    let (found, problem, good) = with(&format!("https://{address}"), &more);
    assert!(good && found["ok"] == 40 && found["wrong"] == 0, "{found:#} {problem}");
}

#[test]
fn a_certificate_that_a_server_has_signed_itself_is_believed_where_it_is_given() {
    // As `openssl req -x509` makes it: an authority's, and the server's own.
    let own = |name: &str, until: i32| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Signed { certificate, key: key.serialize_pem() }
    };
    let check = |certificate: Signed, others: &[&Signed], problem: Option<&str>| {
        let place = Place::new();
        place.renew(&certificate);
        let given = place.files.at("given.pem");
        let others: String = others.iter().map(|it| it.certificate.as_str()).collect();
        fs::write(&given, others).unwrap();
        let server = place.start(&[]);
        let url = format!("https://{}", server.http());
        let (found, said, good) = bench(&url, &["-m", "m", "--cacert", &given]);
        match problem {
            None => assert!(good && found["ok"] == 40, "{found:#} {said}"),
            Some(problem) => assert!(!good && said.contains(problem), "{problem}: {said}"),
        }
    };
    let (here, other) = (own("127.0.0.1", 4096), own("127.0.0.1", 4096));
    let copy = |it: &Signed| Signed { certificate: it.certificate.clone(), key: it.key.clone() };
    check(copy(&here), &[&other, &here], None);
    check(copy(&here), &[&other], Some("invalid peer certificate"));
    let (elsewhere, old) = (own("elsewhere.example", 4096), own("127.0.0.1", 2001));
    check(copy(&elsewhere), &[&elsewhere], Some("not valid for name"));
    check(copy(&old), &[&old], Some("expired"));
}

#[test]
fn the_recommender_measures_a_server_over_tls_and_believes_whom_it_is_told_to() {
    let place = Place::new();
    let server = place.start(&[]);
    let body = place.files.at("body.json");
    fs::write(&body, "[[1, 2, 3, 4]]").unwrap();
    let (url, ca) = (format!("https://{}", server.sagemaker()), place.file("ca"));
    let recommend_at = |url: &str, more: &[&str]| {
        let load = ["recommend", "--endpoint", url, "--payload", &body, "--stairs", "1:1:1"];
        let output = Command::new(with_tools()).args(load).args(more).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let recommend = |more: &[&str]| recommend_at(&url, more);
    for more in [&["--cacert", &*ca][..], &["--insecure"]] {
        let (status, log) = recommend(more);
        assert_eq!(status, Some(0), "{more:?}: {log}");
    }
    let (status, log) = recommend(&[]);
    assert!(status == Some(1) && log.contains("invalid peer certificate"), "{log}");
    let (status, log) = recommend(&["--cacert", "no-such.pem"]);
    assert!(status == Some(2) && log.contains("no-such.pem"), "{log}");
    let (status, log) = recommend_at("http://127.0.0.1:1", &["--cacert", &ca]);
    assert!(status == Some(2) && log.contains("expected a server at https://"), "{log}");
}

#[test]
fn a_websocket_is_encrypted_as_its_port_is() {
    let place = Place::new();
    let server = place.start(&[]);
    let stream = connect(&place.authority.client(None), server.sagemaker());
    let mut socket = Socket::open(stream, "/invocations-bidirectional-stream", &[]);
    assert_eq!(socket.ask("[[1, 2, 3, 4]]"), "[[1.0,2.0,3.0,4.0]]");
}

#[test]
fn requests_are_answered_over_tls_on_the_http_and_the_sagemaker_port() {
    let place = Place::new();
    let server = place.start(&[]);
    let config = place.authority.client(None);
    let mut http = connect(&config, server.http());
    let reply = ask(&mut http, "POST", &infer("m"), &row(5)).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("[5.0,"), "{reply}");
    let mut sagemaker = connect(&config, server.sagemaker());
    let reply = ask(&mut sagemaker, "POST", "/invocations", &row(6)).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("[6.0,"), "{reply}");
}

#[test]
fn a_connection_of_tls_that_was_at_rest_goes_on_where_it_was() {
    let place = Place::new();
    let server = place.start(&[]);
    let mut http = connect(&place.authority.client(None), server.http());
    for _ in 0..2 {
        write!(http, "GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut reply = String::new();
        while !reply.ends_with('}') {
            let mut some = [0; 512];
            let read = http.read(&mut some).unwrap();
            reply += std::str::from_utf8(&some[..read]).unwrap();
        }
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        // An idle connection is at rest after a second.
        std::thread::sleep(Duration::from_millis(1500));
    }
    let reply = ask(&mut http, "POST", &infer("m"), &row(5)).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("[5.0,"), "{reply}");
}

/// A request for one row, not answered yet.
fn begin(config: &Arc<ClientConfig>, address: SocketAddr, version: &str, first: i32) -> Secure {
    let mut stream = connect(config, address);
    let (path, body) = (infer("m"), row(first));
    let head =
        format!("POST {path} {version}\r\nhost: localhost\r\ncontent-length: {}", body.len());
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    stream
}

/// Says that nothing more will be sent.
fn finish(stream: &mut Secure) {
    stream.conn.send_close_notify();
    stream.conn.write_tls(&mut stream.sock).unwrap();
}

#[test]
fn a_client_that_finishes_sending_gets_its_answer_over_tls_and_one_that_leaves_is_noticed() {
    let batching = "dynamic_batching { }\n".to_owned();
    let mut place = Place::new();
    let config = fs::read_to_string(place.repository.path().join("m/config.pbtxt")).unwrap();
    place.repository = place.repository.file("m/config.pbtxt", batching + &config);
    let server = place.start(&["--scheduler-hold=5"]);
    let metrics = server.address("metrics").unwrap();
    let config = place.authority.client(None);
    let mut waiting = Vec::new();
    let versions = [("HTTP/1.1", false), ("HTTP/1.1", true), ("HTTP/1.0", false)];
    for (at, (version, with_its_socket)) in versions.into_iter().enumerate() {
        let mut client = begin(&config, server.http(), version, at as i32);
        finish(&mut client);
        if with_its_socket {
            client.sock.shutdown(Shutdown::Write).unwrap();
        }
        wait_queued(metrics, "m", at + 1);
        waiting.push(client);
    }
    // Longer than it takes to notice one that has left.
    std::thread::sleep(Duration::from_millis(300));
    wait_queued(metrics, "m", 3);
    for is_said in [true, false] {
        let before = Page::read(metrics).failures("m", "CANCELED");
        let mut left = begin(&config, server.http(), "HTTP/1.1", 9);
        wait_queued(metrics, "m", 4);
        if is_said {
            finish(&mut left);
        }
        drop(left);
        wait_for("a cancelled request", || {
            (Page::read(metrics).failures("m", "CANCELED") > before).then_some(())
        });
        wait_queued(metrics, "m", 3);
    }
    waiting.push(begin(&config, server.http(), "HTTP/1.0", 3));
    wait_queued(metrics, "m", 4);
    let mut last = connect(&config, server.http());
    let reply = ask(&mut last, "POST", &infer("m"), &row(7)).unwrap();
    assert!(reply.contains("[7.0,"), "{reply}");
    for (at, mut client) in waiting.into_iter().enumerate() {
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert!(reply.contains(&format!("[{at}.0,")), "{at}: {reply}");
        assert_eq!(reply.contains("100 Continue"), at < 2, "{at}: {reply}");
    }
}

#[test]
fn large_bodies_and_replies_cross_tls_whole() {
    let place = Place::new();
    let server = place.start(&[]);
    let mut stream = connect(&place.authority.client(None), server.http());
    let rows = 4;
    let body = crate::support::rows(3, rows);
    let padded = " ".repeat(3 << 20) + &body;
    let reply = ask(&mut stream, "POST", &infer("m"), &padded).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert_eq!(reply.matches("3.0").count(), rows, "{reply}");
}

#[test]
fn a_port_without_tls_beside_those_that_have_it_answers_health_and_metrics_only() {
    let place = Place::new();
    let server = place.start(&[]);
    let metrics = server.address("metrics").unwrap();
    assert_eq!(Client::connect(metrics).get("/metrics").status, 200);
    assert_eq!(Client::connect(metrics).get("/v2/health/live").status, 200);
    assert_eq!(Client::connect(metrics).get("/ping").status, 200);
    for (method, path) in [("POST", "/v2/models/m/infer"), ("GET", "/v2/models/m"), ("GET", "/v2")]
    {
        let body = (method == "POST").then_some(&b"{}"[..]);
        let reply = Client::connect(metrics).request(method, path, &[], body);
        assert!(reply.error(403).contains("--http-tls-ports"), "{}", reply.text());
    }
}

#[test]
fn the_vertex_ai_port_is_entered_as_the_others_are() {
    let place = Place::new();
    let vertex_ai = [
        "--allow-vertex-ai=true",
        "--vertex-ai-port=0",
        "--vertex-ai-predict-route=/predict",
        "--vertex-ai-health-route=/health",
    ];
    let server = place.start(&vertex_ai);
    let address = server.address("vertex-ai").unwrap();
    let mut stream = connect(&place.authority.client(None), address);
    let reply = ask(&mut stream, "POST", "/predict", &row(5)).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("[5.0,"), "{reply}");

    let server = place.start(&[&vertex_ai[..], &["--http-tls-ports=http"]].concat());
    let address = server.address("vertex-ai").unwrap();
    Client::connect(address).get("/health").expect(200);
    let text = Client::connect(address).post("/predict", &[], row(5)).error(403);
    assert!(text.contains("--http-tls-ports"), "{text}");
    let index = [("x-vertex-ai-triton-redirect", "v2/repository/index")];
    Client::connect(address).post("/predict", &index, "{}").error(403);
}

#[test]
fn whoever_speaks_something_else_to_a_tls_port_is_cut_off_and_harms_nobody() {
    let place = Place::new();
    let server = place.start(&["--header-timeout-secs=0.2"]);
    let junk: [&[u8]; 5] = [
        b"GET /v2 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\xff\xff\x01",
        &[0; 4096],
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
    ];
    for bytes in junk {
        let mut client = Client::connect(server.http());
        client.send(bytes).unwrap();
        // At most an alert of TLS, never a reply of HTTP.
        let mut answer = Vec::new();
        let _ = client.stream().read_to_end(&mut answer);
        assert!(answer.len() < 64 && !answer.starts_with(b"HTTP"), "{answer:?}");
    }
    // Whoever says nothing has as long as for the head of a request.
    assert!(Client::connect(server.http()).is_closed());
    // And TLS to a plain port is no request.
    let mut stream = connect(&place.authority.client(None), server.address("metrics").unwrap());
    assert!(ask(&mut stream, "GET", "/v2/health/live", "").is_err());
    let mut stream = connect(&place.authority.client(None), server.http());
    let reply = ask(&mut stream, "POST", &infer("m"), &row(1)).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[test]
fn only_clients_of_the_authority_are_let_in_where_one_is_named() {
    let place = Place::new();
    let ca = format!("--http-tls-client-ca={}", place.file("ca"));
    let server = place.start(&[&ca]);
    let own = place.authority.sign();
    let stranger = Authority::new().sign();
    for (shown, good) in [(None, false), (Some(&stranger), false), (Some(&own), true)] {
        let mut stream = connect(&place.authority.client(shown), server.http());
        let reply = ask(&mut stream, "GET", "/v2/health/live", "");
        let answered = reply.as_ref().is_ok_and(|it| it.starts_with("HTTP/1.1 200"));
        assert_eq!(answered, good, "{reply:?}");
    }
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart_and_a_bad_one_is_not() {
    let place = Place::new();
    let server = place.start(&[]);
    let other = Authority::new();
    let trusts = |authority: &Authority| {
        let mut stream = connect(&authority.client(None), server.http());
        ask(&mut stream, "GET", "/v2/health/live", "").is_ok()
    };
    assert!(trusts(&place.authority) && !trusts(&other));
    // In between the key does not fit, which must not be noticed by anybody.
    place.renew(&other.sign());
    wait_for("the new certificate", || trusts(&other).then_some(()));
    assert!(!trusts(&place.authority));
    fs::write(place.file("key"), "nonsense").unwrap();
    assert!(trusts(&other));
}

#[test]
fn a_server_stops_while_somebody_does_not_finish_a_handshake() {
    let place = Place::new();
    let server = place.start(&["--header-timeout-secs=60"]);
    let _silent = Client::connect(server.http());
    let begun = std::time::Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed().as_secs() < 30);
}

#[test]
fn a_start_with_a_bad_file_names_the_option_the_file_and_the_problem() {
    let place = Place::new();
    let check = |file: &str, content: &str, parts: &[&str]| {
        let path = place.file(file);
        let good = fs::read(&path).unwrap();
        fs::write(&path, content).unwrap();
        let problem = place.problem();
        fs::write(&path, good).unwrap();
        for part in parts.iter().chain([&&*path]) {
            assert!(problem.contains(part), "no '{part}' in: {problem}");
        }
    };
    let other = place.authority.sign();
    check("cert", "", &["--http-tls-cert", "no certificate in it"]);
    check("cert", &other.key, &["--http-tls-cert", "no certificate in it"]);
    let torn = other.certificate.replace("-----END", "");
    check("cert", &torn, &["--http-tls-cert", "in PEM"]);
    check("key", "", &["--http-tls-key", "no private key in it"]);
    check("key", &other.key, &["--http-tls-key", "not that of the certificate"]);
    let sealed = other.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    check("key", &sealed, &["--http-tls-key", "without a passphrase"]);
    let empty = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    check("key", empty, &["--http-tls-key", "cannot be used"]);
    check("ca", "", &["--http-tls-client-ca", "no certificate in it"]);
    fs::remove_file(place.file("cert")).unwrap();
    assert!(place.problem().contains("the file cannot be read"), "{}", place.problem());
}

#[test]
fn the_health_command_asks_by_tls_whatever_the_certificate() {
    let place = Place::new();
    let server = place.start(&[]);
    let check = |address: SocketAddr, tls| HealthCheck {
        tls,
        host: address.ip().to_string(),
        port: address.port(),
        path: "/ping".to_owned(),
    };
    health::ask(&check(server.sagemaker(), true)).unwrap();
    let metrics = server.address("metrics").unwrap();
    health::ask(&check(metrics, false)).unwrap();
    assert!(health::ask(&check(server.sagemaker(), false)).is_err());
    assert!(health::ask(&check(metrics, true)).is_err());
}

#[test]
fn the_grpc_port_has_tls_on_switches_of_its_own_and_speaks_http_2() {
    let place = Place::new();
    let (cert, key, ca) = (place.file("cert"), place.file("key"), place.file("ca"));
    let flags = [
        format!("--grpc-server-cert={cert}"),
        format!("--grpc-server-key={key}"),
        format!("--grpc-root-cert={ca}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let own = place.authority.sign();
    for (switch, shown, good) in [
        ("--grpc-use-ssl=true", None, true),
        ("--grpc-use-ssl-mutual=true", None, false),
        ("--grpc-use-ssl-mutual=true", Some(&own), true),
    ] {
        let server = Server::start(&place.repository, &[&flags[..], &[switch]].concat());
        let mut config = Arc::unwrap_or_clone(place.authority.client(shown));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut stream = connect(&Arc::new(config), server.address("grpc").unwrap());
        // The opening words, and settings that change nothing; the server's settings are the answer.
        let greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        let mut frame = [0; 9];
        let greeted = stream.write_all(greeting).and_then(|()| stream.read_exact(&mut frame));
        assert_eq!(greeted.is_ok() && frame[3] == 4, good, "{switch}: {greeted:?} {frame:?}");
    }
}

/// Asks for health over gRPC and TLS: the message of the answer, and its status.
fn grpc_health(config: &Arc<ClientConfig>, address: SocketAddr) -> (Vec<u8>, String) {
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::post("https://localhost/grpc.health.v1.Health/Check")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (response, mut body) = client.send_request(request, false).unwrap();
        // An empty message: the health of the server as a whole.
        body.send_data(vec![0; 5].into(), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        let mut message = Vec::new();
        while let Some(data) = body.data().await {
            message.extend(data.unwrap());
        }
        let status = body.trailers().await.unwrap().unwrap()["grpc-status"].clone();
        (message, status.to_str().unwrap().to_owned())
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await.unwrap() })
}

#[test]
fn idle_connections_in_all_places_keep_neither_administration_nor_health_out_over_tls() {
    const PLACES: usize = 6;
    let place = Place::new();
    let (cert, key) = (place.file("cert"), place.file("key"));
    let flags = [
        format!("--max-connections={PLACES}"),
        "--grpc-use-ssl=true".to_owned(),
        format!("--grpc-server-cert={cert}"),
        format!("--grpc-server-key={key}"),
        EXPLICIT.to_owned(),
        "--load-model=m".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = place.start(&flags);
    let (http, grpc) = (server.http(), server.address("grpc").unwrap());
    let config = place.authority.client(None);
    let (mut idle, mut silent) = (Vec::new(), Vec::new());
    // All places are taken each time: by those that were answered, and by some that say nothing, not even of TLS.
    let mut take_all = || {
        for _ in 0..PLACES {
            let mut client = connect(&config, http);
            client.write_all(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            let mut reply = Vec::new();
            while !reply.ends_with(b"{\"live\":true}") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                reply.extend(byte);
            }
            idle.push(client);
        }
        silent.extend([http, grpc].map(|it| TcpStream::connect(it).unwrap()));
    };
    let load = "/v2/repository/models/m/load";
    for (method, path) in [("POST", load), ("GET", "/v2/health/ready"), ("GET", "/ping")] {
        take_all();
        let reply = ask(&mut connect(&config, http), method, path, "").unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{path}: {reply}");
    }
    take_all();
    // A field 1 with the value 1: SERVING.
    assert_eq!(grpc_health(&config, grpc), (vec![0, 0, 0, 0, 2, 8, 1], "0".to_owned()));
}

#[test]
fn without_tls_nothing_changes() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[]);
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
    let metrics = server.address("metrics").unwrap();
    assert_eq!(first_of(&Client::connect(metrics).post(&infer("m"), &[], row(2))), 2.0);
}
