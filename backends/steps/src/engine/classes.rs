//! Names of classes, from a file with one in each line or from `config.json`.

use std::sync::Arc;

use backend::BackendError;

use super::{files, settings::StepSettings};
use crate::{
    error::FolderError,
    folder::{
        Config,
        document::{Document, read_bytes},
    },
};

/// The parameter that names the file.
pub(super) const LABELS: &str = "labels";

/// What the file says: of one with names alone, the configuration that says no more.
///
/// # Errors
/// When it is missing or wrong, or the configuration has another number of classes for the input `logits`.
pub(super) fn read(settings: &StepSettings<'_>) -> Result<Config, BackendError> {
    let config = named(settings)?;
    check(settings, &config)?;
    Ok(config)
}

/// The same for a step whose input has not one number for each class.
///
/// # Errors
/// When it is missing or wrong.
pub(super) fn named(settings: &StepSettings<'_>) -> Result<Config, BackendError> {
    let place = files::required(settings, LABELS)?;
    let read = || -> Result<Config, FolderError> {
        if place.name.ends_with(".json") {
            let document = Document::read(&place.dir, &place.name)?;
            let missing = || FolderError::file(&*place.name, "it is missing");
            return Config::from_document(&document.ok_or_else(missing)?);
        }
        let bytes = read_bytes(&place.dir, &place.name)?.unwrap_or_default();
        let text = String::from_utf8(bytes)
            .map_err(|_| FolderError::file(&*place.name, "it is no text"))?;
        // Editors put a byte order mark in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let labels: Vec<Arc<str>> = text.lines().map(str::trim_end).map(Arc::from).collect();
        if let Some(empty) = labels.iter().position(|it| it.is_empty()) {
            let problem = format!("line {} is empty, each line is one label", empty + 1);
            return Err(FolderError::file(&*place.name, problem));
        }
        match labels.is_empty() {
            true => Err(FolderError::file(&*place.name, "it has no labels")),
            false => Ok(Config { labels, has_labels: true, ..Config::default() }),
        }
    };
    read().map_err(|error| settings.wrong(LABELS, error))
}

/// The classes that the configuration gives the input are as many as the labels.
fn check(settings: &StepSettings<'_>, config: &Config) -> Result<(), BackendError> {
    let hints = &settings.source.hints.inputs;
    let logits = hints.iter().find(|it| &*it.name == "logits");
    let classes = logits.and_then(|it| it.dims.as_ref()?.last().copied().flatten());
    match classes.filter(|it| *it != config.labels.len()) {
        None => Ok(()),
        Some(classes) => {
            let problem = format!(
                "{} has {} labels, and the input 'logits' {classes} classes",
                settings.text(LABELS).unwrap_or_default(),
                config.labels.len()
            );
            Err(settings.wrong(LABELS, problem))
        }
    }
}
