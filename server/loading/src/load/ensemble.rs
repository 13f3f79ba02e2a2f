//! Loading ensembles: after their members, and compared with them.

use std::{sync::Arc, time::SystemTime};

use backend::Processes;
use bytes::Bytes;

use crate::{
    config::complete_ensemble::complete as complete_ensemble,
    load::{
        files::read_labels, load_error::LoadError, load_log::LoadLog, loader::Loader,
        placement::Plan, strict_rows::strict_rows, version_load::Load,
    },
    repository::local::FoundModel,
};
use inference::signature::Signature;
use serving::{
    config::{
        model::{ConfigErrors, ModelConfig},
        raw,
    },
    content_hash::ContentHash,
    ensemble::members::Ensemble,
    run_room::RunRoom,
    served::{Dispatch, Members, Planned, Resolved, ServedModel},
};
use telemetry::metrics::ModelOptions;

/// What is wrong if a member takes fewer rows than requests to the ensemble may have. Only where rows of requests are
/// bounded at all: otherwise one that is too large for a member runs in parts.
fn too_many_rows(signature: &Signature, resolved: &Resolved) -> Option<String> {
    let rows = signature.most_rows?;
    for member in &resolved.members {
        let member = &member.model.signature;
        let bound = member.most_rows.filter(|it| member.batches() && *it < rows);
        let Some(most) = bound else { continue };
        return Some(format!(
            "max_batch_size is {rows}, and the member '{}' takes {most} rows at most; expected at most {most}, or a \
             start without --strict-max-batch-size, for which larger requests run in parts",
            member.model
        ));
    }
    None
}

/// An output is what the member that makes it says: its classes have the member's names, where the ensemble gives
/// none, and its rows are numbers where the member's are.
fn take_from_members(signature: &mut Signature, resolved: &Resolved) {
    let members: Vec<&Signature> = resolved.members.iter().map(|it| &*it.model.signature).collect();
    for port in &mut signature.outputs {
        let Some(source) = resolved.plan.made_by(&port.name, &members) else { continue };
        if port.labels.is_empty() {
            port.labels = source.labels.clone();
        }
        port.scalar |= source.scalar && source.dims == port.dims;
    }
}

impl Loader {
    /// Makes an ensemble of members that serve already.
    pub(super) fn load_ensemble(
        &self,
        found: &FoundModel,
        raw: &raw::ModelConfig,
        version: u64,
    ) -> Result<(ServedModel, Plan), LoadError> {
        let (mut completed, steps) = complete_ensemble(raw, &found.name, &self.descriptions)?;
        let mut log = LoadLog::new(found.shown_name(), version);
        completed.warnings.iter().for_each(|it| log.warn(it));
        let config = completed.config;
        let ensemble = Ensemble::new(steps, config.clone(), found.namespace.clone(), &self.manager);
        let problem = |it: String| ConfigErrors { model: found.name.clone(), problems: vec![it] };
        let resolved = ensemble.resolve().map_err(|it| problem(it.to_string()))?;
        // One decoupled member is enough.
        let is_decoupled = resolved.members.iter().any(|it| it.model.is_decoupled);
        completed.raw.model_transaction_policy.get_or_insert_default().decoupled = is_decoupled;
        if is_decoupled && config.response_cache {
            let text = "response_cache { enable: true }: answers of an ensemble with a decoupled member are not kept";
            return Err(problem(text.to_owned()).into());
        }
        let labels = read_labels(&config, &found.dir)?;
        let mut signature = config.signature(version, &labels);
        take_from_members(&mut signature, &resolved);
        let is_strict = self.settings.defaults.strict_max_batch_size;
        signature.most_rows = strict_rows(Some(raw), is_strict);
        if let Some(it) = too_many_rows(&signature, &resolved) {
            return Err(problem(it).into());
        }
        let signature = Arc::new(signature);
        let options = ModelOptions {
            tags: config.metric_tags.clone(),
            namespace: Some(found.id().namespace.to_string()).filter(|it| !it.is_empty()),
            ..ModelOptions::default()
        };
        let metrics = self.metrics.model(found.shown_name(), version, &options);
        let config_json: Bytes = self.reader.to_json(&completed.raw).to_string().into();
        // Those of the members come to it with each request.
        let content_hash = ContentHash::of_text(&config_json);
        self.warn_caching(&config, &mut log);
        if config.response_cache && self.settings.has_cache {
            metrics.has_cache();
        }
        let names: Vec<&str> = ensemble.names().into_iter().collect();
        let plan = Plan::none(format!("made of {}", names.join(", ")));
        let dispatch = Dispatch::Ensemble(Box::new(ensemble));
        let config_message = completed.raw;
        let model = ServedModel {
            others: Vec::new(),
            signature,
            shown_name: found.shown_name().into(),
            config,
            config_json,
            config_message,
            shape_hashes: Default::default(),
            run_room: RunRoom::default(),
            pipeline: None,
            answers_calls: false,
            streams: is_decoupled,
            is_decoupled,
            model: None,
            own_readiness: Default::default(),
            processes: Processes::default(),
            dispatch,
            metrics,
            content_hash,
            answers_zeros: false,
            decided: None,
            loaded: SystemTime::now(),
            planned: Planned { cpus: self.cpus(), keeps_state: false },
            used: Default::default(),
            bytes: 0,
            files: None,
        };
        Ok((model, plan))
    }

    /// What distinguishes the answers of a loaded model.
    pub(super) fn content_hash(
        &self,
        load: &Load<'_>,
        config: &ModelConfig,
        config_json: &[u8],
    ) -> ContentHash {
        match config.response_cache && self.settings.has_cache {
            true => {
                let folder = self.folder_of_pipeline(load).unwrap_or(load.files());
                ContentHash::of_files(config_json, folder, load.started)
            }
            false => ContentHash::unique(),
        }
    }

    pub(super) fn warn_caching(&self, config: &ModelConfig, log: &mut LoadLog<'_>) {
        if config.response_cache && !self.settings.has_cache {
            log.warn(
                "response_cache { enable: true } has no effect, as the server has no cache; give it one with \
                 --cache-config local,size=<bytes>",
            );
        }
    }
}
