//! Scripts that come with a model, as SageMaker's archives have them: `code/inference.py`. One that loads the model is
//! served as the model. One that was written around a model that an engine opens is not run.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::Backend;

use crate::{
    config::engines::Engines,
    repository::local::{FoundModel, FoundModels, ScriptPart, directory_name, flat, scan_path},
    settings::{ModelsFrom, UserScripts},
};

/// Where a script lies in the directory of a model.
const FOLDER: &str = "code";

/// The engine that runs them.
const ENGINE: &str = "python";

/// The function that makes a script a model of its own.
const LOADS: &str = "model_fn";

/// The functions that make a script one around models that engines open, as in SageMaker's container of TensorFlow
/// Serving.
const HANDLERS: [&str; 2] = ["handler", "input_handler"];

/// What becomes of the script of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is the model.
    Runs(PathBuf),
    /// It stands around the models that lie there, one of which it asks.
    StandsAround(PathBuf),
    /// It is not run, for this reason.
    IsLeft(PathBuf, Reason),
}

/// Why a script is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Nothing here runs it.
    NoEngine,
    /// It does not load the model, which an engine does.
    IsAroundAModel,
    /// `--ignore-scripts` says so.
    IsIgnored,
}

impl UserScripts {
    /// What becomes of the script of the model in `dir`, which lies in the first of these folders that has one. `None`
    /// where there is none with code, and where they are ignored.
    fn fate(&self, dir: &Path, folders: &[PathBuf], engines: &Engines) -> Option<Fate> {
        let script = self.find(folders).filter(|_| !self.are_ignored)?;
        // As platforms have them: versions may begin with zeros.
        let has_own = || scan_path(dir, true, engines).is_ok_and(|it| !it.models.is_empty());
        let is_configured = dir.join("config.pbtxt").is_file();
        let loads_it = defines(&script, &[LOADS]);
        Some(match () {
            () if !engines.serve_platform(ENGINE) => Fate::IsLeft(script, Reason::NoEngine),
            () if is_configured => Fate::IsLeft(script, Reason::IsAroundAModel),
            () if loads_it || !has_own() => Fate::Runs(script),
            () if defines(&script, &HANDLERS) => Fate::StandsAround(script),
            () => Fate::IsLeft(script, Reason::IsAroundAModel),
        })
    }

    /// What lies at a path that is served by itself, and the script that came with it. `hosted`: a platform has put it
    /// there.
    ///
    /// # Errors
    /// When the path cannot be listed.
    pub(crate) fn scan(
        &self,
        path: &Path,
        hosted: bool,
        engines: &Engines,
    ) -> io::Result<FoundModels> {
        let own = path.join(FOLDER);
        let folders: Vec<PathBuf> = self.folder.iter().cloned().chain([own]).collect();
        let fate = self.fate(path, &folders, engines);
        if let Some(Fate::Runs(script)) = &fate {
            return Ok(model(script, path, hosted));
        }
        let mut found = scan_path(path, hosted, engines)?;
        match fate {
            Some(Fate::StandsAround(script)) => {
                found.stand_around(Some(around(&script, path)), None);
            }
            Some(Fate::IsLeft(script, reason)) if !hosted => {
                found.warnings.push(not_run(&script, reason));
            }
            Some(Fate::Runs(_) | Fate::IsLeft(..)) | None => {}
        }
        Ok(found)
    }

    /// The same for a model of a multi-model endpoint: its own script, or the one for all models below `root`.
    pub(crate) fn fate_of_endpoint_model(
        &self,
        dir: &Path,
        root: &Path,
        engines: &Engines,
    ) -> Option<Fate> {
        self.fate(dir, &[dir.join(FOLDER), root.join(FOLDER)], engines)
    }

    fn find(&self, folders: &[PathBuf]) -> Option<PathBuf> {
        folders.iter().map(|it| it.join(&self.program)).find(|it| has_code(it))
    }

    /// The script that came with a platform's models and is not run, with a sentence that says so.
    ///
    /// # Errors
    /// The same, where they may not be served without it.
    pub fn left_at_start(
        &self,
        from: &ModelsFrom,
        engines: &[Arc<dyn Backend>],
    ) -> Result<Option<String>, String> {
        let dir = from.path();
        let own = dir.map(|it| it.join(FOLDER));
        let folders: Vec<PathBuf> = self.folder.iter().cloned().chain(own).collect();
        if self.are_ignored {
            let script = self.find(&folders);
            return Ok(script.map(|it| not_run(&it, Reason::IsIgnored)));
        }
        let fate = match dir {
            Some(dir) => self.fate(dir, &folders, &Engines::of(engines)),
            None => self.find(&folders).map(|it| Fate::IsLeft(it, Reason::NoEngine)),
        };
        match fate {
            Some(Fate::IsLeft(script, reason)) => Err(refusal(&script, reason)),
            Some(Fate::Runs(_) | Fate::StandsAround(_)) | None => Ok(None),
        }
    }
}

