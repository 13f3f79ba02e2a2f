//! Models that are named one by one, all at once: the whole of the configuration is replaced, by a file that has
//! changed or by request. Labels move when what they are to stand for serves, and what is wanted no more is unloaded
//! after that.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use crate::{
    lifecycle::converge::Converger,
    repository::{
        current_list::{CurrentList, ListEntry},
        file_stamps::FileStamps,
        local::{FoundModel, FoundModels},
        model_list::{ListedModel, listed_models, wanted},
    },
    settings::named_models::{LabelRule, NamedModels as Source},
};
use inference::error::Error;
use serving::{
    config::model::VersionPolicy, label_table::VersionLabels, lock::lock, model_id::ModelId,
    state::State,
};
use textproto::tensorflow::{model_server_config, raw};

/// How models lie on disk; those that are not there are left out.
type OnDisk = BTreeMap<ModelId, FileStamps>;

/// A model config file of which not everything could be done.
struct Tried {
    text: String,
    problem: String,
    /// The models that there were then, all in all.
    entries: Arc<Vec<ListEntry>>,
    /// Its models before that, and at the last look.
    at_first: OnDisk,
    at_last: OnDisk,
}

impl Tried {
    /// Is it worth another try? Its models have changed on disk, two looks have found them the same, and no request has
    /// configured others.
    fn is_worth_it(&mut self, now: OnDisk, entries: &Arc<Vec<ListEntry>>) -> bool {
        let is_settled = now == self.at_last;
        self.at_last = now;
        is_settled && self.at_last != self.at_first && Arc::ptr_eq(entries, &self.entries)
    }
}

/// The models that are named one by one.
pub struct NamedModels {
    converger: Arc<Converger>,
    rule: LabelRule,
    /// Held by a comparison of the models with what they should be: those that are named are replaced as a whole.
    comparing: Arc<Mutex<()>>,
    /// Guards the text of the model config file that was taken up last.
    config_text: Mutex<Option<String>>,
}

impl NamedModels {
    pub(super) fn new(
        converger: Arc<Converger>,
        rule: LabelRule,
        comparing: Arc<Mutex<()>>,
    ) -> NamedModels {
        NamedModels { converger, rule, comparing, config_text: Mutex::default() }
    }

    /// Replaces all models that are named one by one by those of the message, and returns when each of them serves or
    /// has failed. A message without a list is taken and changes nothing. Blocking.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where models come from a repository; those of [`NamedModels::configure`].
    pub fn reload(&self, config: &raw::ModelServerConfig) -> Result<(), Error> {
        self.configured()?;
        match listed_models(config) {
            Ok(None) => {
                tracing::info!("asked to reload with an empty configuration: nothing changes");
                Ok(())
            }
            Ok(Some(models)) => self.configure(models),
            Err(problems) => Err(Error::InvalidRequest(problems.join("; "))),
        }
    }

    /// Replaces all models that are named one by one by these, and returns when each of them serves or has failed. What
    /// serves already goes on until what replaces it serves; models that are left out are unloaded. Blocking.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where models come from a repository. [`Error::InvalidRequest`] for a model without
    /// versions and a label of a version that is not served: then nothing has changed; and for models that could not
    /// be loaded: then everything else is as it was asked for.
    pub fn configure(&self, models: Vec<ListedModel>) -> Result<(), Error> {
        let configured = self.configured()?;
        // A look at the directories meanwhile would bring back what is left out.
        let _comparing = lock(&self.comparing);
        let found = self.check(&models).map_err(|it| Error::InvalidRequest(it.join("; ")))?;
        self.announce(&models);
        let record = models.iter().map(|it| self.labelled_versions(&it.name));
        let entries = models.iter().cloned().zip(record);
        configured.set(entries.map(|(model, keep)| ListEntry { model, keep }).collect());
        let ids: BTreeSet<ModelId> = found.models.keys().cloned().collect();
        let wanted: BTreeMap<String, BTreeSet<u64>> = models
            .iter()
            .filter_map(|it| Some((it, found.models.get(&ModelId::named(&it.name))?)))
            .map(|(it, lies)| (it.name.clone(), self.served_by(it, lies)))
            .collect();
        self.converger.converge_all(found.models.into_values().collect());
        let mut failures = self.set_labels(&models);
        // Nothing stands for the versions that were kept any more.
        let entries = models.into_iter().map(|model| ListEntry { model, keep: BTreeSet::new() });
        configured.set(entries.collect());
        self.converger.converge_all(self.with_leftovers(configured));
        let known: Vec<ModelId> = self.converger.table.ids();
        for id in known.into_iter().filter(|it| !ids.contains(it)) {
            tracing::info!(model = %id, "it is not among the models that are configured any more");
            self.converger.unload_removed(&id);
            self.converger.table.remove(&id);
        }
        let reasons = wanted.iter().flat_map(|(name, versions)| self.failures(name, versions));
        failures.extend(reasons);
        match failures.is_empty() {
            true => Ok(()),
            false => Err(Error::InvalidRequest(failures.join("; "))),
        }
    }

