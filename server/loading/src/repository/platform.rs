//! What lies in a hosting platform's folder besides what the operator meant to be there, and in the folders beside it.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    config::engines::Engines,
    repository::{
        denied::listing_failed,
        local::{
            FoundModel, FoundModels, Names, SAVED_MODEL, Style, directory_name, is_model_name,
            subdirectories, versions_in,
        },
    },
};

/// So many folders below that of the platform SavedModels are looked for.
const DEEPEST: usize = 8;

impl FoundModels {
    /// Takes in the models of a folder into which a platform has unpacked an archive: directories that hold no
    /// model are passed over, and so are files. SavedModels are found at any depth, as in the containers of TensorFlow
    /// Serving.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub(super) fn look_into_archive(
        &mut self,
        folder: &Path,
        style: Style,
        engines: &Engines,
    ) -> io::Result<()> {
        let dirs = subdirectories(folder)?;
        for dir in dirs.iter().filter(|it| is_model_name(&directory_name(it))) {
            self.look_as(dir, folder, Names::Once, style);
        }
        self.take_unversioned(engines);
        self.models.retain(|_, it| it.config.is_some() || !it.versions.is_empty());
        if style == Style::Platforms {
            let holds_none = |dir: &&PathBuf| !self.models.values().any(|it| it.dir == **dir);
            let holds_none: Vec<_> = dirs.iter().filter(holds_none).collect();
            let deeper = holds_none.into_iter().flat_map(|it| saved_models_in(it, DEEPEST));
            deeper.for_each(|it| self.look_as(&it, folder, Names::Once, style));
        }
        let is_model = |path: &Path| self.models.values().any(|it| it.dir.starts_with(path));
        let entries = fs::read_dir(folder).map_err(|it| listing_failed(folder, it))?;
        let entries = entries.filter_map(|it| Some(it.ok()?.path()));
        let mut others: Vec<String> =
            entries.filter(|it| !is_model(it)).map(|it| directory_name(&it)).collect();
        others.retain(|it| !self.refused.keys().any(|id| *id.name == **it));
        others.sort_unstable();
        if !others.is_empty() {
            let (folder, others) = (folder.display(), others.join(", "));
            self.skipped.push(format!("passed over in {folder}, as no models: {others}"));
        }
        Ok(())
    }

    /// Takes in the only model that is served of a folder. Where it lies in `export/Servo`, a warning names the other
    /// models of the folder.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub(super) fn add_alone(
        &mut self,
        model: FoundModel,
        folder: &Path,
        engines: &Engines,
    ) -> io::Result<()> {
        if model.dir != folder {
            let mut all = FoundModels::default();
            all.look_into_archive(folder, Style::Platforms, engines)?;
            let dirs = all.models.values().map(|it| it.dir.as_path());
            let others =
                dirs.filter(|it| *it != model.dir).filter_map(|it| it.strip_prefix(folder).ok());
            let twice = all.refused.keys().map(|it| Path::new(&*it.name));
            let others: BTreeSet<String> =
                others.chain(twice).map(|it| it.display().to_string()).collect();
            let others: Vec<&str> = others.iter().map(|it| &**it).collect();
            if !others.is_empty() {
                let (folder, others) = (folder.display(), others.join(", "));
                self.warnings.push(format!(
                    "{folder}: only the model in export/Servo is served, and passed over are: {others}; to serve all \
                     of them, move export/Servo to a folder beside them, {folder}/<name>/<version>/"
                ));
            }
        }
        self.add(model);
        Ok(())
    }

    /// Takes in the repositories in the folders of `channels`, which a platform has put beside that of the model.
    ///
    /// # Errors
    /// When one cannot be listed.
    pub(crate) fn look_into_channels(
        &mut self,
        channels: &Path,
        engines: &Engines,
    ) -> io::Result<()> {
        subdirectories(channels)?
            .iter()
            .try_for_each(|it| self.look_into_archive(it, Style::Platforms, engines))
    }
}

/// The directories below this one in whose versions SavedModels are. Links are not followed, and what cannot be listed
/// is passed over.
fn saved_models_in(dir: &Path, deepest: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in subdirectories(dir).unwrap_or_default() {
        if path.is_symlink() || !is_model_name(&directory_name(&path)) {
            continue;
        }
        let versions = versions_in(&path, Style::Platforms, &mut Vec::new()).unwrap_or_default();
        if versions.values().any(|it| it.join(SAVED_MODEL).is_file()) {
            found.push(path);
        } else if 0 < deepest {
            found.extend(saved_models_in(&path, deepest - 1));
        }
    }
    found
}
