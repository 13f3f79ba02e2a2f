//! Ensembles of steps, written out as a repository.

use std::{fs, io, path::Path};

use steps::{Precision, WEIGHTS, said_precision, whole_graph_of};

use crate::explain::{
    model::{Ensemble, ExplainError, Explained, ExplainedFolder, Meaning},
    report::graph_name,
};

/// Writes the ensembles of all folders that have one into `to`, which is made, or is empty. Files are copied. Blocking.
///
/// # Errors
/// When something lies there, a file cannot be written, or there is nothing to write.
pub fn write(explained: &[Explained], to: &Path) -> Result<(), ExplainError> {
    let failed = |error: io::Error| ExplainError(format!("cannot write {}: {error}", to.display()));
    fs::create_dir_all(to).map_err(failed)?;
    if fs::read_dir(to).map_err(failed)?.next().is_some() {
        return Err(ExplainError(format!("{} is not empty", to.display())));
    }
    let mut written = 0;
    for model in explained {
        if let Meaning::Pipeline(folder) = &model.meaning
            && let Ok(ensemble) = &folder.ensemble
        {
            write_ensemble(folder, ensemble, to).map_err(failed)?;
            written += 1;
        }
    }
    match written {
        0 => Err(ExplainError("no model is an ensemble of steps: nothing is written".to_owned())),
        _ => Ok(()),
    }
}

fn write_ensemble(folder: &ExplainedFolder, ensemble: &Ensemble, to: &Path) -> io::Result<()> {
    for config in &ensemble.configs {
        let dir = to.join(&config.model);
        fs::create_dir_all(dir.join("1"))?;
        fs::write(dir.join("config.pbtxt"), &config.text)?;
    }
    let dir = to.join(&ensemble.graph_model);
    let graph = folder.dir.join(&ensemble.graph);
    let written = dir.join("1").join(graph_name(&ensemble.graph));
    if WEIGHTS.contains(&&*ensemble.graph) {
        let whole = whole_graph_of(&folder.dir, ensemble.precision).map_err(io::Error::other)?;
        fs::write(written, whole.model)?;
    } else {
        copy(&graph, &written)?;
    }
    // Weights that the graph has beside itself are found by their own names.
    let name = graph.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in fs::read_dir(graph.parent().unwrap_or(&folder.dir))? {
        let other = entry?.file_name().to_string_lossy().into_owned();
        if other != name && other.starts_with(&name) {
            copy(&graph.with_file_name(&other), &dir.join("1").join(&other))?;
        }
    }
    for file in &ensemble.plan.files {
        copy(&folder.dir.join(file), &dir.join(file))?;
    }
    for (file, content) in &ensemble.plan.made {
        fs::write(dir.join(file), content)?;
    }
    Ok(())
}

/// Writes the graph that is made for the weights of a folder, with the weights inside. Blocking.
///
/// # Errors
/// When none can be made, or the file cannot be written.
pub fn write_graph(
    folder: &Path,
    precision: Option<Precision>,
    to: &Path,
) -> Result<(), ExplainError> {
    let precision = precision.or_else(|| said_precision(folder)).unwrap_or_default();
    let graph = whole_graph_of(folder, precision)
        .map_err(|it| ExplainError(format!("no graph is made for {}: {it}", folder.display())))?;
    fs::write(to, graph.model)
        .map_err(|it| ExplainError(format!("cannot write {}: {it}", to.display())))
}

/// Copies a file, or a directory with what is in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if !from.is_dir() {
        let (mut from, mut to) = (backend::open_file(from)?, fs::File::create(to)?);
        return io::copy(&mut from, &mut to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        copy(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}