    /// Reads which models there are to be at the start; nothing is loaded yet, and a model without versions may get
    /// some later. Blocking.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn configure_start(&self, configured: &CurrentList) -> Result<(), Error> {
        let models = match &configured.from {
            Source::One { name, base_path } => {
                vec![ListedModel::new(name, base_path.clone())]
            }
            Source::File { path, .. } => {
                let text = read(path)?;
                let models = parse(path, &text)?;
                *lock(&self.config_text) = Some(text);
                models
            }
        };
        self.announce(&models);
        let entries = models.into_iter().map(|model| ListEntry { model, keep: BTreeSet::new() });
        configured.set(entries.collect());
        Ok(())
    }

    fn announce(&self, models: &[ListedModel]) {
        for model in models {
            for ignored in model.without_effect(&self.converger.loader.descriptions) {
                tracing::info!(model = model.name, "without effect: {ignored}");
            }
        }
    }

    /// Sets the labels of the start, now that everything is loaded that can be.
    pub(super) fn label_start(&self, configured: &CurrentList) {
        let models: Vec<ListedModel> =
            configured.entries().iter().map(|it| it.model.clone()).collect();
        for problem in self.set_labels(&models) {
            tracing::error!("{problem}");
        }
    }

    /// Looks at the model config file every so often, until the other end of `stop` is gone; what has changed in it
    /// counts from then on. Blocking.
    pub fn follow_file(&self, path: &Path, every: Duration, stop: &Receiver<()>) {
        // What is away for a moment, or is being written, is said once.
        let (mut last_problem, mut tried) = (String::new(), None);
        while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(every) {
            let outcome = self.look_at_file(path, &mut tried);
            let problem = outcome.err().map(|it| it.to_string()).unwrap_or_default();
            if problem != last_problem && !problem.is_empty() {
                tracing::error!("{problem}");
            }
            last_problem = problem;
        }
    }

    /// Takes up the file if it has changed. What could not be done is `tried` again: a file is often written a moment
    /// before the version that it names.
    fn look_at_file(&self, path: &Path, tried: &mut Option<Tried>) -> Result<(), Error> {
        let nothing = |problem: Error| {
            Error::Repository(format!("the model config file changes nothing: {problem}"))
        };
        let file = path.display();
        let text = read(path).map_err(nothing)?;
        if lock(&self.config_text).as_ref() == Some(&text) {
            return Ok(());
        }
        let models = parse(path, &text).map_err(nothing)?;
        let configured = self.configured()?;
        let on_disk = on_disk(&models);
        if let Some(tried) = tried.as_mut().filter(|it| it.text == text) {
            if !tried.is_worth_it(on_disk.clone(), &configured.entries()) {
                return Err(Error::Repository(tried.problem.clone()));
            }
            tracing::info!(%file, "what could not be done of the model config file is tried again");
        } else {
            tracing::info!(%file, models = models.len(), "the model config file has changed");
        }
        // What counted before does so no more, even if only a part of this can be done.
        *lock(&self.config_text) = None;
        *tried = None;
        match self.configure(models) {
            Ok(()) => {
                *lock(&self.config_text) = Some(text);
                Ok(())
            }
            Err(error) => {
                let problem =
                    format!("not all of the model config file {file} could be done: {error}");
                *tried = Some(Tried {
                    text,
                    problem: problem.clone(),
                    entries: configured.entries(),
                    at_first: on_disk.clone(),
                    at_last: on_disk,
                });
                Err(Error::Repository(problem))
            }
        }
    }

    fn configured(&self) -> Result<&CurrentList, Error> {
        self.converger.catalogue.configured().ok_or_else(|| {
            Error::Unavailable(
                "the models come from a repository; they can be configured by request where they are named one by \
                 one, with --model-config-file or --model-base-path"
                    .into(),
            )
        })
    }

    /// The models as they lie on disk, if each has what its policy and its labels ask for.
    fn check(&self, models: &[ListedModel]) -> Result<FoundModels, Vec<String>> {
        let (mut found, mut problems) = (FoundModels::default(), Vec::new());
        for model in models {
            let name = &model.name;
            if let Err(error) = found.look_at(name, &model.base_path) {
                problems.push(format!("model '{name}': {error}"));
                continue;
            }
            let Some(lies) = found.models.get(&ModelId::named(name)) else { continue };
            if lies.versions.is_empty() {
                problems.push(format!(
                    "model '{name}': there is no version in base_path {}; expected a directory as {}",
                    model.base_path.display(),
                    model.base_path.join("1").display()
                ));
            }
            let served = self.served_by(model, lies);
            let unserved = model.labels.iter().filter(|(_, version)| !served.contains(version));
            for (label, version) in
                unserved.filter(|it| !self.may_point_anywhere(name, it.0, *it.1))
            {
                problems.push(unavailable(name, label, *version, &served));
            }
        }
        found.warnings.iter().for_each(|it| tracing::warn!("{it}"));
        if problems.is_empty() { Ok(found) } else { Err(problems) }
    }

    /// The versions that are to serve, of those that there are.
    fn served_by(&self, model: &ListedModel, lies: &FoundModel) -> BTreeSet<u64> {
        let own = || {
            let raw = self.converger.loader.read_config(lies).ok().flatten();
            let own = raw.map(|it| {
                crate::config::check::settings::version_policy(&it, &mut Default::default())
            });
            own.unwrap_or(VersionPolicy::Latest(1))
        };
        let policy = model.policy.clone().unwrap_or_else(own);
        let wanted = wanted(&policy, &lies.versions);
        wanted.filter(|it| lies.versions.contains_key(it)).collect()
    }

    /// May a label stand for a version that does not serve? A label that is in use may not lose its version.
    fn may_point_anywhere(&self, name: &str, label: &str, version: u64) -> bool {
        match self.rule {
            LabelRule::Available => false,
            LabelRule::NewOnesAnywhere => {
                self.converger.manager.labels(name).get(label).is_none_or(|it| *it == version)
            }
            LabelRule::Anywhere => true,
        }
    }

    /// Lets the labels of these models count, and no others. One whose version does not serve stays where it was, and
    /// is told.
    fn set_labels(&self, models: &[ListedModel]) -> Vec<String> {
        let mut problems = Vec::new();
        let labels = models.iter().map(|model| {
            let name = &model.name;
            let ready: BTreeSet<u64> =
                self.converger.manager.ready_versions(name).into_iter().collect();
            let before = self.converger.manager.labels(name);
            let mut labels = VersionLabels::new();
            for (label, version) in &model.labels {
                let may = ready.contains(version) || self.may_point_anywhere(name, label, *version);
                let stands_for = if may { Some(version) } else { before.get(label) };
                if !may {
                    problems.push(unavailable(name, label, *version, &ready));
                }
                labels.extend(stands_for.map(|it| (label.clone(), *it)));
            }
            (Arc::from(name.as_str()), labels)
        });
        let labels: BTreeMap<Arc<str>, VersionLabels> = labels.collect();
        self.converger.manager.set_labels(labels);
        problems
    }

    /// Why versions of a model do not serve, or all of it.
    fn failures(&self, name: &str, wanted: &BTreeSet<u64>) -> Vec<String> {
        let is_wanted = |version: Option<u64>| version.is_none_or(|it| wanted.contains(&it));
        let states = self.converger.manager.states(name).into_iter();
        let failed = states.filter(|it| it.state == State::Unavailable && is_wanted(it.version));
        let shown = failed.map(|it| {
            let version = it.version.map_or(String::new(), |it| format!(" version {it}"));
            format!("model '{name}'{version}: {}", it.reason)
        });
        shown.collect()
    }

    /// Versions that serve and that labels stand for.
    fn labelled_versions(&self, name: &str) -> BTreeSet<u64> {
        let ready = self.converger.manager.ready_versions(name);
        let labels = self.converger.manager.labels(name);
        labels.into_values().filter(|it| ready.contains(it)).collect()
    }

    /// Models of which more versions serve than are wanted.
    fn with_leftovers(&self, configured: &CurrentList) -> Vec<FoundModel> {
        let mut found = FoundModels::default();
        configured.look(&mut found, None);
        let entries = configured.entries();
        let has_leftovers = |lies: &FoundModel| {
            let entry = entries.iter().find(|it| it.model.name == lies.name);
            entry.is_some_and(|it| {
                let served = self.served_by(&it.model, lies);
                let ready = self.converger.manager.ready_versions(&lies.name);
                // Where one of them has failed, what served before goes on.
                served.iter().all(|it| ready.contains(it))
                    && ready.iter().any(|it| !served.contains(it))
            })
        };
        found.models.into_values().filter(has_leftovers).collect()
    }
}

