//! Who may make which call: the same tokens as over HTTP, and Triton's restricted protocols.

use std::fs;

use frontend::grpc::proto::RepositoryModelLoadRequest;
use tonic::{Code, Request, metadata::MetadataKey};

use crate::support::{
    Repository, Server,
    grpc::{Client, identity},
};

const INFERENCE: &str = "inference-token-0123456789";
const ADMIN: &str = "admin-token-0123456789";

/// Every call, its category, and whether it takes an administrator.
const CALLS: &[(&str, &str, bool)] = &[
    ("ServerLive", "health", false),
    ("ServerReady", "health", false),
    ("ModelReady", "health", false),
    ("ServerMetadata", "metadata", false),
    ("ModelMetadata", "metadata", false),
    ("ModelInfer", "inference", false),
    ("ModelStreamInfer", "inference", false),
    ("ModelConfig", "model-config", false),
    ("ModelStatistics", "statistics", false),
    ("RepositoryIndex", "model-repository", false),
    ("RepositoryModelLoad", "model-repository", true),
    ("RepositoryModelUnload", "model-repository", true),
    ("SystemSharedMemoryStatus", "shared-memory", false),
    ("SystemSharedMemoryRegister", "shared-memory", true),
    ("SystemSharedMemoryUnregister", "shared-memory", true),
    ("CudaSharedMemoryStatus", "shared-memory", false),
    ("CudaSharedMemoryRegister", "shared-memory", true),
    ("CudaSharedMemoryUnregister", "shared-memory", true),
    ("TraceSetting", "trace", true),
    ("LogSettings", "logging", true),
];

/// How a call with an empty message ends.
fn code(client: &mut Client, call: &str, metadata: &[(&str, &str)]) -> Code {
    let mut request = Request::new(());
    for (key, value) in metadata {
        let key = MetadataKey::from_bytes(key.as_bytes()).unwrap();
        request.metadata_mut().insert(key, value.parse().unwrap());
    }
    let path = format!("inference.GRPCInferenceService/{call}");
    let outcome: Result<(), _> = client.call_with(&path, request);
    outcome.map_or_else(|status| status.code(), |()| Code::Ok)
}

#[test]
fn every_call_asks_for_its_token() {
    let (repository, files) = (Repository::identity("m", &[]), Repository::new());
    let path = files.at("tokens");
    fs::write(&path, format!("inference {INFERENCE}\nadmin {ADMIN}\n")).unwrap();
    let server = Server::start(&repository, &[&format!("--auth-tokens-file={path}")]);
    let mut client = Client::new(&server);
    for (call, category, admin) in CALLS {
        let open = *category == "health";
        for wrong in [&[][..], &[("authorization", "Bearer x")], &[("x-api-key", "")]] {
            let code = code(&mut client, call, wrong);
            assert_eq!(code == Code::Unauthenticated, !open, "{call} {wrong:?}: {code:?}");
        }
        let bearer = format!("Bearer {INFERENCE}");
        let as_user = code(&mut client, call, &[("authorization", &bearer)]);
        assert_eq!(as_user == Code::PermissionDenied, *admin, "{call}: {as_user:?}");
        let as_admin = code(&mut client, call, &[("x-api-key", ADMIN)]);
        for given in [as_user, as_admin] {
            assert!(given != Code::Unauthenticated, "{call}");
        }
        assert!(as_admin != Code::PermissionDenied, "{call}");
    }
}

#[test]
fn a_restricted_protocol_needs_its_key_and_is_unavailable_without_it() {
    let repository = Repository::identity("m", &[]);
    for restricted in ["health", "metadata", "model-config", "statistics", "shared-memory"] {
        let flag = format!("--grpc-restricted-protocol={restricted}:Admin-Key=let=me");
        let server = Server::start(&repository, &[&flag]);
        let mut client = Client::new(&server);
        let key = "triton-grpc-protocol-admin-key";
        let right = [(key, "let=me")];
        for (call, category, _) in CALLS.iter().filter(|it| it.1 != "inference") {
            let of = *category == restricted;
            let plain = code(&mut client, call, &right);
            for wrong in [&[][..], &[(key, "let=m")], &[("admin-key", "let=me")]] {
                let given = code(&mut client, call, wrong);
                let expect = if of { Code::Unavailable } else { plain };
                assert_eq!(given, expect, "{restricted}: {call} with {wrong:?}");
            }
            assert!(!of || plain != Code::Unavailable || category == &"model-repository", "{call}");
        }
        // HTTP has restrictions of its own.
        assert_eq!(server.get("/v2/models/m").status, 200);
    }
}

/// The host is in `:authority`.
#[test]
fn pages_change_the_server_only_where_they_are_of_its_own_address_or_name() {
    let repository = Repository::identity("m", &[]);
    let flags = ["--model-control-mode=explicit", "--allowed-hosts=models.example"];
    let server = Server::start(&repository, &flags);
    let address = server.address("grpc").unwrap();
    let load = |authority: &str, origin: &str| {
        let mut client = Client::of_authority(address, authority);
        let load = RepositoryModelLoadRequest { model_name: "m".to_owned(), ..Default::default() };
        let mut request = Request::new(load);
        request.metadata_mut().insert("origin", origin.parse().unwrap());
        let path = "inference.GRPCInferenceService/RepositoryModelLoad";
        let outcome: Result<(), _> = client.call_with(path, request);
        outcome
            .map_or_else(|it| (it.code(), it.message().to_owned()), |()| (Code::Ok, String::new()))
    };
    let own = address.to_string();
    let (code, text) = load(&own, "http://elsewhere.example");
    assert!(code == Code::PermissionDenied && text.contains("header origin"), "{text}");
    let (code, text) = load("rebound.example:1", "http://rebound.example:1");
    assert!(code == Code::PermissionDenied && text.contains("header host"), "{text}");
    assert_eq!(load(&own, &format!("http://{own}")), (Code::Ok, String::new()));
    assert_eq!(load("models.example", "https://models.example"), (Code::Ok, String::new()));
}

#[test]
fn metadata_of_reserved_names_are_not_forwarded() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &["--grpc-header-forward-pattern=^(x-|priority)"]);
    let mut client = Client::new(&server);
    let request = identity("m", &[1.0, 2.0, 3.0, 4.0]);
    let mut ask = |key: &'static str| {
        let mut request = Request::new(request.clone());
        request.metadata_mut().insert(key, "1".parse().unwrap());
        let path = "inference.GRPCInferenceService/ModelInfer";
        let outcome: Result<(), _> = client.call_with(path, request);
        outcome.map_or_else(
            |status| (status.code(), status.message().to_owned()),
            |()| (Code::Ok, String::new()),
        )
    };
    assert_eq!(ask("x-user").0, Code::Ok);
    assert_eq!(ask("timeout").0, Code::Ok);
    let (code, text) = ask("priority");
    assert!(code == Code::InvalidArgument && text.contains("reserved"), "{code:?} {text}");
}
