//! docs/contributing/reliability.md has each row of the catalogue once, held by tests that exist or told to be held by
//! none.

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
fn the_page_on_reliability_has_every_row_once_with_four_cells() {
    let page = read("docs/contributing/reliability.md");
    let rows = rows(&page);
    assert!(rows.iter().all(|it| it.len() == 4), "a row has other cells than four");
    let numbers: Vec<u32> = rows.iter().map(|it| it[0].parse().unwrap()).collect();
    assert_eq!(numbers, (1..=ROWS).collect::<Vec<_>>());
}

#[test]
fn the_tests_that_hold_its_rows_exist() {
    let page = read("docs/contributing/reliability.md");
    for row in rows(&page) {
        let tests: Vec<&str> = row[3].split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty() || row[3].starts_with("not held"), "row {}", row[0]);
        for test in tests {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{test}"));
            let file = match file.contains("/src/") {
                true => format!("{file}.rs"),
                false => area(file).unwrap_or_else(|| panic!("row {}: there is no {file}", row[0])),
            };
            let is_there = read(&file).contains(&format!("fn {name}("));
            assert!(is_there, "row {}: {file} has no test '{name}'", row[0]);
        }
    }
}
