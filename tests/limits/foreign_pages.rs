//! Requests that a browser makes for a page of another site: what changes the server is refused to them.

use crate::support::{Reply, Repository, Server};

const FOREIGN: [(&str, &str); 2] =
    [("origin", "http://elsewhere.example"), ("content-type", "text/plain")];

#[track_caller]
fn check(server: &Server, method: &str, path: &str, body: &str) {
    for port in [server.http(), server.sagemaker()] {
        let mut client = crate::support::Client::connect(port);
        let reply = client.request(method, path, &FOREIGN, Some(body.as_bytes()));
        let error = reply.text();
        assert_eq!(reply.status, 403, "{method} {path}: {error}");
        assert!(error.contains("header origin: expected a page of this server's own"), "{error}");
        assert!(error.contains("given 'http://elsewhere.example'"), "{error}");
    }
}

#[test]
fn what_changes_the_server_is_refused_to_pages_of_other_sites() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &["--model-control-mode=explicit", "--load-model=m"]);
    for path in [
        "/v2/repository/models/m/load",
        "/v2/repository/models/m/unload",
        "/v2/logging",
        "/v2/trace/setting",
        "/v2/models/m/trace/setting",
        "/v2/systemsharedmemory/region/r/register",
        "/v2/systemsharedmemory/unregister",
        "/v2/cudasharedmemory/region/r/register",
    ] {
        check(&server, "POST", path, "{}");
    }
    server.get("/v2/models/m/ready").expect(200);
    // Reading and inference are what they were.
    let mut client = server.client();
    client.post("/v2/repository/index", &FOREIGN, "{}").expect(200);
    client.post(&crate::support::infer("m"), &FOREIGN[..1], crate::support::row(1)).expect(200);
    // A page of the server's own, and programs that are no browsers.
    let host = server.http();
    let own = format!(
        "POST /v2/repository/models/m/unload HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\n\
         content-length: 0\r\n\r\n"
    );
    client.send(own).unwrap();
    client.reply().expect(200);
    server.post("/v2/repository/models/m/load", "").expect(200);
}

/// A name that leads to this machine may belong to anybody: a page of its own is then a page of another site.
#[test]
fn a_page_of_a_name_that_leads_here_changes_nothing_unless_the_name_is_the_servers() {
    let repository = Repository::identity("m", &[]);
    let start = |more: &[&str]| {
        let flags = ["--model-control-mode=explicit", "--load-model=m"];
        Server::start(&repository, &[&flags[..], more].concat())
    };
    let unload = |server: &Server, name: &str| {
        let mut client = server.client();
        let host = format!("{name}:{}", server.http().port());
        let head = format!(
            "POST /v2/repository/models/m/unload HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\n\
             content-length: 0\r\n\r\n"
        );
        client.send(head).unwrap();
        client.reply()
    };
    let server = start(&[]);
    let error = unload(&server, "rebound.example").error(403);
    assert!(error.contains("header host: expected an address, localhost or a name"), "{error}");
    assert!(error.contains("given 'rebound.example:"), "{error}");
    server.get("/v2/models/m/ready").expect(200);
    unload(&server, "localhost").expect(200);
    let server = start(&["--allowed-hosts=models.example"]);
    unload(&server, "rebound.example").error(403);
    unload(&server, "models.example").expect(200);
}

#[test]
fn models_of_a_platform_are_neither_loaded_nor_unloaded_for_pages_of_other_sites() {
    let repository = Repository::identity("a", &[]);
    let server = crate::support::multi_model::start(&repository, &[]);
    check(&server, "POST", "/models", "{\"model_name\":\"k\",\"url\":\"/tmp\"}");
    check(&server, "DELETE", "/models/k", "");
}

