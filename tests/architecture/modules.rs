//! The modules of one crate, and which of its files each file imports.
//!
//! A path leads to the file that defines what it names, by way of `use` in the modules between: a name that a parent
//! only passes on from a child is an import of the child. What a parent defines itself is an import of the parent.

use std::collections::{BTreeMap, BTreeSet};

use super::lex::is_name;

/// The modules of a crate by their paths, such as `["http", "body"]`. The crate's root is the empty path.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<Vec<String>, Module>);

/// What one module says.
#[derive(Debug, Default)]
struct Module {
    /// Where it stands.
    file: String,
    /// The names that it has by `use`, and the paths that they stand for.
    uses: BTreeMap<String, Vec<String>>,
    /// The modules all of whose names it has.
    globs: Vec<Vec<String>>,
    /// The names that it defines.
    defined: BTreeSet<String>,
    /// Every path that it says, those of `use` included.
    paths: Vec<Vec<String>>,
    /// Those of its names that it passes on.
    passed_on: BTreeSet<String>,
}

impl Modules {
    /// From files and their tokens, the paths under the crate's `src` as `http/mod.rs`. `root` is `lib.rs` or
    /// `main.rs`.
    pub(super) fn read(root: &str, files: &BTreeMap<String, Vec<&str>>) -> Modules {
        let mut modules = Modules::default();
        modules.read_file(root, Vec::new(), files);
        modules
    }

    fn read_file(&mut self, file: &str, path: Vec<String>, files: &BTreeMap<String, Vec<&str>>) {
        let Some(tokens) = files.get(file) else { return };
        let mut reader = Reader { tokens, at: 0, file, children: Vec::new(), modules: self };
        reader.module(path);
        for child in reader.children {
            let name = child.join("/");
            for file in [format!("{name}.rs"), format!("{name}/mod.rs")] {
                self.read_file(&file, child.clone(), files);
            }
        }
    }

    /// The files that are part of the crate.
    pub(super) fn files(&self) -> BTreeSet<&str> {
        self.0.values().map(|it| &*it.file).collect()
    }

    /// For each file those that it imports.
    pub(super) fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, module) in &self.0 {
            let imports = found.entry(&module.file).or_default();
            for path in &module.paths {
                let Some(defined_in) = self.file_of(at, path) else { continue };
                if defined_in != module.file && !self.is_said_longer(at, module, path) {
                    imports.insert(defined_in);
                }
            }
        }
        found
    }

    /// The first names of paths that lead out of the crate, of those in `crates`.
    pub(super) fn crates(&self, crates: &BTreeSet<&str>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (at, module) in &self.0 {
            for path in &module.paths {
                // Unless the module has imported something else under that name.
                let other = module.uses.get(&path[0]).filter(|meant| meant[0] != path[0]);
                let is_crate = crates.contains(&*path[0]) && self.first(at, path).is_none();
                if is_crate && other.is_none() {
                    found.insert(path[0].clone());
                }
            }
        }
        found
    }

    /// `use a::b` of a module, where other paths go on from `b`: these say what is meant.
    fn is_said_longer(&self, at: &[String], module: &Module, path: &[String]) -> bool {
        let is_module = matches!(self.walk(at, path, 0), Some(Place::Module(_)));
        let mut names =
            module.uses.iter().filter(|(_, meant)| *meant == path).map(|(name, _)| name);
        is_module
            && names.any(|name| {
                let goes_on = |it: &Vec<String>| it.len() > 1 && it[0] == *name && it != path;
                !module.passed_on.contains(name) && module.paths.iter().any(goes_on)
            })
    }

    fn file_of(&self, at: &[String], path: &[String]) -> Option<&str> {
        match self.walk(at, path, 0)? {
            Place::Module(module) | Place::Item(module) => Some(&self.0[&module].file),
        }
    }

    /// Where the path begins, and which of its names come after that.
    fn first(&self, at: &[String], path: &[String]) -> Option<Vec<String>> {
        match &*path[0] {
            "crate" => Some(Vec::new()),
            "self" => Some(at.to_vec()),
            "super" => at.split_last().map(|(_, parent)| parent.to_vec()),
            name => {
                let child = [at, &[name.to_owned()]].concat();
                self.0.contains_key(&child).then_some(child)
            }
        }
    }

    /// Where a path leads that is said in the module `at`; `None`: out of the crate, or nowhere.
    fn walk(&self, at: &[String], path: &[String], depth: usize) -> Option<Place> {
        if depth > 16 {
            return None; // a name that stands for itself
        }
        let mut here = match self.first(at, path) {
            Some(here) => here,
            None => match self.alias(at, &path[0], depth)? {
                Place::Module(module) => module,
                // A name of a type, say: the `use` of it is a path of its own.
                Place::Item(_) => return None,
            },
        };
        for name in &path[1..] {
            let child = [&*here, std::slice::from_ref(name)].concat();
            if name == "super" {
                here.pop();
            } else if name == "self" {
            } else if self.0.contains_key(&child) {
                here = child;
            } else {
                match self.alias(&here, name, depth) {
                    Some(Place::Module(module)) => here = module,
                    Some(item) => return Some(item),
                    None => return Some(Place::Item(here)),
                }
            }
        }
        Some(Place::Module(here))
    }

    /// What a module has by `use` under this name.
    fn alias(&self, at: &[String], name: &str, depth: usize) -> Option<Place> {
        let module = self.0.get(at)?;
        if let Some(path) = module.uses.get(name) {
            return self.walk(at, path, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let Place::Module(from) = self.walk(at, glob, depth + 1)? else { return None };
            let child = [&*from, &[name.to_owned()]].concat();
            if self.0.contains_key(&child) {
                return Some(Place::Module(child));
            }
            match self.0[&from].defined.contains(name) {
                true => Some(Place::Item(from)),
                false if from == at => None,
                false => self.alias(&from, name, depth + 1),
            }
        })
    }
}

