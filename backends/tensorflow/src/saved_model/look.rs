//! What is found out of a SavedModel before TensorFlow sees it, as a whole.

use std::path::Path;

use backend::BackendError;

use super::{
    GraphChoice, SavedModelError, check_files, danger_of, graph_of, overrides_of, read,
    signatures_of,
};

/// What a folder holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Names of the signatures that can be served, the default one first.
    pub signatures: Vec<String>,
    /// An operation of the graph that reaches files or runs code.
    pub danger: Option<String>,
}

/// Looks at the SavedModel in that folder as a load does before it opens TensorFlow: for who tries folders without it.
///
/// # Errors
/// Those of a load.
pub fn look(folder: &Path) -> Result<Look, BackendError> {
    let refused = |it: SavedModelError| BackendError::Load(format!("{}: {it}", folder.display()));
    let file = read(folder)?;
    let (graph, _) = graph_of(&file, &GraphChoice::Usual).map_err(refused)?;
    let found = signatures_of(graph, None).map_err(refused)?;
    let danger = danger_of(graph).map(|it| it.operation);
    let all = || std::iter::once(&found.default).chain(&found.others);
    let operations = all().flat_map(|it| it.operations.iter().cloned()).collect();
    check_files(folder, folder, graph, &operations).map_err(refused)?;
    overrides_of(folder).map_err(refused)?;
    Ok(Look { signatures: all().map(|it| it.name.clone()).collect(), danger })
}
