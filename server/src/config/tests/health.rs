//! Facts about the address that `muster health` asks.

use super::*;

/// The address that `muster health` asks, in a container that was started with `first_process`.
fn asked(first_process: &'static str, args: &str, variables: &[&str]) -> Result<String, String> {
    let variables = variables.iter().filter_map(|it| it.split_once('='));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let fake = Fake { variables, paths: Vec::new(), first_process };
    let args = ["muster", "health"].into_iter().chain(args.split(' ').filter(|it| !it.is_empty()));
    match read(args.map(OsString::from), &fake, &machine()) {
        Ok(Command::Health(check)) => Ok(check.to_string()),
        Ok(other) => panic!("expected a health check, found {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn health_is_asked_where_the_environment_lets_the_server_listen() {
    for (variables, expect) in [
        (&[][..], "http://127.0.0.1:8080/ping"),
        (&["SAGEMAKER_BIND_TO_PORT=9001"], "http://127.0.0.1:9001/ping"),
        // A platform's server has this port alone, so this is no clash.
        (&["SAGEMAKER_BIND_TO_PORT=8000"], "http://127.0.0.1:8000/ping"),
        (&["MUSTER_HTTP_ADDRESS=10.0.0.7"], "http://10.0.0.7:8080/ping"),
        (&["MUSTER_HTTP_ADDRESS=::"], "http://[::1]:8080/ping"),
        (&["MUSTER_ALLOW_SAGEMAKER=0"], "http://127.0.0.1:8000/v2/health/ready"),
        (
            &["MUSTER_ALLOW_SAGEMAKER=0", "MUSTER_HTTP_PORT=81"],
            "http://127.0.0.1:81/v2/health/ready",
        ),
        (
            &["MUSTER_ALLOW_SAGEMAKER=0", "MUSTER_ALLOW_HTTP=0"],
            "http://127.0.0.1:8002/v2/health/ready",
        ),
    ] {
        assert_eq!(asked("", "", variables).as_deref(), Ok(expect), "{variables:?}");
    }
}

#[test]
fn the_health_check_goes_to_the_address_of_the_first_process() {
    let variables = ["MUSTER_SAGEMAKER_PORT=1"];
    for (first, args, expect) in [
        ("/muster serve --sagemaker-port 9000", "", 9000),
        ("/muster --sagemaker-port=9000", "", 9000),
        ("/sbin/docker-init -- /muster serve --sagemaker-port 9000", "", 9000),
        ("/muster serve --sagemaker-port 9000", "--sagemaker-port 9001", 9001),
        ("/muster serve", "", 1),
        ("/muster health --sagemaker-port 9000", "", 1),
        ("/sbin/init", "", 1),
        ("/bin/other --sagemaker-port 9000", "", 1),
    ] {
        let expect = format!("http://127.0.0.1:{expect}/ping");
        assert_eq!(asked(first, args, &variables), Ok(expect), "{first}, {args}");
    }
}

#[test]
fn health_is_asked_at_the_port_that_is_typed_beside_it() {
    let http = "http://127.0.0.1:81/v2/health/ready";
    assert_eq!(asked("", "--http-port 81", &[]).as_deref(), Ok(http));
    let sagemaker = asked("", "--http-port 81 --sagemaker-port 82", &[]);
    assert_eq!(sagemaker.as_deref(), Ok("http://127.0.0.1:82/ping"));
}

#[test]
fn the_health_check_goes_to_the_given_address() {
    for (url, expect) in [
        ("http://h:9000", "http://h:9000/ping"),
        ("http://h/", "http://h:80/"),
        ("https://h", "https://h:443/ping"),
        ("http://[::1]:81/v2/health/live", "http://[::1]:81/v2/health/live"),
    ] {
        let found = asked("/muster --sagemaker-port 7", &format!("--url {url}"), &[]);
        assert_eq!(found.as_deref(), Ok(expect), "{url}");
    }
}

#[test]
fn health_is_asked_by_tls_where_the_server_has_it_and_asks_for_no_certificate() {
    let tls = "--http-tls-cert=a --http-tls-key=b";
    for (args, expect) in [
        ("", "https://127.0.0.1:8080/ping"),
        ("--http-tls-ports=http", "http://127.0.0.1:8080/ping"),
        ("--http-port=1", "https://127.0.0.1:1/v2/health/ready"),
        ("--http-tls-client-ca=c", "http://127.0.0.1:8002/v2/health/ready"),
    ] {
        let found = asked("", &format!("{tls} {args}"), &[]);
        assert_eq!(found.as_deref(), Ok(expect), "{args}");
    }
    let args = format!("{tls} --http-tls-client-ca=c --allow-metrics=false");
    assert!(asked("", &args, &[]).unwrap_err().contains("a certificate of its clients"));
}

#[test]
fn health_that_cannot_be_asked_says_why() {
    for (args, parts) in [
        ("--url h:1", ["--url 'h:1'", "expected http://<host>"]),
        ("--url http://h:x", ["--url 'http://h:x'", "expected http://<host>"]),
        ("--sagemaker-port x", ["--sagemaker-port 'x'", "expected a port"]),
        ("--sagemaker-port 0", ["any free one", "--url"]),
        ("--colour", ["unknown option --colour", "--help"]),
    ] {
        let error = asked("", args, &[]).unwrap_err();
        for part in parts.into_iter().chain(["the server cannot be asked: "]) {
            assert!(error.contains(part), "{args}: no '{part}' in {error}");
        }
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let off = ["MUSTER_ALLOW_SAGEMAKER=0", "MUSTER_ALLOW_HTTP=0", "MUSTER_ALLOW_METRICS=0"];
    assert!(asked("", "", &off).unwrap_err().contains("these services are off"));
}
