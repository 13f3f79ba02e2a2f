//! Facts about settings of gRPC: its ports, its TLS, its connections.

use super::*;
use frontend::settings::{Compression, ConnectionAge, PemFile, TlsFiles};

#[test]
fn grpc_is_served_unless_a_platform_wants_one_port_or_it_is_configured() {
    let port = |args: &str, variables: &[&str]| config(args, variables).listeners.grpc;
    assert_eq!(port("", &[]), socket("127.0.0.1:8001"));
    assert_eq!(port("--http-address ::1", &[]), socket("[::1]:8001"));
    assert_eq!(port("--allow-grpc=false", &[]), None);
    let platform = ["SAGEMAKER_BIND_TO_PORT=8080"];
    assert_eq!(port("serve", &platform), None);
    assert_eq!(port("serve --grpc-port 9", &platform), socket("0.0.0.0:9"));
    assert_eq!(port("serve --allow-grpc true", &platform), socket("0.0.0.0:8001"));
}

#[test]
fn grpc_is_served_on_the_port_of_tensorflow_serving_where_that_is_configured() {
    let port = |args: &str, variables: &[&str]| config(args, variables).listeners.tfs_grpc;
    assert_eq!(port("", &[]), None);
    assert_eq!(port("--allow-tfs-grpc=true", &[]), socket("127.0.0.1:8500"));
    assert_eq!(port("--tfs-grpc-port=9", &[]), socket("127.0.0.1:9"));
    assert_eq!(port("--tfs-grpc-port=9 --allow-tfs-grpc=false", &[]), None);
    let addresses = "--allow-tfs-grpc=true --grpc-address ::1";
    assert_eq!(port(addresses, &[]), socket("[::1]:8500"));
    let own = format!("{addresses} --tfs-grpc-address 127.0.0.1");
    assert_eq!(port(&own, &[]), socket("127.0.0.1:8500"));
    let platform = ["SAGEMAKER_BIND_TO_PORT=8080"];
    assert_eq!(port("serve", &platform), None);
    assert_eq!(port("serve --allow-tfs-grpc true", &platform), socket("0.0.0.0:8500"));
    check_refused("--tfs-grpc-port 8001", &[], &["gRPC", "TensorFlow gRPC", "port 8001"]);
}

#[test]
fn tls_of_grpc_needs_its_files_and_files_need_tls() {
    let files = "--grpc-server-cert c --grpc-server-key k --grpc-root-cert r";
    let tls = |args: &str| config(&format!("{args} {files}"), &[]).grpc.tls;
    assert_eq!(tls(""), None);
    let file = |option, path: &str| PemFile { option, path: path.into() };
    let (certificate, key) = (file("grpc-server-cert", "c"), file("grpc-server-key", "k"));
    let plain = TlsFiles { certificate, key, client_ca: None };
    assert_eq!(tls("--grpc-use-ssl=true"), Some(plain.clone()));
    let mutual = TlsFiles { client_ca: Some(file("grpc-root-cert", "r")), ..plain };
    assert_eq!(tls("--grpc-use-ssl-mutual=1"), Some(mutual));
    assert!(notices(&config(files, &[])).contains("not used"));
    check_refused(
        "--grpc-use-ssl=1 --grpc-server-cert c",
        &[],
        &["--grpc-use-ssl needs --grpc-server-key"],
    );
    check_refused(
        "--grpc-use-ssl-mutual=1 --grpc-server-cert c --grpc-server-key k",
        &[],
        &["--grpc-use-ssl-mutual needs --grpc-root-cert"],
    );
}

#[test]
fn what_is_said_of_grpc_connections_is_read_and_what_is_wrong_is_refused() {
    let said = config("--grpc-max-connection-age 2147483647 --grpc-keepalive-time 500", &[]).grpc;
    let age = ConnectionAge { most: Duration::from_millis(2147483647), grace: None };
    assert_eq!((said.age, said.keepalive.time), (Some(age), Duration::from_millis(500)));
    assert_eq!(config("--grpc-max-connection-age 0", &[]).grpc.age, None);
    let level = "--grpc-infer-response-compression-level";
    assert_eq!(config(&format!("{level} High"), &[]).grpc.compression, Compression::High);
    check_refused(&format!("{level} best"), &[], &["'best'", "none, low, medium or high"]);
    check_refused("--grpc-max-concurrent-streams 0", &[], &["'0'", "from 1 to 65536"]);
}
