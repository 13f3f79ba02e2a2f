//! The crates of the workspace and their files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::lex::{split_tests, tokens};

/// The folder of the repository.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the package lies in the repository")
}

/// The text of a file, by its path under the root.
pub(super) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// One crate of the workspace.
#[derive(Debug, Clone)]
pub(super) struct Crate {
    /// The name by which others import it.
    pub(super) name: String,
    /// Its folder under the root.
    pub(super) folder: String,
}

/// The crates of the product, as the workspace's manifest names them, and the three that no other depends on. Not those
/// of which tests alone are made.
pub(super) fn crates() -> Vec<Crate> {
    let manifest = read("Cargo.toml");
    let line = manifest.lines().find(|it| it.starts_with("members = ")).expect("one line");
    let folders = line.split('"').skip(1).step_by(2).filter(|it| !it.starts_with("tests/"));
    let named = |folder: &str| {
        let path = format!("path = \"{folder}\"");
        let line = manifest.lines().find(|it| it.contains(&path))?;
        Some(line.split(' ').next()?.replace('-', "_"))
    };
    let found = folders.map(|folder| {
        let alone = match folder {
            "server" => "muster",
            "backends/pytorch/plugin" => "muster_pytorch",
            "server/proto" => "muster_proto",
            _ => "",
        };
        let name = named(folder).unwrap_or_else(|| alone.to_owned());
        assert!(!name.is_empty(), "the workspace's manifest does not name the crate in {folder}");
        Crate { name, folder: folder.to_owned() }
    });
    found.collect()
}

/// One file of the product, that is of the folder `src` of a crate.
pub(super) struct Source {
    /// Its path under the root.
    pub(super) path: String,
    /// The name of its crate.
    pub(super) owner: String,
    /// All of it.
    pub(super) text: String,
    /// Is it compiled for tests only?
    pub(super) is_test: bool,
}

impl Source {
    /// Its path under the crate's `src`.
    pub(super) fn place(&self) -> &str {
        self.path.split_once("/src/").expect("it lies in `src`").1
    }

    /// The words and signs of the code that is compiled into the product.
    pub(super) fn product(&self) -> Vec<&str> {
        if self.is_test { Vec::new() } else { split_tests(&tokens(&self.text)).0 }
    }

    /// The words and signs of the code that is compiled for tests only.
    pub(super) fn tests(&self) -> Vec<&str> {
        let all = tokens(&self.text);
        if self.is_test { all } else { split_tests(&all).1 }
    }

    /// Is it this file, or in this folder?
    pub(super) fn is_in(&self, place: &str) -> bool {
        self.path == place || self.path.strip_prefix(place).is_some_and(|it| it.starts_with('/'))
    }

    /// What stands above the first item.
    pub(super) fn opening(&self) -> String {
        self.text.lines().take_while(|it| it.starts_with("//!")).collect::<Vec<_>>().join(" ")
    }
}

/// Every source file of the crates' `src` folders.
pub(super) fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for Crate { name, folder } in crates() {
        for path in files_in(&format!("{folder}/src"), "rs") {
            let text = read(&path);
            found.push(Source { path, owner: name.clone(), text, is_test: false });
        }
    }
    assert!(found.len() > 200, "found only {} files under {}", found.len(), root().display());
    let declared = declared_for_tests(&found);
    for source in &mut found {
        source.is_test = is_below(&source.path, &declared);
    }
    found
}

/// The modules that are declared behind `#[cfg(test)]`, by their paths without `.rs` and `/mod.rs`.
fn declared_for_tests(sources: &[Source]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in sources.iter().filter(|it| it.text.contains("#[cfg(test)]")) {
        let folder = ["/mod.rs", "/lib.rs", "/main.rs", ".rs"];
        let folder = folder.iter().find_map(|it| source.path.strip_suffix(it)).expect("ends so");
        for declaration in source.tests().windows(3) {
            if let ["mod", name, ";"] = declaration {
                found.insert(format!("{folder}/{name}"));
            }
        }
    }
    found
}

/// Is the file one of these modules, or below one of them?
fn is_below(path: &str, modules: &BTreeSet<String>) -> bool {
    let module = path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs")).unwrap_or(path);
    module.match_indices('/').any(|(at, _)| modules.contains(&module[..at]))
        || modules.contains(module)
}

/// The file with an area of tests, as `bad_input` or `grpc/peers`, by its path under the root: in the folder of the
/// program that has it, or a program by itself.
pub(super) fn area(name: &str) -> Option<String> {
    let folders = fs::read_dir(root().join("tests")).unwrap();
    let folders = folders.map(|it| it.unwrap().file_name().to_string_lossy().into_owned());
    let files = folders.map(|it| format!("tests/{it}/{name}.rs"));
    files.chain([format!("tests/{name}.rs")]).find(|it| root().join(it).is_file())
}

/// The files of a folder and of those in it whose names end with `.extension`, in order, by their paths under the root.
pub(super) fn files_in(folder: &str, extension: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|it| panic!("{}: {it}", folder.display()));
        let paths = entries.map(|it| it.unwrap().path()).collect::<Vec<PathBuf>>();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                files.push(path.strip_prefix(root()).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    files
}
