//! Documents whose tables say of everything that another server has what becomes of it, and which test holds that.

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
const STATES: [&str; 4] = [WORKS, IGNORED, NOT_APPLICABLE, REFUSED];

/// One row of a table: what is in its first column, between backticks, and the other columns.
pub struct Row {
    pub item: String,
    pub state: String,
    pub test: String,
    pub note: String,
}

/// The rows under each heading of the second level.
fn tables(document: &str) -> BTreeMap<String, Vec<Row>> {
    let text = fs::read_to_string(root(document)).unwrap();
    let mut tables: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut heading = "";
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(it) = line.strip_prefix("## ") {
            heading = it;
        }
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", item, state, test, ref notes @ ..] = columns[..] else { continue };
        // The head of a table, the line below it, and what is above all headings.
        let is_head = lines.peek().is_some_and(|it| it.starts_with("|---"));
        if is_head || item.starts_with("---") || heading.is_empty() {
            continue;
        }
        let quoted = item.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
        let item = quoted.unwrap_or_else(|| {
            panic!("{document}, {heading}: expected an item between backticks, given '{item}'")
        });
        let [item, state, test] = [item, state, test.trim_matches('`')].map(str::to_owned);
        let note = notes.first().map(|it| (*it).to_owned()).unwrap_or_default();
        tables.entry(heading.to_owned()).or_default().push(Row { item, state, test, note });
    }
    tables
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

/// These headings have tables, in sorted order, and every row of them has a state and names a test that exists.
#[track_caller]
pub fn check_rows(document: &str, headings: &[&str]) {
    let tables = tables(document);
    assert_eq!(tables.keys().map(String::as_str).collect::<Vec<_>>(), headings);
    for (heading, rows) in tables {
        for Row { item, state, test, .. } in rows {
            assert!(STATES.contains(&&*state), "{heading}, {item}: the state is '{state}'");
            assert!(exists(&test), "{heading}, {item}: there is no test '{test}'");
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
