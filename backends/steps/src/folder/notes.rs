//! Which files of a folder were read, passed over or looked for in vain.

use std::sync::Arc;

/// A file, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNote {
    /// Its name, relative to the folder.
    pub file: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It was read.
    Read,
    /// It has the weights of the graph, which was made for them.
    Weights,
    /// It is there and was passed over, for this reason.
    Ignored(Arc<str>),
    /// It is not there.
    Missing,
}

/// Notes in the making.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(Vec<FileNote>);

impl Notes {
    /// A file was read.
    pub(crate) fn read(&mut self, file: &str) {
        self.note(file, Fate::Read);
    }

    /// A graph is made for the weights in a file.
    pub(crate) fn weights(&mut self, file: &str) {
        self.note(file, Fate::Weights);
    }

    /// A file was passed over.
    pub(crate) fn ignored(&mut self, file: &str, reason: &str) {
        self.note(file, Fate::Ignored(reason.into()));
    }

    /// A file is not there.
    pub(crate) fn missing(&mut self, file: &str) {
        self.note(file, Fate::Missing);
    }

    fn note(&mut self, file: &str, fate: Fate) {
        if !self.0.iter().any(|it| it.file == file) {
            self.0.push(FileNote { file: file.to_owned(), fate });
        }
    }

    /// The notes, in the order in which they were made.
    pub(crate) fn finish(self) -> Vec<FileNote> {
        self.0
    }
}
