//! The blocks of pages, run as a reader would: in their order, in one shell, against the program that is tested. The
//! pages are several tests, which run beside each other: each has a network of its own.

use std::{path::PathBuf, process::Command};

use crate::support::{
    python::{python, run},
    root, with_tools,
};

fn entries(folder: &str) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(root(folder)).unwrap().map(|it| it.unwrap().path())
}

/// The guides whose names are such.
fn guides(is_one: fn(&str) -> bool) -> Vec<PathBuf> {
    entries("docs/guides").filter(|it| is_one(it.file_name().unwrap().to_str().unwrap())).collect()
}

/// Whether a guide is for those who come from another server.
fn is_from_another(name: &str) -> bool {
    name.starts_with("from-")
}

#[track_caller]
fn check(mut pages: Vec<PathBuf>) {
    assert!(pages.len() > 1, "{pages:?}");
    let Some(python) = python("requirements-pages.txt") else { return };
    pages.sort();
    let mut every = Command::new(python);
    every.arg(root("tests/clients/pages.py")).arg("--muster").arg(with_tools()).args(pages);
    println!("{}", run(&mut every).unwrap_or_else(|problem| panic!("{problem}")));
}

#[test]
fn the_blocks_of_readme_and_the_first_steps_print_what_the_pages_say() {
    check(vec![root("README.md"), root("docs/get-started.md")]);
}

#[test]
fn the_blocks_of_examples_print_what_the_pages_say() {
    check(entries("examples").map(|it| it.join("README.md")).filter(|it| it.exists()).collect());
}

#[test]
fn the_blocks_of_guides_from_other_servers_print_what_the_pages_say() {
    check(guides(is_from_another));
}

#[test]
fn the_blocks_of_guides_a_to_p_print_what_the_pages_say() {
    check(guides(|it| !is_from_another(it) && it < "q"));
}

#[test]
fn the_blocks_of_guides_q_to_z_print_what_the_pages_say() {
    check(guides(|it| !is_from_another(it) && it >= "q"));
}
