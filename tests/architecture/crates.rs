//! Which crate imports which: what the manifests say, what the code says, and what is meant are one.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    lex::tokens,
    modules::Modules,
    sources::{crates, files_in, read, root, sources},
};

/// The crates of this repository, lowest first, and which others each may import.
const IMPORTS: &[(&str, &[&str])] = &[
    ("archives", &[]),
    ("audio", &[]),
    ("backend", &[]),
    ("environment", &[]),
    ("graphs", &["backend"]),
    ("pytorch_abi", &[]),
    ("identity", &["backend"]),
    ("image", &[]),
    ("isolation", &["backend", "environment"]),
    ("onnxruntime", &["backend", "environment", "graphs"]),
    ("python", &["archives", "backend"]),
    ("pytorch", &["backend", "pytorch_abi"]),
    ("muster_pytorch", &["pytorch_abi"]),
    ("libtensorflow", &["backend", "environment"]),
    ("machine", &[]),
    ("muster_proto", &[]),
    ("unverified_tls", &[]),
    ("launch", &[]),
    ("loadgen", &["launch", "machine", "unverified_tls"]),
    ("control_plane", &[]),
    ("recommender", &["archives", "control_plane", "launch", "loadgen", "machine"]),
    ("inference", &["backend"]),
    ("steps", &["audio", "backend", "graphs", "image", "inference"]),
    ("trees", &["backend", "environment"]),
    ("textproto", &["inference"]),
    ("configuration", &["inference"]),
    ("telemetry", &["backend", "configuration", "inference", "machine"]),
    ("schedule", &["backend", "configuration", "inference", "telemetry"]),
    ("formats", &["backend", "inference"]),
    ("stores", &["configuration"]),
    ("sources", &["archives", "configuration", "graphs", "stores"]),
    (
        "serving",
        &[
            "backend",
            "configuration",
            "inference",
            "machine",
            "schedule",
            "steps",
            "telemetry",
            "textproto",
        ],
    ),
    (
        "loading",
        &[
            "backend",
            "configuration",
            "inference",
            "machine",
            "schedule",
            "serving",
            "steps",
            "stores",
            "telemetry",
            "textproto",
        ],
    ),
    (
        "frontend",
        &[
            "backend",
            "configuration",
            "formats",
            "inference",
            "machine",
            "serving",
            "telemetry",
            "textproto",
        ],
    ),
    ("browser", &["formats", "frontend", "inference", "serving", "telemetry"]),
    (
        "kserve",
        &["backend", "configuration", "formats", "frontend", "inference", "serving", "telemetry"],
    ),
    (
        "tensorflow_serving",
        &["backend", "formats", "frontend", "inference", "serving", "telemetry"],
    ),
    (
        "embeddings",
        &["backend", "configuration", "formats", "frontend", "inference", "serving", "telemetry"],
    ),
    (
        "sagemaker",
        &[
            "backend",
            "configuration",
            "formats",
            "frontend",
            "inference",
            "machine",
            "serving",
            "stores",
            "telemetry",
        ],
    ),
    (
        "muster",
        &[
            "backend",
            "browser",
            "configuration",
            "control_plane",
            "embeddings",
            "environment",
            "frontend",
            "identity",
            "inference",
            "isolation",
            "kserve",
            "libtensorflow",
            "loading",
            "machine",
            "onnxruntime",
            "python",
            "pytorch",
            "sagemaker",
            "schedule",
            "serving",
            "sources",
            "steps",
            "stores",
            "telemetry",
            "tensorflow_serving",
            "textproto",
            "trees",
            "unverified_tls",
        ],
    ),
];

/// Which crates the tests, benches and examples of a crate import besides.
const IMPORTS_OF_TESTS: &[(&str, &[&str])] = &[
    ("browser", &["backend"]),
    ("embeddings", &["formats"]),
    ("kserve", &["formats"]),
    ("loading", &["identity"]),
    ("muster", &["formats", "image", "loadgen", "recommender"]),
    ("sagemaker", &["formats"]),
    ("tensorflow_serving", &["formats"]),
    ("muster_pytorch", &["backend", "pytorch"]),
];

type Edges = BTreeMap<String, BTreeSet<String>>;

fn listed(table: &[(&str, &[&str])]) -> Edges {
    let owned = |it: &&str| (*it).to_owned();
    table
        .iter()
        .map(|(name, uses)| ((*name).to_owned(), uses.iter().map(owned).collect()))
        .collect()
}

/// Our crates in one section of each manifest.
fn in_manifests(section: &str) -> Edges {
    let all = crates();
    let names: BTreeSet<String> = all.iter().map(|it| it.name.clone()).collect();
    let uses = |folder: &str| {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let lines = manifest.lines().skip_while(|it| it.trim() != section).skip(1);
        let lines = lines.take_while(|it| !it.starts_with('['));
        let name =
            |it: &str| it.split([' ', '.', '=']).next().unwrap_or_default().replace('-', "_");
        lines.map(name).filter(|it| names.contains(it)).collect::<BTreeSet<_>>()
    };
    all.iter().map(|it| (it.name.clone(), uses(&it.folder))).collect()
}