/// What a path names.
enum Place {
    /// A module.
    Module(Vec<String>),
    /// Something that this module defines, or brings from outside the crate.
    Item(Vec<String>),
}

/// Reads one file.
struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
    file: &'a str,
    /// Modules that have files of their own.
    children: Vec<Vec<String>>,
    modules: &'a mut Modules,
}

impl Reader<'_> {
    fn module(&mut self, path: Vec<String>) {
        let mut module = Module { file: self.file.to_owned(), ..Module::default() };
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(self.at).copied() {
            let next = self.tokens.get(self.at + 1).copied().unwrap_or_default();
            let after = self.tokens.get(self.at + 2).copied().unwrap_or_default();
            let before = if self.at > 0 { self.tokens[self.at - 1] } else { "" };
            match token {
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "mod" if after == ";" => {
                    self.children.push([&*path, &[next.to_owned()]].concat());
                }
                "mod" if after == "{" => {
                    self.at += 3;
                    self.module([&*path, &[next.to_owned()]].concat());
                }
                "use" if next != "<" => {
                    self.at += 1;
                    let passes_on = before == "pub" || before == ")";
                    self.uses(Vec::new(), passes_on, &mut module);
                    continue;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                    module.defined.insert(next.to_owned());
                }
                // `pub(in crate::a)` says for whom, and imports nothing.
                "in" if before == "(" => {
                    while self.tokens.get(self.at).is_some_and(|it| *it != ")") {
                        self.at += 1;
                    }
                }
                _ if next == "::" && starts_name(token) && before != "::" && before != "." => {
                    let path = self.path();
                    module.paths.push(path);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        self.modules.0.insert(path, module);
    }

    /// Names between `::`, as far as they go.
    fn path(&mut self) -> Vec<String> {
        let mut path = Vec::new();
        while let Some(name) = self.tokens.get(self.at).filter(|it| starts_name(it)) {
            path.push((*name).to_owned());
            self.at += 1;
            if self.tokens.get(self.at) != Some(&"::") {
                break;
            }
            self.at += 1;
        }
        path
    }

    /// What follows `use`, or a part of it between braces, which `prefix` stands before.
    fn uses(&mut self, prefix: Vec<String>, passes_on: bool, module: &mut Module) {
        if self.tokens.get(self.at) == Some(&"::") {
            self.at += 1;
        }
        let mut path = [prefix, self.path()].concat();
        match self.tokens.get(self.at).copied() {
            Some("{") => {
                while self.tokens.get(self.at).is_some_and(|it| *it != "}") {
                    self.at += 1;
                    if self.tokens.get(self.at) != Some(&"}") {
                        self.uses(path.clone(), passes_on, module);
                    }
                }
                self.at += 1;
            }
            Some("*") => {
                self.at += 1;
                module.globs.push(path.clone());
                module.paths.push(path);
            }
            following => {
                if path.len() > 1 && path.last().is_some_and(|it| it == "self") {
                    path.pop();
                }
                let mut name = path.last().cloned().unwrap_or_default();
                if following == Some("as") {
                    name = self.tokens[self.at + 1].to_owned();
                    self.at += 2;
                }
                if passes_on {
                    module.passed_on.insert(name.clone());
                }
                module.uses.insert(name, path.clone());
                module.paths.push(path);
            }
        }
    }
}

fn starts_name(token: &str) -> bool {
    token.starts_with(|it: char| is_name(it) && !it.is_numeric())
}

#[cfg(test)]
mod tests {
    use super::{super::lex::tokens, *};

    /// Reads files given as `name: text` and returns the imports as `a.rs → b.rs`.
    #[track_caller]
    fn check(files: &[(&str, &str)], expect: &[&str]) {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), tokens(text))).collect();
        let modules = Modules::read("lib.rs", &files);
        let imports = modules.imports();
        let found =
            imports.iter().flat_map(|(from, to)| to.iter().map(move |it| format!("{from} {it}")));
        assert_eq!(found.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn imports_are_found_in_every_form() {
        let leaf = ("b.rs", "pub struct B; pub fn f() {}");
        let lib = ("lib.rs", "mod a; mod b;");
        for text in [
            "use crate::b::B;",
            "use crate::{b::f, b::{self, B}};",
            "use super::b::B as C;",
            "use crate::b;",
            "use crate::b; fn g() { b::f() }",
            "fn g() { crate::b::f() }",
            "fn g() -> super::b::B { x }",
            "use crate::b::*;",
            "mod inner { use super::super::b::B; }",
        ] {
            check(&[lib, ("a.rs", text), leaf], &["a.rs b.rs"]);
        }
        for text in
            ["// use crate::b::B;", "pub(in crate::b) fn g() {}", "use b::B;", "x.b::<u8>()"]
        {
            check(&[lib, ("a.rs", text), leaf], &[]);
        }
    }

    #[test]
    fn a_name_that_a_parent_passes_on_is_an_import_of_the_child() {
        let lib = ("lib.rs", "mod a;");
        let parent =
            ("a/mod.rs", "mod b; mod c; pub use b::B; use b as other; struct Own; use ext::X;");
        let of_parent = "a/mod.rs a/b.rs";
        let b = ("a/b.rs", "pub struct B;");
        check(&[lib, parent, b, ("a/c.rs", "use super::B;")], &["a/c.rs a/b.rs", of_parent]);
        check(&[lib, parent, b, ("a/c.rs", "use crate::a::B;")], &["a/c.rs a/b.rs", of_parent]);
        check(&[lib, parent, b, ("a/c.rs", "super::other::f()")], &["a/c.rs a/b.rs", of_parent]);
        check(&[lib, parent, b, ("a/c.rs", "use super::Own;")], &["a/c.rs a/mod.rs", of_parent]);
        check(&[lib, parent, b, ("a/c.rs", "use super::X;")], &["a/c.rs a/mod.rs", of_parent]);
    }

    #[test]
    fn names_that_a_parent_has_by_a_star_are_found() {
        let lib = ("lib.rs", "mod a; mod c;");
        let parent = ("a.rs", "mod b; pub use b::*;");
        let files = [lib, parent, ("a/b.rs", "pub struct B;"), ("c.rs", "use crate::a::B;")];
        check(&files, &["a.rs a/b.rs", "c.rs a/b.rs"]);
    }

    #[test]
    fn crates_are_first_names_that_are_no_modules() {
        let files =
            BTreeMap::from([("lib.rs".to_owned(), tokens("mod a; use a::X; use b::Y; c::z()"))])
                .into_iter()
                .chain([("a.rs".to_owned(), tokens("pub struct X;"))])
                .collect();
        let found = Modules::read("lib.rs", &files).crates(&BTreeSet::from(["a", "b", "c", "d"]));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["b", "c"]);
    }
}
