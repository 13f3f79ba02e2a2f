//! The blocks of pages, run as a reader would: in their order, in one shell, against the program that is tested.

use std::process::Command;

use crate::support::{
    python::{python, run},
    root, with_tools,
};

#[test]
fn the_blocks_of_the_readme_and_of_the_guides_print_what_the_pages_say() {
    let Some(python) = python("requirements-pages.txt") else { return };
    let mut pages = vec![root("README.md"), root("docs/get-started.md")];
    let guides = std::fs::read_dir(root("docs/guides")).unwrap();
    pages.extend(guides.map(|it| it.unwrap().path()));
    pages.sort();
    let mut every = Command::new(python);
    every.arg(root("tests/clients/pages.py")).arg("--muster").arg(with_tools()).args(pages);
    println!("{}", run(&mut every).unwrap_or_else(|problem| panic!("{problem}")));
}