/// Our crates as the product code of each says them. What a build script generates says those that the script says.
fn in_code() -> Edges {
    let (all, sources) = (crates(), sources());
    let names: BTreeSet<&str> = all.iter().map(|it| &*it.name).collect();
    let mut found = Edges::new();
    for it in &all {
        let uses = found.entry(it.name.clone()).or_default();
        let mine = sources.iter().filter(|source| source.owner == it.name);
        let files = mine.map(|it| (it.place().to_owned(), it.product())).collect();
        for root in ["lib.rs", "main.rs"] {
            uses.extend(Modules::read(root, &files).crates(&names));
        }
        let script = format!("{}/build.rs", it.folder);
        if root().join(&script).is_file() {
            let script = read(&script);
            let is_said = |name: &&&str| script.contains(&format!("::{name}::"));
            uses.extend(names.iter().filter(is_said).map(|it| (*it).to_owned()));
        }
        uses.remove(&it.name); // `main.rs` imports the library beside it
    }
    found
}

/// Our crates as the tests, benches and examples of each say them, in whatever place.
fn in_tests() -> Edges {
    let (all, sources) = (crates(), sources());
    let names: BTreeSet<&str> = all.iter().map(|it| &*it.name).collect();
    let mut found = Edges::new();
    for it in &all {
        let uses = found.entry(it.name.clone()).or_default();
        let mut add = |tokens: &[&str]| {
            let said = tokens.windows(2).filter(|it| it[1] == "::").map(|it| it[0]);
            uses.extend(said.filter(|it| names.contains(it)).map(str::to_owned));
        };
        for source in sources.iter().filter(|source| source.owner == it.name) {
            add(&source.tests());
        }
        let folder = |name: &str| format!("{}/{name}", it.folder);
        let tests = if it.folder == "server" { "tests".to_owned() } else { folder("tests") };
        for folder in [tests, folder("benches"), folder("examples")] {
            if root().join(&folder).is_dir() {
                files_in(&folder, "rs").iter().for_each(|it| add(&tokens(&read(it))));
            }
        }
    }
    found
}

/// Says of each crate which edges `given` has that `expected` has not, and the other way round.
fn differences(what: &str, given: &Edges, expected: &Edges) -> Vec<String> {
    let none = BTreeSet::new();
    let names: BTreeSet<&String> = given.keys().chain(expected.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let (given, expected) =
            (given.get(name).unwrap_or(&none), expected.get(name).unwrap_or(&none));
        for it in given.difference(expected) {
            found.push(format!("{what} of '{name}' must not import '{it}'"));
        }
        for it in expected.difference(given) {
            found.push(format!(
                "{what} of '{name}' does not import '{it}' any more: take it off the list"
            ));
        }
    }
    found
}

#[test]
fn crates_import_what_the_table_says_and_nothing_else() {
    let expected = listed(IMPORTS);
    let mut wrong = differences("the manifest", &in_manifests("[dependencies]"), &expected);
    wrong.extend(differences("the code", &in_code(), &expected));
    for it in crates().iter().filter(|it| !expected.contains_key(&it.name)) {
        wrong.push(format!("the crate '{}' is not listed", it.name));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tests_import_what_their_table_says_and_nothing_else() {
    let expected = listed(IMPORTS_OF_TESTS);
    let mut wrong =
        differences("the [dev-dependencies]", &in_manifests("[dev-dependencies]"), &expected);
    for (name, said) in in_tests() {
        for it in expected.get(&name).into_iter().flatten().filter(|it| !said.contains(*it)) {
            wrong.push(format!("no test of '{name}' says '{it}' any more: take it off the list"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_protocol_knows_no_other_and_no_engine() {
    let all = crates();
    let of = |folder: &str| {
        let there = all.iter().filter(|it| it.folder.starts_with(folder));
        there.map(|it| it.name.as_str()).collect::<BTreeSet<_>>()
    };
    let (protocols, engines) = (of("server/protocols/"), of("backends/"));
    assert!(4 <= protocols.len(), "{protocols:?}");
    for (name, uses) in IMPORTS.iter().filter(|it| protocols.contains(it.0)) {
        for used in uses.iter().filter(|it| **it != "backend") {
            let is_apart = !protocols.contains(used) && !engines.contains(used);
            assert!(is_apart, "'{name}' imports '{used}'");
        }
    }
}

#[test]
fn crates_only_look_down() {
    for (at, (name, uses)) in IMPORTS.iter().enumerate() {
        for used in *uses {
            let is_below = IMPORTS[..at].iter().any(|(it, _)| it == used);
            assert!(
                is_below,
                "'{name}' imports '{used}', which does not stand above it in the list"
            );
        }
    }
}

/// Comments have no code that is run: for each crate cargo would start a compiler that looks for it.
#[test]
fn no_crate_has_tests_in_its_comments() {
    for it in crates() {
        let manifest = read(&format!("{}/Cargo.toml", it.folder));
        let is_library = root().join(&it.folder).join("src/lib.rs").is_file();
        let is_said = manifest.lines().any(|line| line == "doctest = false");
        assert!(!is_library || is_said, "{}: [lib] says `doctest = false`", it.folder);
    }
    for source in sources() {
        let lines = source.text.lines().map(str::trim_start);
        let comments = lines.filter_map(|it| it.strip_prefix("//!").or(it.strip_prefix("///")));
        // Every other fence opens a block; one without a language would be Rust.
        for fence in comments.map(str::trim).filter(|it| it.starts_with("```")).step_by(2) {
            let language = &fence[3..];
            assert!(!["", "rust"].contains(&language), "{}: code of no test", source.path);
        }
    }
}
