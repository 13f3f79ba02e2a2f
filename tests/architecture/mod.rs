//! What the code may import, and where which words belong. Each table fails in both directions: for what it does not
//! list, and for what it lists and does not exist any more.

mod lex; // text of a source file → words and signs
mod modules; // words and signs → the modules of a crate, and what each of its files imports
mod sources; // the crates of the workspace and their files

mod circles; // files that import each other
mod crates; // which crate imports which
mod map; // docs/architecture.md names every crate and every folder of modules
mod pages; // sentences are short, links lead somewhere
mod reference; // metrics, fields and statuses of the code are those of the reference
mod reliability; // docs/contributing/reliability.md has every row, and tests that exist hold it
mod rules; // no globals, pure code, unsafe code, the first line
mod words; // names of crates and paths of std, and the places that say them
