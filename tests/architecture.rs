//! Who may import whom, and which words belong to which place. An edge that is not listed here is a failure;
//! so is one that is listed and does not exist any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The modules of the server, lowest first, and what each uses of the others. `test_only` code may use more.
const MODULES: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("identifier", &[]),
    ("signature", &[]),
    ("textproto", &["signature"]),
    ("machine", &[]),
    ("metrics", &["machine"]),
    ("aligned", &[]),
    ("drain", &[]),
    ("limits", &["error"]),
    ("access", &["error"]),
    ("config", &["access", "machine", "signature", "textproto"]),
    ("logging", &["config", "signature"]),
    ("health", &["config"]),
    ("trace", &["config", "error", "signature"]),
    ("request", &["trace"]),
    ("sessions", &["request"]),
    ("schedule", &["error", "metrics", "request"]),
    ("stores", &["config"]),
    (
        "models",
        &[
            "config",
            "error",
            "machine",
            "metrics",
            "request",
            "schedule",
            "signature",
            "stores",
            "textproto",
        ],
    ),
    ("cache", &["config", "metrics"]),
    ("infer", &["cache", "error", "metrics", "models", "request", "schedule", "trace"]),
    ("capture", &["config", "identifier", "limits"]),
    ("emf", &["config", "machine", "metrics", "models"]),
    ("protocol", &["config", "error", "logging", "metrics", "request", "signature"]),
    ("memory", &["error"]),
    ("net", &["config", "drain", "error", "limits"]),
    (
        "serving",
        &[
            "drain", "error", "infer", "limits", "logging", "memory", "metrics", "models", "net",
            "trace",
        ],
    ),
    ("shared", &["error", "limits", "memory", "net", "protocol", "request"]),
    ("tensorflow", &["error", "models", "protocol"]),
    (
        "http",
        &[
            "access",
            "aligned",
            "capture",
            "config",
            "drain",
            "emf",
            "error",
            "identifier",
            "limits",
            "logging",
            "memory",
            "metrics",
            "models",
            "net",
            "protocol",
            "request",
            "serving",
            "sessions",
            "shared",
            "signature",
            "stores",
            "tensorflow",
            "trace",
        ],
    ),
    (
        "grpc",
        &[
            "access",
            "aligned",
            "config",
            "drain",
            "error",
            "limits",
            "logging",
            "memory",
            "metrics",
            "models",
            "net",
            "protocol",
            "request",
            "serving",
            "shared",
            "signature",
            "tensorflow",
            "trace",
        ],
    ),
    (
        "app",
        &[
            "access",
            "cache",
            "capture",
            "config",
            "drain",
            "emf",
            "grpc",
            "http",
            "infer",
            "limits",
            "logging",
            "machine",
            "memory",
            "metrics",
            "models",
            "net",
            "protocol",
            "schedule",
            "serving",
            "signature",
            "stores",
            "trace",
        ],
    ),
];