fn unavailable(name: &str, label: &str, version: u64, served: &BTreeSet<u64>) -> String {
    let served: Vec<String> = served.iter().map(u64::to_string).collect();
    let served = if served.is_empty() { "none".to_owned() } else { served.join(", ") };
    format!(
        "model '{name}': version_labels '{label}' stands for version {version}, which is not available for inference; \
         available: {served} (--allow-version-labels-for-unavailable-models)"
    )
}

fn on_disk(models: &[ListedModel]) -> OnDisk {
    let mut found = FoundModels::default();
    for model in models {
        // Why it is not there is said when the file is taken up.
        let _ = found.look_at(&model.name, &model.base_path);
    }
    found.models.iter().map(|(id, lies)| (id.clone(), FileStamps::take(lies))).collect()
}

fn read(path: &Path) -> Result<String, Error> {
    backend::read_text(path).map_err(|error| {
        let file = path.display();
        Error::Repository(format!("--model-config-file: cannot read {file}: {error}"))
    })
}

fn parse(path: &Path, text: &str) -> Result<Vec<ListedModel>, Error> {
    let file = path.display().to_string();
    let config = model_server_config(&file, text);
    let config = config.map_err(|it| Error::Repository(it.to_string()))?;
    let models = listed_models(&config).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(|it| format!("{file}: {it}")).collect();
        Error::Repository(problems.join("\n"))
    })?;
    Ok(models.unwrap_or_default())
}

#[cfg(test)]
mod tests;
