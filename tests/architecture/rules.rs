//! What holds for every file or every crate.

use super::sources::{crates, files_in, read, sources};

/// The longest line of a comment and of an example in the docs. Code is shorter, by `.rustfmt.toml`.
const LONGEST_LINE: usize = 120;

/// Crates that call native libraries, and so may have unsafe code.
const NATIVE: &[&str] = &[
    "environment",
    "image",
    "isolation",
    "onnxruntime",
    "pytorch",
    "libtensorflow",
    "muster_pytorch",
];

#[test]
fn there_are_no_globals() {
    // A native library is opened once per process; only its engine has to know. What stands in the place of a function
    // of the C library has nowhere else to look.
    let native = [
        "backends/environment/src/blocks.rs",
        "backends/onnxruntime/src/library.rs",
        "backends/pytorch/src/library.rs",
        "backends/pytorch/plugin/src/cuda.rs",
        "backends/tensorflow/src/library.rs",
    ];
    for source in sources().iter().filter(|it| !native.contains(&&*it.path)) {
        let code = source.product();
        for (at, token) in code.iter().enumerate() {
            // `&'static` is a lifetime.
            // The allocator of a program has to be one.
            let is_heap = code.get(at + 1).is_some_and(|it| *it == "HEAP");
            let is_static = *token == "static"
                && at.checked_sub(1).is_none_or(|it| code[it] != "'")
                && !is_heap;
            let found = is_static || ["thread_local", "lazy_static"].contains(token);
            assert!(
                !found,
                "{}: a global: {}",
                source.path,
                code[at..].iter().take(5).copied().collect::<String>()
            );
        }
    }
}

#[test]
fn only_the_engine_of_a_native_library_may_be_unsafe() {
    for it in crates().iter().filter(|it| !NATIVE.contains(&&*it.name)) {
        let files = files_in(&format!("{}/src", it.folder), "rs");
        let roots =
            files.iter().filter(|it| it.ends_with("src/lib.rs") || it.ends_with("src/main.rs"));
        for root in roots {
            let forbids = read(root).contains("#![forbid(unsafe_code)]");
            assert!(forbids, "{root} does not forbid unsafe code");
        }
    }
}

#[test]
fn engines_know_no_wire_and_no_runtime() {
    let foreign = ["tokio", "hyper", "h2", "tracing_subscriber", "clap"];
    for it in crates().iter().filter(|it| it.folder.starts_with("backends/")) {
        let manifest = read(&format!("{}/Cargo.toml", it.folder));
        let words = manifest.lines().map(|it| it.split([' ', '.', '=']).next().unwrap_or_default());
        let found: Vec<&str> = words.filter(|it| foreign.contains(it)).collect();
        assert!(found.is_empty(), "the engine {} depends on {found:?}", it.name);
    }
}

#[test]
fn files_of_models_are_opened_in_one_place() {
    let of_models = [
        "backend",
        "graphs",
        "libtensorflow",
        "loading",
        "onnxruntime",
        "python",
        "pytorch",
        "serving",
        "steps",
        "trees",
    ];
    // Directories, files of the machine, and those that the program itself has written.
    let others = [
        "backends/core/src/held_dir.rs",
        "backends/onnxruntime/src/cache/aligned.rs",
        "backends/onnxruntime/src/cache/entry.rs",
        "backends/onnxruntime/src/cache/key.rs",
        "backends/onnxruntime/src/leased.rs",
        "backends/python/src/environments.rs",
    ];
    let calls = [["File", "open"], ["fs", "read"], ["fs", "read_to_string"], ["fs", "copy"]];
    let is_other = |path: &str| others.contains(&path);
    let all = sources();
    let looked_at = all.iter().filter(|it| of_models.contains(&&*it.owner));
    for source in looked_at.filter(|it| !is_other(&it.path)) {
        for [what, call] in calls {
            let found = source.product().windows(4).any(|it| it == [what, "::", call, "("]);
            let path = &source.path;
            assert!(!found, "{path}: {what}::{call} would wait at a pipe; use backend::open_file");
        }
    }
}

#[test]
fn every_file_says_first_what_it_is() {
    for source in sources() {
        assert!(!source.opening().is_empty(), "{} does not open with `//!`", source.path);
    }
}

#[test]
fn no_line_of_text_is_longer_than_a_screen() {
    let mut wrong = Vec::new();
    let mut check = |path: &str, at: usize, line: &str| {
        let length = line.chars().count();
        // Neither an address nor a row of a table can be broken.
        if length > LONGEST_LINE && !line.contains("://") {
            wrong.push(format!("{path}:{}: {length} columns", at + 1));
        }
    };
    for path in ["server", "backends", "tests"].iter().flat_map(|it| files_in(it, "rs")) {
        for (at, line) in read(&path).lines().enumerate() {
            let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
            if line.trim_start().starts_with("//") && !text.starts_with('|') {
                check(&path, at, line);
            }
        }
    }
    for path in files_in("docs", "md") {
        let mut is_example = false;
        for (at, line) in read(&path).lines().enumerate() {
            is_example ^= line.trim_start().starts_with("```");
            if is_example || !line.starts_with('|') {
                check(&path, at, line);
            }
        }
    }
    assert!(wrong.is_empty(), "longer than {LONGEST_LINE} columns:\n{}", wrong.join("\n"));
}
