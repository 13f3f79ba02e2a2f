//! Documents whose tables say of everything that another server has what becomes of it, and lists of the tests that
//! hold that.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use crate::support::root;

/// What a row may say.
pub const WORKS: &str = "works";
pub const IGNORED: &str = "accepted and ignored";
pub const NOT_APPLICABLE: &str = "not applicable";
pub const REFUSED: &str = "refused";

/// What the note of a row begins with, where the item does not work as there.
const MARKS: [(&str, &str); 3] =
    [("**Ignored", IGNORED), ("**Not here", NOT_APPLICABLE), ("**Refused", REFUSED)];

/// One item of a table: the first column has one or several between backticks, the second a note on all of them.
pub struct Row {
    pub item: String,
    pub state: &'static str,
    pub note: String,
}

/// The items under each heading of the second level. Tables whose first column has no backticks are none of these.
fn tables(document: &str) -> BTreeMap<String, Vec<Row>> {
    let text = fs::read_to_string(root(document)).unwrap();
    let mut tables: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut heading = "";
    for line in text.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", items, note, ""] = columns[..] else { continue };
        let mark = MARKS.iter().find(|(mark, _)| note.starts_with(mark));
        for item in items.split('`').skip(1).step_by(2).flat_map(spelt_out) {
            let state = mark.map_or(WORKS, |it| it.1);
            let row = Row { item, state, note: note.to_owned() };
            tables.entry(heading.to_owned()).or_default().push(row);
        }
    }
    tables
}

/// `Message.{one, other}` is two items; other braces are part of one.
fn spelt_out(item: &str) -> Vec<String> {
    let braces = item.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        let is_name = |it: char| it.is_ascii_alphanumeric() || "_-, ".contains(it);
        (inside.contains(", ") && inside.chars().all(is_name)).then_some((before, inside, after))
    });
    match braces {
        None => match item.split_once('}') {
            // Further braces may follow those of an address.
            Some((before, after)) if after.contains('{') => {
                let rest = spelt_out(after).into_iter();
                rest.map(|it| format!("{before}}}{it}")).collect()
            }
            _ => vec![item.to_owned()],
        },
        Some((before, inside, after)) => {
            inside.split(", ").flat_map(|it| spelt_out(&format!("{before}{it}{after}"))).collect()
        }
    }
}

/// The tests of a list, under each heading by their item: `item | file::name`.
fn tests(list: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let text = fs::read_to_string(root(list)).unwrap();
    let mut tests: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut heading = "";
    for line in text.lines().filter(|it| !it.is_empty()) {
        match line.strip_prefix("## ") {
            Some(it) => heading = it,
            None => {
                let (item, test) =
                    line.rsplit_once(" | ").unwrap_or_else(|| panic!("{list}: {line}"));
                let of_heading = tests.entry(heading.to_owned()).or_default();
                of_heading.push((item.to_owned(), test.to_owned()));
            }
        }
    }
    tests
}

/// The rows under one heading.
pub fn table(document: &str, heading: &str) -> Vec<Row> {
    let table = tables(document).remove(heading);
    table.unwrap_or_else(|| panic!("{document} has no table under '{heading}'"))
}

/// The table has one row for each of these, and no other.
#[track_caller]
pub fn check_complete(document: &str, heading: &str, expected: impl IntoIterator<Item = String>) {
    let rows = table(document, heading);
    let listed: BTreeSet<String> = rows.iter().map(|it| it.item.clone()).collect();
    assert_eq!(rows.len(), listed.len(), "'{heading}' lists something twice");
    let expected: BTreeSet<String> = expected.into_iter().collect();
    let missing: Vec<_> = expected.difference(&listed).collect();
    assert!(missing.is_empty(), "'{heading}' lacks {missing:?}");
    let unknown: Vec<_> = listed.difference(&expected).collect();
    assert!(unknown.is_empty(), "'{heading}' lists what does not exist: {unknown:?}");
}

/// These headings have tables, in sorted order, and the list names for every item of them a test that exists.
#[track_caller]
pub fn check_rows(document: &str, list: &str, headings: &[&str]) {
    let (tables, tests) = (tables(document), tests(list));
    assert_eq!(tables.keys().map(String::as_str).collect::<Vec<_>>(), headings);
    assert_eq!(tests.keys().map(String::as_str).collect::<Vec<_>>(), headings);
    for (heading, of_heading) in tests {
        check_complete(document, &heading, of_heading.iter().map(|it| it.0.clone()));
        for (item, test) in of_heading {
            assert!(exists(&test), "{list}, {heading}, {item}: there is no test '{test}'");
        }
    }
}

/// `<file>::<name>`: a test of that file, or a function of a script.
fn exists(test: &str) -> bool {
    let Some((file, name)) = test.split_once("::") else { return false };
    let Ok(text) = fs::read_to_string(root(file)) else { return false };
    match file.ends_with(".py") {
        true => text.contains(&format!("\ndef {name}(")),
        false => {
            let head = format!("fn {name}() ");
            let before = text.split(&head).next().filter(|it| it.len() < text.len());
            // Attributes stand between this one and the function.
            before
                .is_some_and(|it| it.rsplit("\n\n").next().is_some_and(|it| it.contains("#[test]")))
        }
    }
}
