//! No file imports one that imports it, directly or by way of others: files can be read one after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    modules::Modules,
    sources::{Source, crates, sources},
};

/// Two files that import each other, and why that is better than one of them or three.
const PAIRS: &[(&str, &str, &str)] = &[];

/// The files of a crate, each with those that it imports, by their paths under the crate's `src`.
fn imports(name: &str, sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let mine: Vec<&Source> = sources.iter().filter(|it| it.owner == name).collect();
    let files = mine.iter().map(|it| (it.place().to_owned(), it.product())).collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut reached = BTreeSet::new();
    for root in ["lib.rs", "main.rs"] {
        let modules = Modules::read(root, &files);
        reached.extend(modules.files().into_iter().map(str::to_owned));
        for (from, to) in modules.imports() {
            found.entry(from.to_owned()).or_default().extend(to.into_iter().map(str::to_owned));
        }
    }
    let is_lost = |it: &&&Source| !it.is_test && !reached.contains(it.place());
    let lost: Vec<&str> = mine.iter().filter(is_lost).map(|it| &*it.path).collect();
    assert!(lost.is_empty(), "no file of the crate declares {lost:?}");
    found
}

/// The files that a file imports, directly or by way of others.
fn reached<'a>(
    from: &'a str,
    imports: &'a BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![from];
    while let Some(file) = left.pop() {
        let next = imports.get(file).into_iter().flatten();
        left.extend(next.map(|it| &**it).filter(|it| found.insert(*it)));
    }
    found
}

/// The files of each circle, the largest first.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|it| (&**it, reached(it, imports))).collect();
    let mut found = BTreeSet::new();
    for (file, others) in reached.iter().filter(|(file, others)| others.contains(*file)) {
        let back = others.iter().filter(|it| reached.get(**it).is_some_and(|it| it.contains(file)));
        found.insert(back.copied().collect::<Vec<_>>());
    }
    let mut found: Vec<Vec<&str>> = found.into_iter().collect();
    found.sort_by_key(|it| std::cmp::Reverse(it.len()));
    found
}

/// What a circle consists of, one line per file.
fn shown(circle: &[&str], imports: &BTreeMap<String, BTreeSet<String>>) -> String {
    let line = |file: &&str| {
        let inside = imports[*file].iter().map(|it| &**it).filter(|it| circle.contains(it));
        format!("  {file} imports {}\n", inside.collect::<Vec<_>>().join(", "))
    };
    circle.iter().map(line).chain(["\n".to_owned()]).collect()
}

#[test]
fn no_file_imports_one_that_imports_it() {
    let sources = sources();
    let mut wrong = Vec::new();
    let mut pairs = BTreeSet::new();
    for it in crates() {
        let imports = imports(&it.name, &sources);
        let found = circles(&imports);
        let mut is_pair = |circle: &&Vec<&str>| {
            let path = |file: &str| format!("{}/src/{file}", it.folder);
            let listed = PAIRS.iter().find(|(a, b, _)| **circle == [path(a), path(b)]);
            listed.is_some_and(|(a, _, _)| pairs.insert(*a))
        };
        let found: Vec<&Vec<&str>> = found.iter().filter(|it| !is_pair(it)).collect();
        for circle in found {
            let shown = shown(circle, &imports);
            wrong.push(format!("{}: {} files in a circle:\n{shown}", it.name, circle.len()));
        }
    }
    for (a, b, _) in PAIRS.iter().filter(|(a, _, _)| !pairs.contains(a)) {
        wrong.push(format!("{a} and {b} are no pair any more: take them off the list"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn circles_are_found() {
    let edges =
        [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("e", "f")];
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges {
        imports.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    assert_eq!(circles(&imports), [vec!["a", "b", "c"], vec!["d", "e"]]);
}