/// Crates and paths that belong to some places only. Places are files or folders under the repository's root.
const WORDS: &[(&str, &[&str])] = &[
    ("hyper::", &["server/frontend/src/http", "server/frontend/src/grpc"]),
    ("h2::", &["server/frontend/src/grpc"]),
    ("hyper_util::", &["server/frontend/src/http"]),
    ("http_body_util::", &["server/frontend/src/http"]),
    ("socket2::", &["server/frontend/src/net"]),
    (
        "prost::",
        &[
            "server/textproto/src",
            "server/models/src/pbtxt",
            "server/frontend/src/grpc",
            "server/protocol/src/recordio",
            "server/inference/src/trace",
        ],
    ),
    (
        "prost_reflect::",
        &[
            "server/textproto/src",
            "server/models/src/pbtxt",
            "server/frontend/src/grpc/handlers/reflection.rs",
            "server/frontend/src/grpc/handlers/versions.rs",
        ],
    ),
    (
        "serde_json::",
        &[
            "server/models/src/pbtxt",
            "server/models/src/stores/credentials.rs",
            "server/telemetry/src/capture",
            "server/frontend/src/emf",
            "server/loadgen",
        ],
    ),
    ("chrono::", &["server/telemetry/src/capture"]),
    ("object_store::", &["server/models/src/stores"]),
    ("futures_util::", &["server/models/src/stores"]),
    ("md5::", &["server/models/src/stores", "server/models/src/agents.rs"]),
    ("prometheus::", &["server/telemetry/src/metrics"]),
    ("nvml_wrapper::", &["server/machine/src/gpus/nvml.rs"]),
    (
        "arc_swap::",
        &[
            "server/inference/src/access/tokens.rs",
            "server/models/src/ensemble/mod.rs",
            "server/models/src/labels.rs",
            "server/models/src/manager.rs",
            "server/frontend/src/net/tls.rs",
            "server/inference/src/trace/mod.rs",
        ],
    ),
    ("tokio_rustls::", &["server/src/health/tls.rs", "server/frontend/src/net/tls.rs"]),
    (
        "ring::",
        &[
            "server/inference/src/identifier.rs",
            "server/inference/src/access/secret.rs",
            "server/src/health/tls.rs",
            "server/frontend/src/http/handlers/websocket.rs",
            "server/frontend/src/http/sessions.rs",
            "server/frontend/src/net/tls.rs",
        ],
    ),
    (
        "flate2::",
        &[
            "server/frontend/src/grpc/compress.rs",
            "server/frontend/src/http/compress.rs",
            "server/frontend/src/http/decompress.rs",
            "server/protocol/src/npz/zip.rs",
        ],
    ),
    ("crc32fast::", &["server/protocol/src/eventstream.rs"]),
    ("subtle::", &["server/inference/src/access/secret.rs"]),
    ("regex::", &["server/inference/src/access/forward.rs"]),
    ("blake3::", &["server/models/src/cache/key.rs", "server/models/src/fingerprint.rs"]),
    ("clap::", &["server/configuration/src", "server/src/main.rs", "server/loadgen"]),
    ("tracing_subscriber::", &["server/telemetry/src/logging"]),
    ("mio::", &["server/loadgen"]),
    ("ort::", &["backends/onnxruntime"]),
    ("libloading::", &["backends/pytorch/src/native"]),
    ("onnxruntime::", &["server/src/main.rs"]),
    ("pytorch::", &["server/src/main.rs"]),
    ("identity::", &["server/src/main.rs"]),
    (
        "tokio::",
        &[
            "server/frontend/src/http",
            "server/frontend/src/grpc",
            "server/frontend/src/net",
            "server/schedule/src",
            "server/models/src/control/demand.rs",
            "server/models/src/cache/redis",
            "server/models/src/stores",
            "server/src/app.rs",
            "server/src/app/hosting.rs",
            "server/src/app/refresh.rs",
            "server/frontend/src/drain.rs",
            "server/src/main.rs",
            "server/frontend/src/shared.rs",
            "server/src/signals.rs",
        ],
    ),
    (
        "env::",
        &[
            "server/configuration/src/environment.rs",
            "server/src/main.rs",
            "backends/onnxruntime/src",
            "backends/pytorch/src/library.rs",
        ],
    ),
    ("process::exit", &["server/src/main.rs", "server/src/signals.rs"]),
    ("unsafe {", &["backends/onnxruntime", "backends/pytorch/src/native"]),
];

/// What code that calls itself pure does not say.
const IMPURE: &[&str] =
    &["Instant::now", "SystemTime", "std::fs", "fs::read", "env::", "thread::", "tokio::", "Mutex"];

/// One file: its place under the root, and its code without comments and tests.
struct Source {
    path: String,
    text: String,
    code: String,
}

impl Source {
    fn is_in(&self, place: &str) -> bool {
        self.path == place || self.path.strip_prefix(place).is_some_and(|it| it.starts_with('/'))
    }

    /// The top module of the server that the file belongs to.
    fn module(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("server/src/")?;
        let top = inside.split('/').next()?;
        Some(top.strip_suffix(".rs").unwrap_or(top))
    }

    /// The text above the first item.
    fn opening(&self) -> String {
        self.text.lines().take_while(|it| it.starts_with("//!")).collect::<Vec<_>>().join(" ")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository")
}

/// Every source file of the product, tests left out.
fn sources() -> Vec<Source> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("server"), root().join("backends")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["target", "tests", "benches", "examples"].contains(&name.as_str())
            {
                folders.push(path);
            } else if name.ends_with(".rs")
                && !["build.rs", "tests.rs", "reply_tests.rs", "transfer_tests.rs", "samples.rs"]
                    .contains(&&*name)
            {
                files.push(read(path));
            }
        }
    }
    assert!(files.len() > 50, "found only {} files under {}", files.len(), root().display());
    files
}

fn read(path: PathBuf) -> Source {
    let text = fs::read_to_string(&path).unwrap();
    let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code = product.lines().filter(is_code).collect::<Vec<_>>().join("\n");
    let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
    Source { path, text, code }
}

/// Does `code` say `word`, not as the end of a longer name?
fn says(code: &str, word: &str) -> bool {
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_'))
}

