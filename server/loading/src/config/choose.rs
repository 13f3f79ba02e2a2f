//! Which engine a model is for, and what that engine needs to load it: the step before the model's inputs
//! and outputs are known.

use std::{collections::BTreeMap, path::Path};

use crate::{
    config::{
        check::{
            report::{Report, file_name},
            unsupported::unsupported,
        },
        elsewhere::advice,
        engines::{Engines, KnownFormat},
    },
    repository::{flat::is_beside_a_graph, inspect},
};
use backend::Format;
use inference::signature::nearest;
use serving::config::{
    model::{ConfigErrors, is_finding},
    raw::ModelConfig as RawConfig,
};

/// Where a model was found.
#[derive(Debug, Clone, Copy)]
pub struct VersionFiles<'a> {
    /// Name of the model's folder.
    pub model: &'a str,
    /// The version folder that was looked into.
    pub directory: &'a Path,
    /// Names of the files and folders in it.
    pub files: &'a [String],
}

/// What must be known to load a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineChoice {
    /// For example `onnxruntime_onnx`; empty where the engine has but one format.
    pub platform: String,
    /// For example `onnxruntime`.
    pub backend: String,
    /// Within a version's folder; `None` where the engine needs no file.
    pub default_model_filename: Option<String>,
    /// The configuration's `parameters`, and `optimization.graph.level` where it is given.
    pub options: BTreeMap<String, String>,
}

/// May what a configuration leaves out be taken from the model?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Yes.
    On,
    /// No: the configuration must be complete (`--disable-auto-complete-config`).
    Off,
}

/// Platform, backend and the usual file of a model.
type Chosen = (String, String, Option<&'static str>);

/// Finds the engine among `engines`, those that this server has.
///
/// # Errors
/// Fields that are not supported, a platform that does not go with the backend, an engine that the server
/// does not have, or no sign of any engine: then the files that could be served are named.
pub fn choose(
    raw: Option<&RawConfig>,
    found: VersionFiles<'_>,
    engines: &Engines,
    completion: Completion,
) -> Result<EngineChoice, ConfigErrors> {
    let none = RawConfig::default();
    let raw = raw.unwrap_or(&none);
    let mut report = Report::default();
    let chosen = match (raw.platform.as_str(), raw.backend.as_str()) {
        ("", "") => detected(raw, found, engines, completion),
        (platform, backend) => given(platform, engines.name_of(backend), found.files, engines),
    };
    let (platform, backend, file) = chosen.unwrap_or_else(|problem| {
        report.problem(problem);
        Chosen::default()
    });
    let names = engines.names();
    if !backend.is_empty() && !names.contains(&backend.as_str()) {
        let known = names.join(", ");
        let hint = hint(&backend, &names);
        report.problem(format!("backend '{backend}' is not among this server's: {known}{hint}"));
    }
    unsupported(raw, &backend, engines, &mut report);
    // Here and not with the rest of the configuration: the engine opens the file before that is read.
    file_name("default_model_filename", &raw.default_model_filename, &mut report);
    for (capability, name) in &raw.cc_model_filenames {
        file_name(&format!("cc_model_filenames '{capability}'"), name, &mut report);
    }
    let given_file = Some(raw.default_model_filename.clone()).filter(|it| !it.is_empty());
    let parameters = raw.parameters.iter().filter(|(key, _)| !is_finding(key));
    let mut options: BTreeMap<String, String> =
        parameters.map(|(key, it)| (key.clone(), it.string_value.clone())).collect();
    if let Some(graph) = raw.optimization.as_ref().and_then(|it| it.graph.as_ref()) {
        options.insert("optimization.graph.level".to_owned(), graph.level.to_string());
    }
    let file = file.map(|it| file_of_format(it, found, engines).unwrap_or(it));
    let default_model_filename = given_file.or_else(|| file.map(str::to_owned));
    let choice = EngineChoice { platform, backend, default_model_filename, options };
    // The warnings come again when the configuration is completed, and are logged then.
    report.into_result(found.model, choice).map(|(choice, _)| choice)
}

/// The file that takes the place of the usual one of a format.
fn file_of_format<'a>(usual: &str, found: VersionFiles<'a>, engines: &Engines) -> Option<&'a str> {
    let format = engines.formats().into_iter().find(|it| it.format.file == usual)?.format;
    if found.files.iter().any(|it| it == usual) {
        return None;
    }
    let is_other = |it: &&&str| found.files.iter().any(|file| file == **it);
    // What cannot be told by its content is opened by its name, so that the engine says what is wrong with it.
    other_of_format(&format, found).or_else(|| format.other_files.iter().find(is_other).copied())
}

/// A file with another name than the usual one: by the format's other names, else the first of those that are one model
/// together. Else it is the only one with its ending, or the only one that is of the format by its bytes.
fn other_of_format<'a>(format: &Format, found: VersionFiles<'a>) -> Option<&'a str> {
    let has_content = |file: &str| has_content(file, format, found);
    let named = |name: &&str| found.files.iter().find(|it| it == name);
    let mut others = format.other_files.iter().filter_map(named).map(String::as_str);
    if let Some(file) = others.find(|it| has_content(it)) {
        return Some(file);
    }
    let folds = found.files.iter().filter_map(|it| Some((format.fold(it)?, it.as_str())));
    if let Some((_, first)) = folds.filter(|(_, it)| has_content(it)).min() {
        return Some(first);
    }
    let is_of = |it: &&str| format.has_name(it) && has_content(it);
    let by_bytes =
        |it: &&str| !it.starts_with('.') && inspect::is_by_bytes(&found.directory.join(it), format);
    only(found, is_of).or_else(|| only(found, by_bytes))
}

