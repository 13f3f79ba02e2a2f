//! docs/architecture.md, the map of the code, names every crate, and every folder of modules as `crate/folder`.

use std::collections::BTreeSet;

use super::sources::{crates, read, root, sources};

#[test]
fn the_map_names_every_crate_and_every_folder_of_modules() {
    let map = read("docs/architecture.md");
    let named = |word: &str| map.contains(&format!("`{word}`"));
    let mut wrong = Vec::new();
    for it in crates().iter().filter(|it| !named(&it.folder)) {
        wrong.push(format!("it does not name the crate `{}`", it.folder));
    }
    let mut rooms = BTreeSet::new();
    for source in sources().iter().filter(|it| !it.is_test) {
        let (_, inside) = source.path.split_once("/src/").expect("in src");
        if let Some((folder, _)) = inside.split_once('/') {
            rooms.insert(format!("{}/{folder}", source.owner));
        }
    }
    for room in rooms.iter().filter(|it| !named(it)) {
        wrong.push(format!("it does not name the folder `{room}`"));
    }
    assert!(wrong.is_empty(), "docs/architecture.md:\n{}", wrong.join("\n"));
}

#[test]
fn what_the_map_names_exists() {
    let map = read("docs/architecture.md");
    let crates = crates();
    for word in map.split('`').skip(1).step_by(2).filter(|it| !it.contains([' ', '\n'])) {
        let Some((first, rest)) = word.split_once('/') else { continue };
        let folder = match crates.iter().find(|it| it.name == first) {
            Some(it) => format!("{}/src/{rest}", it.folder),
            None if ["server", "backends", "tests", "docs"].contains(&first) => word.to_owned(),
            None => continue,
        };
        let exists =
            [folder.clone(), format!("{folder}.rs")].iter().any(|it| root().join(it).exists());
        assert!(exists, "docs/architecture.md names `{word}`, which does not exist");
    }
}
