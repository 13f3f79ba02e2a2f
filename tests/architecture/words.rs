//! Names of crates and paths of the standard library, and the places that say them.

use super::{
    lex::tokens,
    sources::{Source, sources},
};

/// A word and the places to which it belongs: files or folders under the repository's root.
const WORDS: &[(&str, &[&str])] = &[
    (
        "hyper::",
        &[
            "server/frontend/src/http",
            "server/frontend/src/grpc",
            "server/frontend/src/exchange",
            "server/protocols",
            "server/tools/control_plane/src/host.rs",
            "server/tools/recommend/src/control_server.rs",
        ],
    ),
    (
        "h2::",
        &[
            "server/frontend/src/grpc",
            "server/protocols/kserve/src/grpc",
            "server/protocols/tensorflow_serving/src/grpc",
        ],
    ),
    ("hyper_util::", &["server/frontend/src/http", "server/tools/recommend/src/control_server.rs"]),
    (
        "http_body_util::",
        &["server/frontend/src/http", "server/tools/recommend/src/control_server.rs"],
    ),
    ("socket2::", &["server/frontend/src/net"]),
    (
        "prost::",
        &[
            "server/proto/src",
            "server/textproto/src",
            "server/loading/src",
            "server/frontend/src/grpc",
            "server/protocols/kserve/src/grpc",
            "server/protocols/tensorflow_serving/src/grpc",
            "server/formats/src/recordio",
            "server/formats/src/tfs/definitions.rs",
            "server/inference/src/trace",
            "backends/tensorflow/src",
            "backends/graphs/src",
        ],
    ),
    (
        "prost_reflect::",
        &[
            "server/textproto/src",
            "server/loading/src",
            "server/protocols/kserve/src/grpc",
            "server/protocols/tensorflow_serving/src/grpc",
        ],
    ),
    (
        "serde_json::",
        &[
            "backends/graphs/src",
            "backends/image/src",
            "backends/isolation/src/frame.rs",
            "backends/isolation/src/talk",
            "backends/python/src",
            "server/serving/src",
            "server/loading/src",
            "server/sources/src",
            "server/stores/src",
            "server/telemetry/src/capture",
            // The document of the API; no body of an inference.
            "server/frontend/src/http/examples.rs",
            "server/frontend/src/http/routes.rs",
            "server/frontend/src/http/schemas.rs",
            "server/protocols/browser/src",
            "server/protocols/embeddings/src/described.rs",
            "server/protocols/kserve/src/http/described.rs",
            "server/protocols/tensorflow_serving/src/described.rs",
            "server/protocols/sagemaker/src/emf",
            "server/tools/bench/src",
            "server/tools/launch/src",
            "server/tools/recommend/src",
            "server/src/engines.rs",
            "backends/steps/src",
            "backends/trees/src/lightgbm/categories.rs",
            "backends/trees/src/sklearn",
        ],
    ),
    ("symphonia::", &["backends/audio/src/packets.rs", "backends/audio/src/vorbis.rs"]),
    ("tokenizers::", &["backends/steps/src/text/tokenize.rs", "backends/steps/src/text/tokenize"]),
    ("safetensors::", &["backends/steps/src/folder/dense.rs"]),
    (
        "chrono::",
        &[
            "server/telemetry/src/capture",
            "server/protocols/sagemaker/src/codec/invocations/session.rs",
        ],
    ),
    ("object_store::", &["server/stores/src"]),
    ("futures_util::", &["server/sources/src/cache.rs", "server/stores/src"]),
    ("reqwest::", &["server/sources/src"]),
    ("md5::", &["server/loading/src", "server/stores/src"]),
    ("prometheus::", &["server/telemetry/src/metrics"]),
    ("nvml_wrapper::", &["server/machine/src/gpus"]),
    (
        "arc_swap::",
        &["server/inference/src", "server/serving/src", "server/frontend/src/net/tls.rs"],
    ),
    ("tokio_rustls::", &["server/frontend/src/net/tls.rs"]),
    (
        "rustls::",
        &[
            "server/tools/bench/src/tls.rs",
            "server/tools/bench/src/trust.rs",
            "server/unverified_tls/src",
            "server/frontend/src/net",
        ],
    ),
    ("rustls_native_certs::", &["server/tools/bench/src/trust.rs"]),
    ("webpki_roots::", &["server/tools/bench/src/trust.rs"]),
    (
        "ring::",
        &[
            // The digests of archives, by which environments are kept.
            "backends/python/src/environments.rs",
            "server/inference/src",
            "server/frontend/src",
            "server/protocols/browser/src/page",
            "server/protocols/sagemaker/src",
            "server/sources/src/digest.rs",
            "server/tools/bench/src/trust.rs",
            "server/unverified_tls/src",
        ],
    ),
    (
        "flate2::",
        &[
            "server/frontend/src",
            "server/formats/src/npz",
            "backends/trees/src/inflate.rs",
            "backends/trees/src/sklearn/zip.rs",
            // Checksums alone.
            "backends/trees/src/xz.rs",
            "backends/pytorch/src/archive.rs",
            "server/archives/src",
        ],
    ),
    ("bzip2::", &["backends/trees/src/inflate.rs"]),
    ("lz4_flex::", &["backends/trees/src/inflate.rs"]),
    ("lzma_rust2::", &["backends/trees/src/inflate.rs", "backends/trees/src/xz.rs"]),
    ("toml::", &["server/tools/recommend/src/prices.rs"]),
    ("tar::", &["server/archives/src"]),
    ("crc32fast::", &["server/protocols/sagemaker/src/codec/eventstream.rs"]),
    ("subtle::", &["server/inference/src/access"]),
    ("regex_lite::", &["server/inference/src/access"]),
    (
        "blake3::",
        &[
            "backends/core/src/file_identity.rs",
            "backends/isolation/src/mark.rs",
            "server/serving/src",
            "server/loading/src",
            "server/tools/recommend/src/model_files.rs",
        ],
    ),
    (
        "clap::",
        &[
            "server/configuration/src",
            "server/tools/bench/src",
            "server/tools/launch/src/usage.rs",
            "server/tools/recommend/src/arguments.rs",
            "server/tools/recommend/src/main.rs",
        ],
    ),
    ("tracing_subscriber::", &["server/telemetry/src/logging"]),
    ("mio::", &["server/tools/bench/src"]),
    ("ort::", &["backends/onnxruntime/src"]),
    ("tch::", &["backends/pytorch/plugin/src"]),
    ("torch_sys::", &["backends/pytorch/plugin/src"]),
    (
        "libloading::",
        &[
            "backends/image/src/jpeg",
            "backends/pytorch/src/native",
            "backends/pytorch/plugin/src/cuda.rs",
            "backends/tensorflow/src/native",
        ],
    ),
    ("onnxruntime::", &["server/src/engines.rs", "server/src/main.rs"]),
    ("pytorch::", &["server/src/engines.rs"]),
    ("libtensorflow::", &["server/src/engines.rs"]),
    ("identity::", &["server/src/engines.rs"]),
    (
        "tokio::",
        &[
            "server/frontend/src",
            "server/protocols",
            "server/schedule/src",
            "server/serving/src",
            "server/loading/src",
            "server/sources/src",
            "server/stores/src",
            "server/tools/recommend/src/control_server.rs",
            "server/tools/launch/src/signals.rs",
            "server/src",
        ],
    ),
    (
        "std::env",
        &[
            // Where tests have files to compare with.
            "server/formats/src/samples.rs",
            // Where temporary files go.
            "server/tools/recommend/src/api/control.rs",
            // Where the server is, and which variables servers that tools start have from their process.
            "server/tools/launch/src/lib.rs",
            // What was typed.
            "server/tools/bench/src/main.rs",
            // Where jobs are kept.
            "server/tools/recommend/src/main.rs",
            // Where the tools are.
            "server/src/tools.rs",
            "backends/image/src/jpeg/library.rs",
            "server/configuration/src/environment.rs",
            "server/src/main.rs",
            // What of it workers are given, and what they make of a list of directories.
            "server/src/workers.rs",
            "backends/isolation/src",
            // What of it the recommender is given.
            "server/src/app/recommender.rs",
            // What hostile code would look for.
            "backends/identity/src/reach.rs",
            "backends/python/src/interpreter.rs",
            "backends/onnxruntime/src",
            "backends/pytorch/src/library.rs",
            "backends/tensorflow/src/library.rs",
            "backends/environment/src",
        ],
    ),
    (
        "process::exit",
        &["server/src/main.rs", "server/src/signals.rs", "server/tools/launch/src/signals.rs"],
    ),
    // What a request waits for is decided by the monotonic clock, which does not jump. The other one says when
    // something happened, or how old a file is.
    (
        "SystemTime",
        &[
            // The times of files, in whose order environments go.
            "backends/python/src/environments.rs",
            // Drifts on through all of the servers that one search starts.
            "backends/identity/src/landscape.rs",
            "server/tools/bench/src/export.rs",
            // When a test began and ended; how long it takes is decided by the other clock.
            "server/tools/recommend/src",
            "server/telemetry/src/logging/format.rs",
            "server/telemetry/src/capture/mod.rs",
            "server/inference/src/trace/spans.rs",
            "server/protocols/sagemaker/src/emf/mod.rs",
            // Says when a session ends; the session itself ends by the other clock.
            "server/protocols/sagemaker/src/sessions/table.rs",
            // Ages and stamps of files.
            "server/stores/src/cache.rs",
            "server/stores/src/listing.rs",
            "server/loading/src/repository/file_stamps.rs",
            "server/loading/src/load/loader.rs",
            "server/loading/src/load/version_load.rs",
            "server/serving/src/content_hash.rs",
            // When a model was loaded, for lists of models.
            "server/loading/src/load/ensemble.rs",
            "server/loading/src/load/making.rs",
            "server/serving/src/served.rs",
            "backends/onnxruntime/src/cache",
            "backends/core/src/file_identity.rs",
            // A made-up machine that becomes slower as the day goes on, over several servers.
            "backends/identity/src/landscape.rs",
        ],
    ),
    ("ClockId::RealtimeCoarse", &["server/telemetry/src/metrics/model.rs"]),
    ("ClockId::Realtime", &[]),
    ("Utc::now", &[]),
    (
        "unsafe {",
        &[
            "backends/image/src/jpeg/turbo.rs",
            "backends/image/src/passes",
            "backends/onnxruntime/src",
            "backends/pytorch/src/native",
            "backends/pytorch/plugin/src",
            "backends/tensorflow/src/native",
            "backends/environment/src",
            "backends/isolation/src/mapping.rs",
            "backends/isolation/src/pages.rs",
            "backends/isolation/src/sandbox/calls.rs",
            "backends/isolation/src/sandbox/descriptors.rs",
            "backends/isolation/src/sandbox/threads.rs",
        ],
    ),
];