/// The only such file.
fn only<'a>(found: VersionFiles<'a>, is_one: impl Fn(&&'a str) -> bool) -> Option<&'a str> {
    let mut files = found.files.iter().map(String::as_str).filter(is_one);
    files.next().filter(|_| files.next().is_none())
}

/// Is a file of the directory of that format by its content? What is the model itself has been looked at before.
fn has_content(file: &str, format: &Format, found: VersionFiles<'_>) -> bool {
    found.directory.is_file()
        || !is_beside_a_graph(found.directory, file)
            && inspect::has_content_of(&found.directory.join(file), format)
}

/// What to do about a backend or a platform that is not among these.
fn hint(name: &str, known: &[&str]) -> String {
    let near = || nearest(name, known.iter().copied()).map(|it| format!("did you mean '{it}'?"));
    let hint = advice(name).map(str::to_owned).or_else(near);
    hint.map(|it| format!("; {it}")).unwrap_or_default()
}

fn given(
    platform: &str,
    backend: &str,
    files: &[String],
    engines: &Engines,
) -> Result<Chosen, String> {
    let formats = engines.formats();
    let by_alias = formats.iter().find(|it| it.format.aliases.contains(&platform));
    let platform = by_alias.map_or(platform, |it| it.format.platform);
    if platform.is_empty() {
        let mut formats = formats.iter().filter(|it| it.backend == backend);
        let first = formats.clone().next();
        let present = formats.find(|it| files.iter().any(|file| file == it.format.file));
        return Ok(match present.or(first) {
            Some(it) => (it.format.platform.to_owned(), backend.to_owned(), Some(it.format.file)),
            None => (String::new(), backend.to_owned(), None),
        });
    }
    let is_present = |it: &&&KnownFormat| files.iter().any(|file| file == it.format.file);
    let mut of_platform = formats.iter().filter(|it| it.format.platform == platform);
    let first = of_platform.clone().next();
    let Some(known) = of_platform.find(|it| is_present(&it)).or(first) else {
        let platforms = formats.iter().map(|it| it.format.platform);
        let mut known: Vec<&str> = platforms.filter(|it| !it.is_empty()).collect();
        known.dedup();
        let hint = hint(platform, &known);
        return Err(format!(
            "platform '{platform}' is not known; expected one of {}{hint}",
            known.join(", ")
        ));
    };
    if !backend.is_empty() && backend != known.backend {
        return Err(format!(
            "platform '{platform}' goes with backend '{}', given '{backend}'",
            known.backend
        ));
    }
    Ok((platform.to_owned(), known.backend.to_owned(), Some(known.format.file)))
}

/// The engine by the model's file, else by the ending of the model's name.
fn detected(
    raw: &RawConfig,
    found: VersionFiles<'_>,
    engines: &Engines,
    completion: Completion,
) -> Result<Chosen, String> {
    if completion == Completion::Off {
        return Err("neither backend nor platform is given, and auto-completion is off".to_owned());
    }
    let ending = |name: &str| name.rsplit_once('.').map(|(_, ending)| ending.to_owned());
    let formats = engines.formats();
    let known = match raw.default_model_filename.as_str() {
        "" => {
            let usual = |it: &&KnownFormat| {
                let file = it.format.file;
                found.files.iter().any(|it| it == file) && has_content(file, &it.format, found)
            };
            let has_usual =
                |it: &KnownFormat| found.files.iter().any(|file| file == it.format.file);
            let other =
                |it: &&KnownFormat| !has_usual(it) && other_of_format(&it.format, found).is_some();
            let served = || formats.iter().filter(|it| it.format.is_served);
            formats.iter().find(usual).or_else(|| served().find(other))
        }
        file => {
            let has_ending = |it: &&KnownFormat| ending(it.format.file) == ending(file);
            let has_content = |it: &&KnownFormat| {
                let format = &it.format;
                format.content.is_some()
                    && format.has_name(file)
                    && has_content(file, format, found)
            };
            formats.iter().find(has_ending).or_else(|| formats.iter().find(has_content))
        }
    };
    if let Some(KnownFormat { backend, format }) = known {
        return Ok((format.platform.to_owned(), (*backend).to_owned(), Some(format.file)));
    }
    let names = engines.names();
    if let Some(backend) = ending(found.model).filter(|it| names.contains(&it.as_str())) {
        return given("", &backend, found.files, engines);
    }
    let offered = formats.iter().map(|it| it.format).filter(|it| it.is_served);
    let files: Vec<&str> = offered.map(|it| it.file).collect();
    let present: Vec<&str> = found.files.iter().map(String::as_str).take(10).collect();
    let present = match present.is_empty() {
        true => "is empty".to_owned(),
        false => format!("holds {}", present.join(", ")),
    };
    let named = raw.default_model_filename.as_str();
    if !named.is_empty() && found.directory.is_dir() && !found.directory.join(named).exists() {
        let directory = found.directory.display();
        return Err(format!(
            "default_model_filename: there is no '{named}' in '{directory}', which {present}"
        ));
    }
    // A file of a usual name would have been chosen, but for its content.
    let not_by_content = || {
        let is_usual = |name: &str, it: &Format| {
            it.file == name || it.other_files.contains(&name) || it.fold(name).is_some()
        };
        let named =
            found.files.iter().filter(|file| formats.iter().any(|it| is_usual(file, &it.format)));
        named.map(|it| found.directory.join(it)).find(|it| it.is_file())
    };
    let what = inspect::what_lies_in(found.directory, 0)
        .or_else(|| not_by_content().map(|it| inspect::not_by_content(&it)));
    Err(format!(
        "there is no model in '{}', which {present}; expected {}{}",
        found.directory.display(),
        files.join(" or "),
        what.map(|it| format!(". {it}")).unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests;
