//! The blocks of pages, run as a reader would: in their order, in one shell, against the program that is tested.

use std::{path::PathBuf, process::Command};

use crate::support::{
    python::{python, run},
    root, with_tools,
};

fn entries(folder: &str) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(root(folder)).unwrap().map(|it| it.unwrap().path())
}

#[test]
fn the_blocks_of_readme_guides_and_examples_print_what_the_pages_say() {
    let Some(python) = python("requirements-pages.txt") else { return };
    let mut pages = vec![root("README.md"), root("docs/get-started.md")];
    pages.extend(entries("docs/guides"));
    pages.extend(entries("examples").map(|it| it.join("README.md")).filter(|it| it.exists()));
    pages.sort();
    let mut every = Command::new(python);
    every.arg(root("tests/clients/pages.py")).arg("--muster").arg(with_tools()).args(pages);
    println!("{}", run(&mut every).unwrap_or_else(|problem| panic!("{problem}")));
}
