//! docs/contributing/reliability.md has each row of the catalogue once, and `reliability.tests` beside this file names
//! tests that exist for every row.

use std::collections::BTreeSet;

use super::sources::{area, read};

/// The rows of the catalogue.
const ROWS: u32 = 81;

/// The cells of each row.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter_map(|it| it.strip_prefix("| ")?.strip_suffix(" |"));
    let split = lines.map(|it| it.split(" | ").collect::<Vec<_>>());
    split.filter(|it| it[0].parse::<u32>().is_ok()).collect()
}

#[test]
fn the_page_on_reliability_has_every_row_once_with_three_cells() {
    let page = read("docs/contributing/reliability.md");
    let rows = rows(&page);
    assert!(rows.iter().all(|it| it.len() == 3), "a row has other cells than three");
    let numbers: Vec<u32> = rows.iter().map(|it| it[0].parse().unwrap()).collect();
    assert_eq!(numbers, (1..=ROWS).collect::<Vec<_>>());
}

#[test]
fn the_tests_that_hold_its_rows_exist() {
    let list = read("tests/architecture/reliability.tests");
    let mut held = BTreeSet::new();
    for line in list.lines() {
        let (row, test) = line.split_once(" | ").unwrap_or_else(|| panic!("{line}"));
        let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{test}"));
        let file = match file.contains("/src/") {
            true => format!("{file}.rs"),
            false => area(file).unwrap_or_else(|| panic!("row {row}: there is no {file}")),
        };
        let is_there = read(&file).contains(&format!("fn {name}("));
        assert!(is_there, "row {row}: {file} has no test '{name}'");
        held.insert(row.parse::<u32>().unwrap_or_else(|_| panic!("{line}")));
    }
    assert_eq!(held, (1..=ROWS).collect());
}