/// The modules that follow `crate::` anywhere in the code, also inside braces.
fn imports(code: &str) -> BTreeSet<String> {
    let name_of = |text: &str| {
        text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect::<String>()
    };
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(name_of(rest));
            continue;
        };
        let (mut depth, mut expects_name) = (1, true);
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => expects_name = true,
                it if depth == 1 && expects_name && !it.is_whitespace() => {
                    found.insert(name_of(&group[at..]));
                    expects_name = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

#[test]
fn modules_import_what_the_table_says_and_nothing_else() {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        let Some(module) = source.module().filter(|it| !["lib", "main", "signals"].contains(it))
        else {
            continue;
        };
        let used = imports(&source.code).into_iter().filter(|it| it != module);
        edges.entry(module.to_owned()).or_default().extend(used);
    }
    let listed = MODULES.iter().map(|(module, uses)| {
        ((*module).to_owned(), uses.iter().map(|it| (*it).to_owned()).collect())
    });
    let listed: BTreeMap<String, BTreeSet<String>> = listed.collect();
    for (module, uses) in &edges {
        let allowed = listed.get(module).unwrap_or_else(|| panic!("list the module '{module}'"));
        let new: Vec<_> = uses.difference(allowed).collect();
        assert!(new.is_empty(), "'{module}' must not import {new:?}");
        let gone: Vec<_> = allowed.difference(uses).collect();
        assert!(
            gone.is_empty(),
            "'{module}' does not import {gone:?} any more: take it off the list"
        );
    }
    assert_eq!(edges.len(), listed.len(), "a listed module does not exist any more");
}

#[test]
fn modules_only_look_down() {
    for (at, (module, uses)) in MODULES.iter().enumerate() {
        for used in *uses {
            let below = MODULES[..at].iter().any(|(it, _)| it == used);
            assert!(below, "'{module}' uses '{used}', which is not below it");
        }
    }
}

#[test]
fn words_stay_where_they_belong() {
    let sources = sources();
    for (word, places) in WORDS {
        for source in sources.iter().filter(|it| says(&it.code, word)) {
            let allowed = places.iter().any(|it| source.is_in(it));
            assert!(allowed, "{} says '{word}', which belongs to {places:?}", source.path);
        }
        for place in *places {
            let said = sources.iter().any(|it| it.is_in(place) && says(&it.code, word));
            assert!(said, "{place} does not say '{word}' any more: take it off the list");
        }
    }
}

#[test]
fn there_are_no_globals() {
    // A native library is opened once per process; only its engine has to know.
    let native = ["backends/onnxruntime/src/library.rs", "backends/pytorch/src/library.rs"];
    for source in sources().iter().filter(|it| !native.contains(&it.path.as_str())) {
        for line in source.code.lines() {
            let line =
                line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let global = ["static ", "thread_local!", "lazy_static!"];
            let found = global.iter().any(|it| line.starts_with(it));
            assert!(!found, "{}: a global: {line}", source.path);
        }
    }
}

#[test]
fn pure_code_has_no_clock_no_files_and_no_threads() {
    let mut pure = 0;
    for source in sources() {
        if !says(&source.opening(), "Pure") && !source.is_in("server/protocol/src") {
            continue;
        }
        pure += 1;
        for word in IMPURE {
            assert!(!says(&source.code, word), "{} is pure, but says '{word}'", source.path);
        }
    }
    assert!(pure > 20, "found only {pure} files of pure code");
}

#[test]
fn engines_know_neither_the_server_nor_each_other() {
    for engine in ["identity", "onnxruntime", "pytorch", "pytorch/plugin"] {
        let manifest = root().join("backends").join(engine).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        for other in ["muster", "identity", "onnxruntime", "loadgen", "tokio", "hyper"] {
            let needs = manifest
                .lines()
                .any(|it| it.strip_prefix(other).is_some_and(|it| it.starts_with([' ', '.', '='])));
            assert!(!needs, "the engine {engine} depends on {other}");
        }
    }
}

#[test]
fn the_load_generator_knows_only_the_wire() {
    for source in sources().iter().filter(|it| it.is_in("server/loadgen")) {
        for word in ["muster::", "backend::", "identity::"] {
            assert!(!says(&source.code, word), "{} says '{word}'", source.path);
        }
    }
}

#[test]
fn only_the_engine_of_a_native_library_may_be_unsafe() {
    let roots = [
        "server/src/lib.rs",
        "server/src/main.rs",
        "server/loadgen/src/lib.rs",
        "backends/core/src/lib.rs",
        "backends/identity/src/lib.rs",
        "backends/pytorch/abi/src/lib.rs",
    ];
    for path in roots {
        let text = fs::read_to_string(root().join(path)).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{path} does not forbid unsafe code");
    }
}

#[test]
fn every_file_says_first_what_it_is() {
    for source in sources() {
        assert!(!source.opening().is_empty(), "{} does not open with `//!`", source.path);
    }
}

#[test]
fn imports_are_found_in_every_form() {
    let code =
        "use crate::{a::{b, c}, d,\n    self_made::E,\n};\nuse crate::f;\nlet x = crate::g::h();";
    let found: Vec<String> = imports(code).into_iter().collect();
    assert_eq!(found, ["a", "d", "f", "g", "self_made"]);
    assert!(says("use hyper::Request", "hyper::"));
    assert!(!says("use my_hyper::Request", "hyper::"));
}
