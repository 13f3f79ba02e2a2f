//! Models by name that are held by digests: a file at an address with TLS, and lock files.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::support::{Finished, Process, Repository, ended, hub::Hub, root};

const PORTS: [&str; 5] = [
    "--http-port=0",
    "--grpc-port=0",
    "--sagemaker-port=0",
    "--metrics-port=0",
    "--http-address=127.0.0.1",
];

/// The file at the address, and its digest as `sha256sum` says it.
const FILE: &str = "tests/fixtures/models/scalar_one/1/model.onnx";

/// A hub whose files a host with TLS has, too, and the authority of its certificate.
pub(super) fn with_tls(place: &Repository) -> Option<Hub> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let host = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    fs::write(place.at("ca"), issuer.pem()).unwrap();
    fs::write(place.at("certificate"), host.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    fs::write(place.at("key"), key.serialize_pem()).unwrap();
    let hub = Hub::with_tls(&place.at("certificate"), &place.at("key"))?;
    hub.put("org/net/fraud.onnx", root(FILE).to_str().unwrap());
    Some(hub)
}

pub(super) fn sha256(path: &str) -> String {
    use ring::digest::{SHA256, digest};
    let digest = digest(&SHA256, &fs::read(path).unwrap());
    digest.as_ref().iter().map(|it| format!("{it:02x}")).collect()
}

/// `muster` with these arguments, a cache of its own, and the authority.
fn muster(hub: &Hub, place: &Repository, args: &[&str]) -> Process {
    let (ca, copies) =
        (place.at("ca"), format!("--model-repository-cache-dir={}", place.at("copies")));
    hub.muster(place, &[args, &[&*copies]].concat(), &[("SSL_CERT_FILE", &ca)])
}

#[test]
fn a_file_at_an_address_is_served_by_its_digest_and_fetched_once() {
    let place = Repository::new();
    let Some(hub) = with_tls(&place) else { return };
    let digest = sha256(root(FILE).to_str().unwrap());
    let address = format!("https://localhost:{}/org/net/fraud.onnx", hub.tls_port);
    let name = format!("{address}?signature=swordfish#sha256={digest}");
    // It breaks off once, and nobody has said before how long it is.
    let cut = json!([{"path": "GET files", "times": 1, "fault": "cut", "bytes": 50}]);
    hub.fail(cut);
    let mut server = muster(&hub, &place, &[&["serve", &*name][..], &PORTS].concat());
    server.wait_ready();
    let index = server.client().post("/v2/repository/index", &[], "").expect(200).json();
    assert_eq!((&index[0]["name"], &index[0]["state"]), (&json!("fraud"), &json!("READY")));
    let ranges: Vec<_> = hub.asked().into_iter().map(|it| it.2).collect();
    assert_eq!(ranges, [None, Some("bytes=50-".to_owned())]);
    let log = server.log().join("\n");
    assert!(!log.contains("swordfish"), "{log}");
    drop(server);
    hub.fail(json!([]));
    ended(muster(&hub, &place, &["pull", &name]), 0, &["/fraud.onnx"]);
    assert_eq!(hub.asked(), []);

    // Another content, another authority, and what is no such name.
    let other = format!("{address}#sha256={}", "0".repeat(64));
    ended(muster(&hub, &place, &["pull", &other]), 1, &["its content has sha256:", &digest]);
    let missing = format!("https://localhost:{}/org/net/none.onnx#sha256={digest}", hub.tls_port);
    let fresh = Repository::new();
    fs::copy(place.at("key"), fresh.at("ca")).unwrap();
    ended(muster(&hub, &fresh, &["pull", &missing]), 1, &["SSL_CERT_FILE"]);
    ended(muster(&hub, &place, &["pull", &address]), 1, &["#sha256=<64 hexadecimal digits>"]);
    let pickle = format!("https://localhost/model.pkl#sha256={digest}");
    ended(muster(&hub, &place, &["pull", &pickle]), 1, &["ends in one of .onnx"]);
}

#[test]
fn a_lock_file_holds_a_revision_and_its_digests_until_it_is_updated() {
    let Some(hub) = Hub::with_text_model() else { return };
    let place = Repository::new();
    let lock = format!("--lock-file={}", place.at("muster.lock"));
    let serve = |place: &Repository| {
        hub.muster(place, &[&["serve", "org/sst2", &*lock][..], &PORTS].concat(), &[])
    };
    ended(serve(&place), 1, &["has no such model", "muster pull hf://org/sst2 --lock-file="]);
    let first = ended(hub.muster(&place, &["pull", "org/sst2", &lock], &[]), 0, &["/snapshots/"]);
    let read =
        || serde_json::from_str::<Value>(&fs::read_to_string(place.at("muster.lock")).unwrap());
    let pinned = read().unwrap();
    let model = &pinned["models"]["hf://org/sst2"];
    let digest = sha256(&hub.models.at("org/sst2/onnx/model.onnx"));
    assert_eq!(model["files"]["onnx/model.onnx"], format!("sha256:{digest}"));
    assert_eq!(model["files"].as_object().unwrap().len(), 4);
    let directory = |it: &Finished| it.log.iter().find(|it| it.starts_with('/')).unwrap().clone();
    assert!(directory(&first).ends_with(model["revision"].as_str().unwrap()));

    // The branch moves on: what is in the file is served, and nobody is asked for it.
    let config = fs::read_to_string(hub.models.at("org/sst2/config.json")).unwrap();
    hub.write("org/sst2/config.json", format!("{config}\n").as_bytes());
    hub.fail(json!([]));
    let mut server = serve(&place);
    server.wait_ready();
    drop(server);
    let again = ended(hub.muster(&place, &["pull", "org/sst2", &lock], &[]), 0, &[]);
    assert_eq!((directory(&again), hub.asked()), (directory(&first), Vec::new()));
    // Another machine finds that the revision is gone, and takes no other.
    ended(serve(&Repository::new()), 1, &["Invalid rev id"]);

    let update = ["pull", "org/sst2", &*lock, "--update"];
    let moved = ended(hub.muster(&place, &update, &[]), 0, &[]);
    assert_ne!(directory(&moved), directory(&first));
    // A hub with another content under the same revision.
    let text = fs::read_to_string(place.at("muster.lock")).unwrap();
    fs::write(place.at("muster.lock"), text.replace(&digest, &"0".repeat(64))).unwrap();
    hub.fail(json!([]));
    ended(serve(&Repository::new()), 1, &["its file 'onnx/model.onnx' has", "in the lock file"]);
    assert_eq!(hub.fetched(), [""; 0]);
    ended(
        hub.muster(&place, &["pull", "org/sst2", "--update"], &[]),
        1,
        &["name it with --lock-file"],
    );
}