#[test]
fn pages_that_are_named_read_replies_and_change_nothing() {
    let repository = Repository::identity("m", &[]);
    let page = "https://app.example";
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let start = |more: &[&str]| Server::start(&repository, &[&flags[..], more].concat());
    let server = start(&["--cors-allow-origin=http://localhost:3000,https://app.example"]);
    let mut client = server.client();
    let path = crate::support::infer("m");
    let allowed = |reply: &Reply| reply.header("access-control-allow-origin").map(str::to_owned);
    let reply = client.post(&path, &[("origin", page)], crate::support::row(1)).expect(200);
    assert_eq!(allowed(&reply).as_deref(), Some(page));
    assert_eq!(reply.header("vary"), Some("origin"));
    let exposed = reply.header("access-control-expose-headers").unwrap();
    for name in ["x-request-id", "server-timing"] {
        assert!(exposed.split(", ").any(|it| it == name), "{exposed}");
    }
    // A failure is read, too, and so is an unknown address.
    for (path, status) in [(&*path, 400), ("/nothing", 404)] {
        let reply = client.post(path, &[("origin", page)], "{").expect(status);
        assert_eq!(allowed(&reply).as_deref(), Some(page));
    }
    for origin in ["https://evil.example", "null"] {
        let reply = client.post(&path, &[("origin", origin)], crate::support::row(1)).expect(200);
        assert_eq!((allowed(&reply), reply.header("vary")), (None, Some("origin")));
    }
    let unload = "/v2/repository/models/m/unload";
    let error = client.post(unload, &[("origin", page)], "{}").error(403);
    assert!(error.contains("header origin"), "{error}");
    let server = start(&["--cors-allow-origin=*"]);
    assert_eq!(allowed(&server.get("/v2")).as_deref(), Some("*"));
    let server = start(&[]);
    let reply = server.client().request("GET", "/v2", &[("origin", page)], None);
    assert_eq!((allowed(&reply), reply.header("vary")), (None, None));
}

#[test]
fn a_browser_learns_without_a_token_what_a_page_may_send() {
    let repository = Repository::identity("m", &[]);
    let page = ("origin", "https://app.example");
    let server = Server::start(
        &repository,
        &["--api-key=a-key-of-some-length", "--cors-allow-origin=https://app.example"],
    );
    let mut client = server.client();
    let path = crate::support::infer("m");
    let fields = "authorization,content-type,inference-header-content-length";
    let asked = [
        page,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", fields),
    ];
    let reply = client.request("OPTIONS", &path, &asked, None).expect(204);
    assert_eq!(reply.header("access-control-allow-origin"), Some(page.1));
    assert_eq!(reply.header("access-control-allow-methods"), Some("POST"));
    assert_eq!(reply.header("access-control-allow-headers"), Some(fields));
    assert!(reply.header("access-control-max-age").is_some());
    assert_eq!(reply.header("content-length"), None);
    // The request itself needs its token, and the page reads that it does.
    let reply = client.post(&path, &[page], crate::support::row(1)).expect(401);
    assert_eq!(reply.header("access-control-allow-origin"), Some(page.1));
    // Another page, and what is no browser.
    let asked = [("origin", "https://evil.example"), asked[1], asked[2]];
    let reply = client.request("OPTIONS", &path, &asked, None).expect(204);
    assert_eq!(reply.header("access-control-allow-methods"), None);
    for (path, methods) in [
        (&*path, "POST, OPTIONS"),
        ("/v2", "GET, HEAD, OPTIONS"),
        ("*", "GET, HEAD, POST, DELETE, OPTIONS"),
        ("/v2/logging", "GET, HEAD, POST, OPTIONS"),
    ] {
        let reply = client.request("OPTIONS", path, &[], None).expect(204);
        assert_eq!(reply.header("allow"), Some(methods), "{path}");
    }
}

#[test]
fn pages_that_are_named_open_websockets() {
    use crate::support::websocket::{PATH, Socket, upgrade};
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &["--cors-allow-origin=https://app.example"]);
    let page = [("origin", "https://app.example")];
    let mut socket = Socket::connect(server.sagemaker(), PATH, &page);
    assert!(socket.ask(&crate::support::row(1)).contains("outputs"));
    let mut client = crate::support::Client::connect(server.sagemaker());
    client.send(upgrade(PATH, &[("origin", "https://evil.example")])).unwrap();
    client.reply().error(403);
}
