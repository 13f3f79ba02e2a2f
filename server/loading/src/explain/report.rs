//! What was found out, as a text for people.

use std::{fmt::Write as _, fs, path::Path};

use steps::Fate;

use crate::explain::model::{Ensemble, Explained, ExplainedFolder, Meaning};

/// All models, one after another.
pub fn report(explained: &[Explained]) -> String {
    let mut text = String::new();
    for (at, Explained { name, meaning }) in explained.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = match meaning {
            Meaning::Pipeline(folder) => {
                let _ = writeln!(text, "model '{name}': {}", folder.description);
                folder_text(&mut text, folder)
            }
            Meaning::Tensors(reason) => {
                writeln!(text, "model '{name}': served as tensors, and not as a pipeline: {reason}")
            }
            Meaning::Refused(reason) => writeln!(text, "model '{name}' is not served: {reason}"),
        };
    }
    text
}

fn folder_text(text: &mut String, folder: &ExplainedFolder) -> std::fmt::Result {
    for warning in &folder.warnings {
        writeln!(text, "note: {warning}")?;
    }
    writeln!(text, "\nFiles of {}:", folder.dir.display())?;
    for note in &folder.files {
        match &note.fate {
            Fate::Read => writeln!(text, "  read     {}", note.file)?,
            Fate::Weights => writeln!(
                text,
                "  weights  {}: the graph is made for them, as config.json describes it",
                note.file
            )?,
            Fate::Ignored(reason) => writeln!(text, "  ignored  {}: {reason}", note.file)?,
            Fate::Missing => writeln!(text, "  missing  {}", note.file)?,
        }
    }
    for other in others(folder) {
        writeln!(text, "  ignored  {other}: nothing reads it")?;
    }
    match &folder.ensemble {
        Ok(ensemble) => ensemble_text(text, ensemble),
        Err(reason) => writeln!(text, "\nNo ensemble of steps does the same: {reason}"),
    }
}

/// Entries of the folder that no note is about.
fn others(folder: &ExplainedFolder) -> Vec<String> {
    let is_noted = |name: &str| {
        folder.files.iter().any(|it| it.file == name || it.file.starts_with(&format!("{name}/")))
    };
    let entries = fs::read_dir(&folder.dir).into_iter().flatten().flatten();
    let names = entries.map(|it| it.file_name().to_string_lossy().into_owned());
    let mut others: Vec<String> = names.filter(|it| !is_noted(it)).collect();
    others.sort();
    others
}

fn ensemble_text(text: &mut String, ensemble: &Ensemble) -> std::fmt::Result {
    writeln!(text, "\nThe same by hand: a repository with these files. It has not:")?;
    for lack in &ensemble.plan.lacks {
        writeln!(text, "  {lack}")?;
    }
    for config in &ensemble.configs {
        write!(text, "\n# {}/config.pbtxt\n{}", config.model, config.text)?;
    }
    text.push('\n');
    let model = &ensemble.graph_model;
    writeln!(
        text,
        "# {model}/1/{}: {} of the folder",
        graph_name(&ensemble.graph),
        ensemble.graph
    )?;
    for file in &ensemble.plan.files {
        writeln!(text, "# {model}/{file}: that of the folder")?;
    }
    for (file, content) in &ensemble.plan.made {
        write!(text, "# {model}/{file}:\n{content}")?;
    }
    Ok(())
}

/// The usual name of a graph of that kind.
pub(super) fn graph_name(graph: &str) -> &'static str {
    match Path::new(graph).extension().is_some_and(|it| it == "pt") {
        true => "model.pt",
        false => "model.onnx",
    }
}