/// What code that calls itself pure does not say.
const IMPURE: &[&str] =
    &["Instant::now", "SystemTime", "std::fs", "fs::read", "env::", "thread::", "tokio::", "Mutex"];

/// Does the code say the word? `std::env` is also said by `use std::{env, fs}`.
fn says(code: &[&str], word: &str) -> bool {
    let word = tokens(word);
    if let ["std", "::", module] = *word {
        let groups = code.windows(3).enumerate().filter(|(_, it)| *it == ["std", "::", "{"]);
        let mut groups = groups.map(|(at, _)| code[at..].split(|it| *it == ";").next());
        if groups.any(|it| it.is_some_and(|it| it.contains(&module))) {
            return true;
        }
    }
    code.windows(word.len()).any(|it| it == word)
}

#[test]
fn words_stay_where_they_belong() {
    let sources = sources();
    let code: Vec<(&Source, Vec<&str>)> = sources.iter().map(|it| (it, it.product())).collect();
    let mut wrong = Vec::new();
    for (word, places) in WORDS {
        let said = code.iter().filter(|(_, code)| says(code, word)).map(|(source, _)| *source);
        let said: Vec<&Source> = said.collect();
        for source in said.iter().filter(|it| !places.iter().any(|place| it.is_in(place))) {
            wrong.push(format!("{} says '{word}', which belongs to {places:?}", source.path));
        }
        for place in places.iter().filter(|place| !said.iter().any(|it| it.is_in(place))) {
            wrong.push(format!("{place} does not say '{word}' any more: take it off the list"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_code_has_no_clock_no_files_and_no_threads() {
    let mut pure = 0;
    for source in sources().iter().filter(|it| !it.is_test) {
        let calls_itself_pure = tokens(&source.opening().replace("//!", "")).contains(&"Pure");
        // What a connection remembers is state, which several requests share.
        let has_state = ["server/formats/src/samples.rs", "server/formats/src/body_memo.rs"];
        let is_format = source.owner == "formats" && !has_state.iter().any(|it| source.is_in(it));
        if !calls_itself_pure && !is_format {
            continue;
        }
        pure += 1;
        let code = source.product();
        for word in IMPURE {
            assert!(!says(&code, word), "{} is pure, but says '{word}'", source.path);
        }
    }
    assert!(pure > 20, "found only {pure} files of pure code");
}

#[test]
fn words_are_whole_words() {
    assert!(says(&tokens("use hyper::Request"), "hyper::"));
    assert!(!says(&tokens("use my_hyper::Request"), "hyper::"));
    assert!(!says(&tokens("// hyper::Request\n\"hyper::\""), "hyper::"));
    assert!(says(&tokens("use std::{env, fs};"), "std::env"));
    assert!(says(&tokens("std::env::args()"), "std::env"));
    assert!(!says(&tokens("use std::fs; let env = 1;"), "std::env"));
}