/// Has the script any code? One that is empty or only comments has none; one that cannot be read counts as one with
/// code, one that is not there as one without.
fn has_code(script: &Path) -> bool {
    if !script.is_file() {
        return false;
    }
    let Ok(text) = backend::read_file(script) else { return true };
    lines(&text).any(|it| !it.is_empty() && !it.starts_with(b"#"))
}

/// Does it define or import one of these functions? One that takes all names of a module may do so.
fn defines(script: &Path, functions: &[&str]) -> bool {
    let Ok(text) = backend::read_file(script) else { return true };
    let is_part = |it: &u8| it.is_ascii_alphanumeric() || *it == b'_';
    let words = |line: &[u8]| -> Vec<Vec<u8>> {
        line.split(|it| !is_part(it)).map(<[u8]>::to_vec).collect()
    };
    lines(&text).any(|line| {
        let is_all = line.starts_with(b"from ") && line.ends_with(b"import *");
        let words = words(line);
        let is_one = |it: &Vec<u8>| functions.iter().any(|one| one.as_bytes() == it.as_slice());
        let begins = ["def", "async", "from", "import"];
        let begins = |it: &Vec<u8>| begins.iter().any(|one| one.as_bytes() == it.as_slice());
        let may_define = words.first().is_some_and(|it| begins(it) || is_one(it));
        is_all || may_define && words.iter().any(is_one)
    })
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|it| *it == b'\n').map(<[u8]>::trim_ascii)
}

/// The script as the model of its directory.
pub(crate) fn model(script: &Path, dir: &Path, hosted: bool) -> FoundModels {
    let name = if hosted { "model".to_owned() } else { directory_name(dir) };
    let mut found = FoundModels::default();
    found.add(FoundModel { dir: dir.to_owned(), ..flat(script, name) });
    found
}

impl FoundModels {
    /// Takes out the script around the others.
    pub(crate) fn take_script(&mut self) -> Option<FoundModel> {
        let is_around = |it: &FoundModel| matches!(it.script, Some(ScriptPart::Around(_)));
        let id = self.models.iter().find(|(_, it)| is_around(it))?.0.clone();
        self.models.remove(&id)
    }

    /// Puts a script around the models that there are. Where a request names none, it asks the one of that name, else
    /// the first.
    pub(crate) fn stand_around(&mut self, script: Option<FoundModel>, default: Option<&str>) {
        let Some(script) = script else { return };
        for model in self.models.values_mut() {
            model.script = Some(ScriptPart::Behind(script.name.clone()));
        }
        let first = self.models.values().map(|it| &*it.name).next();
        // Without any, what is refused says why.
        let Some(asked) = default.or(first) else { return };
        let asked = Some(ScriptPart::Around(asked.to_owned()));
        self.add(FoundModel { script: asked, ..script });
    }
}

/// A script around the models of its directory. It is called as its file is: no model is.
pub(crate) fn around(script: &Path, dir: &Path) -> FoundModel {
    FoundModel { dir: dir.to_owned(), ..flat(script, directory_name(script)) }
}

/// Is that file a script beside which the files of its model lie, in the directory of that model?
pub(crate) fn is_script_of(file: &Path, dir: &Path) -> bool {
    file.extension().is_some_and(|it| it == "py") && file.parent() != Some(dir) && file.is_file()
}

/// What becomes of a script that is not run, for a line of the log.
pub(crate) fn not_run(script: &Path, reason: Reason) -> String {
    let why = match reason {
        Reason::NoEngine => "",
        Reason::IsAroundAModel => {
            ", as it defines neither model_fn nor handlers as for TensorFlow Serving"
        }
        Reason::IsIgnored => ", as --ignore-scripts says",
    };
    format!(
        "the script {} came with the model and is not run{why}: what it does before and after the model is for an \
         ensemble, or for the client",
        script.display()
    )
}

/// What becomes of one that lies in an object store, for a line of the log. Whether it has code is not looked at:
/// training jobs leave the address of theirs, and the model may need nothing of it.
pub fn elsewhere(program: &str, archive: &str) -> String {
    format!(
        "the script {program} in {archive} is not fetched and not run: if it has functions such as input_fn or \
         predict_fn, what they do is for an ensemble, or for the client"
    )
}

/// Why a model with that script is not served.
pub(crate) fn refusal(script: &Path, reason: Reason) -> String {
    format!("{}; MUSTER_IGNORE_SCRIPTS=true serves the model without it", not_run(script, reason))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_script_loads_the_model_where_it_defines_or_imports_the_function() {
        let dir = std::env::temp_dir().join(format!("muster-script-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let script = dir.join("inference.py");
        let loads = |text: &str| {
            fs::write(&script, text).unwrap();
            defines(&script, &[LOADS])
        };
        for text in [
            "import os\ndef model_fn(model_dir):\n    return 1\n",
            "try:\n    async def model_fn(d): pass\n",
            "from .net import (\n    input_fn,\n    model_fn,\n)\n",
            "from net import model_fn as model_fn",
            "model_fn = load",
            "from net import *\r\n",
        ] {
            assert!(loads(text), "{text}");
        }
        for text in
            ["import json\n", "# def model_fn\n", "def input_fn(b, t):\n    '''no model_fn'''"]
        {
            assert!(!loads(text), "{text}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
