//! An ensemble as plain values, from which its configuration is written.

use backend::DataType;

/// An ensemble that does what a pipeline does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedEnsemble {
    /// What clients send.
    pub inputs: Vec<ExplainedPort>,
    /// What they get.
    pub outputs: Vec<ExplainedPort>,
    /// In order; the one without a step is the graph.
    pub members: Vec<ExplainedMember>,
    /// Does one request have one text, whose windows or pairs are the rows of the graph?
    pub is_unbatched: bool,
    /// Files and subfolders of the folder that the steps read.
    pub files: Vec<String>,
    /// Files that the folder does not have, and what stands in them.
    pub made: Vec<(String, String)>,
    /// What of the pipeline the ensemble does not have.
    pub lacks: Vec<String>,
}

/// An input or output of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedPort {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub dtype: DataType,
    /// The dimensions of a row; `None`: of any size.
    pub dims: Vec<Option<usize>>,
    /// An input that may be left out.
    pub is_optional: bool,
}

/// A model of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedMember {
    /// What the name of the ensemble is followed by.
    pub suffix: &'static str,
    /// Its step and the parameters of that; `None` of the graph.
    pub step: Option<(&'static str, Vec<(&'static str, ExplainedValue)>)>,
    /// Inputs and outputs that have another type than the step has by itself.
    pub types: Vec<(String, DataType)>,
    /// Its inputs and the tensors of the ensemble that they get.
    pub inputs: Vec<(String, String)>,
    /// Its outputs and the tensors that they become.
    pub outputs: Vec<(String, String)>,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainedValue {
    /// A text as it is.
    Text(String),
    /// Files or subfolders of the folder, and other words between them.
    Files(Vec<ExplainedFile>),
}

/// A word of a parameter that names files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainedFile {
    /// A file or subfolder, relative to the folder.
    File(String),
    /// Something else.
    Word(String),
}

/// A port that must be given.
pub(super) fn port(name: &'static str, dtype: DataType, dim: Option<usize>) -> ExplainedPort {
    ExplainedPort { name, dtype, dims: vec![dim], is_optional: false }
}

/// A parameter that is a text.
pub(crate) fn text(text: impl Into<String>) -> ExplainedValue {
    ExplainedValue::Text(text.into())
}

/// A parameter that is a file of the folder.
pub(crate) fn file(name: &str) -> ExplainedValue {
    ExplainedValue::Files(vec![ExplainedFile::File(name.to_owned())])
}

/// A tensor that is called as the input or output that it goes through.
pub(super) fn same(name: &str) -> (String, String) {
    (name.to_owned(), name.to_owned())
}
