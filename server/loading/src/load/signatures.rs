//! The signatures of a model beside its default one: their configurations, and whether their requests are merged.

use std::{collections::BTreeMap, sync::Arc};

use backend::{Device, Instance, Model, ModelSpec, NamedSpec};

use crate::{
    config::{complete::RowsKnown, fit::batches},
    load::{
        create_error::CreateError,
        load_error::LoadError,
        load_log::LoadLog,
        loader::Loader,
        merging::said_by_graph,
        placement::Plan,
        proof::{Proof, is_due},
        version_load::Load,
    },
};
use inference::signature::{Named, ONLY_SIGNATURE};
use serving::{
    config::{
        model::{ModelConfig, Scheduling},
        raw::{ModelConfig as RawConfig, model_config::SchedulingChoice},
    },
    validate::MOST_SIGNATURES,
};

/// What there is beside the default signature.
#[derive(Default)]
pub(super) struct OtherSignatures {
    /// What the default signature is called; `None` where the model's file has no names for its signatures.
    pub(super) named: Option<Named>,
    /// Configurations of the others, in their order.
    pub(super) configs: Vec<ModelConfig>,
}

impl Loader {
    /// Completes the configurations of a model's signatures beside the default one, of which `default` is that. One
    /// that cannot be served is warned about, and keeps no other from being served.
    ///
    /// # Errors
    /// When the device cannot be used on which rows are tried.
    pub(super) fn other_signatures(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        model: &dyn Model,
        default: &ModelConfig,
        instance: &mut Option<Box<dyn Instance>>,
        log: &mut LoadLog<'_>,
    ) -> Result<OtherSignatures, CreateError> {
        let Some(signatures) = model.signatures() else { return Ok(OtherSignatures::default()) };
        let device = plan.devices.first().copied().unwrap_or(Device::Cpu);
        // What stands around the runs of such a model is made for its default signature.
        let is_plain =
            !matches!(default.scheduling, Scheduling::Sequences(_)) && default.ragged.is_none();
        let (mut others, mut configs) = (Vec::new(), Vec::new());
        let mut unusable = signatures.unusable.clone();
        let mut index = 0;
        for other in &signatures.others {
            index += 1;
            let config = match is_plain && index < MOST_SIGNATURES {
                true => {
                    let tried = Tried { model, device, index };
                    self.configuration_of(load, other, &tried, instance)?
                }
                false => {
                    let problem = "the configuration is for the default signature alone";
                    Err(LoadError::Refused(problem.to_owned()))
                }
            };
            // Their places are the engine's numbers: one that cannot be served keeps its place.
            let config = config.unwrap_or_else(|problem| {
                unusable.push((other.name.clone(), problem.to_string()));
                default.clone()
            });
            let mut signature = config.signature(load.version, &BTreeMap::new());
            signature.named =
                Some(Named { method: other.method.clone(), ..named(&other.name, index) });
            others.push(signature);
            configs.push(config);
        }
        for (name, reason) in &unusable {
            log.warn(&format!("signature '{name}' is not served: {reason}"));
        }
        if &*signatures.default != ONLY_SIGNATURE && !others.is_empty() {
            let default = &signatures.default;
            log.info(&format!("requests that name no signature get '{default}'"));
        }
        let named = Named {
            others: others.into(),
            unusable: unusable.into(),
            definitions: signatures.definitions.clone(),
            method: signatures.default_method.clone(),
            ..named(&signatures.default, 0)
        };
        Ok(OtherSignatures { named: Some(named), configs })
    }

    /// The configuration of one signature, or why it cannot be served.
    fn configuration_of(
        &self,
        load: &Load<'_>,
        other: &NamedSpec,
        tried: &Tried<'_>,
        instance: &mut Option<Box<dyn Instance>>,
    ) -> Result<Result<ModelConfig, LoadError>, CreateError> {
        let raw = configured(load.raw, &other.spec);
        let complete = |rows| self.complete_with(load, Some(&raw), Some(&other.spec), rows);
        let config = match complete(RowsKnown::Independent) {
            Ok(completed) => completed.config,
            Err(problem) => return Ok(Err(problem)),
        };
        if !is_due(&config) {
            return Ok(Ok(config));
        }
        let proof = match said_by_graph(&other.spec, other.allows_trial_runs) {
            Some(proof) => proof,
            None => {
                let mut signature = config.signature(load.version, &BTreeMap::new());
                signature.named = Some(named(&other.name, tried.index));
                self.try_rows_of(load, tried.model, tried.device, instance, &signature, &config)?
            }
        };
        if proof == Proof::Independent {
            return Ok(Ok(config));
        }
        let bare = RawConfig { max_batch_size: None, scheduling_choice: None, ..raw.clone() };
        let completed =
            self.complete_with(load, Some(&bare), Some(&other.spec), RowsKnown::Dependent);
        Ok(completed.map(|it| it.config))
    }
}

/// What the rows of a signature are tried with.
struct Tried<'a> {
    model: &'a dyn Model,
    device: Device,
    index: usize,
}

fn named(name: &Arc<str>, index: usize) -> Named {
    let (others, unusable, definitions) = Default::default();
    Named { name: name.clone(), index, method: None, others, unusable, definitions }
}

/// What a model's configuration says of the signatures that it does not describe: how requests are merged, as far as
/// the shapes of this one allow it.
fn configured(raw: Option<&RawConfig>, spec: &ModelSpec) -> RawConfig {
    let mut own = RawConfig::default();
    let Some(raw) = raw else { return own };
    own.name.clone_from(&raw.name);
    if batches(spec, raw) {
        own.max_batch_size = raw.max_batch_size;
        own.scheduling_choice = raw.scheduling_choice.clone().filter(|it| {
            matches!(it, SchedulingChoice::DynamicBatching(_)) && raw.max_batch_size != Some(0)
        });
    } else if raw.max_batch_size.is_some() {
        own.max_batch_size = Some(0);
    }
    own
}
