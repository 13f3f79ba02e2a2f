//! A request to a model whose answers are kept: the look into the cache before the queue, and what is put in
//! afterwards.

use std::{sync::Arc, time::Instant};

use backend::NamedTensor;

use crate::{
    cache::{
        Cache,
        key::{Key, KeyBuilder},
    },
    infer::{Answer, Call, Inference, elsewhere::work_on},
    served::{Dispatch, Resolved, ServedModel},
};
use inference::{boxed::BoxFuture, error::Error, request::Parameter, task::Task, timings::Timings};
use telemetry::metrics::CacheHit;

impl Inference {
    /// The answer from the cache, else from the model.
    pub(super) fn cached<'a>(
        &'a self,
        cache: &'a Arc<Cache>,
        call: Call<'a>,
    ) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(self.found_or_computed(cache, call))
    }

    async fn found_or_computed(
        &self,
        cache: &Arc<Cache>,
        mut call: Call<'_>,
    ) -> Result<Answer, Error> {
        let (model, accepted) = (call.model, call.accepted);
        // Taken before the look: an answer that is found must not overtake one that is being made.
        let slot = match &model.dispatch {
            Dispatch::Batches(scheduler) => scheduler.reply_slot(),
            // Answers of sequences are not kept, and those of ensembles have no order.
            Dispatch::Sequences(_) | Dispatch::Ensemble(_) => None,
        };
        let fresh;
        if let Dispatch::Ensemble(ensemble) = &model.dispatch
            && call.found.is_none()
        {
            // The key and the run must be of the same members.
            fresh = crate::infer::ensemble::members(model, &**ensemble)?;
            call.found = Some(&fresh);
        }
        if call.found.is_some_and(has_sequences) {
            let answer = self.compute(call, slot).await?;
            model.metrics.success(answer.rows, accepted.elapsed(), &answer.timings);
            return Ok(answer);
        }
        let looked = Instant::now();
        let key = key(&call).await?;
        let found = cache.get(&key).await;
        let lookup = looked.elapsed();
        if let Some(outputs) = found {
            if let Some(slot) = slot {
                slot.wait_for_earlier().await;
            }
            model.metrics.cache_hit(CacheHit {
                total: accepted.elapsed(),
                queue: looked.saturating_duration_since(accepted),
                lookup,
            });
            return Ok(Answer {
                outputs,
                parameters: Vec::new(),
                timings: Timings::starting_at(looked),
                rows: call.prepared.work.rows.max(1),
            });
        }
        // What the lookup took is no time in the queue.
        call.accepted = Instant::now();
        let answer = self.compute(call, slot).await?;
        let inserting = Instant::now();
        // Parameters are not kept, so that an answer with some would not be the same from the cache.
        if answer.parameters.is_empty() {
            let (cache, outputs) = (cache.clone(), answer.outputs.clone());
            let name = model.signature.model.clone();
            let bytes = bytes_of(&outputs);
            work_on(bytes, move || cache.put(key, &outputs, &name)).await?;
        }
        model.metrics.cache_miss(lookup + inserting.elapsed());
        model.metrics.success(answer.rows, accepted.elapsed(), &answer.timings);
        Ok(answer)
    }
}

/// Is a member among them whose answer depends on the requests before it? Such an answer is not kept, and the request
/// must reach the member.
fn has_sequences(found: &Resolved) -> bool {
    found.members.iter().any(|it| {
        matches!(it.model.dispatch, Dispatch::Sequences(_))
            || it.nested.as_deref().is_some_and(has_sequences)
    })
}

/// Bytes of these tensors.
fn bytes_of(tensors: &[NamedTensor]) -> usize {
    tensors.iter().map(|it| it.tensor.byte_len()).sum()
}

/// Everything that an answer depends on.
async fn key(call: &Call<'_>) -> Result<Key, Error> {
    let (model, work) = (call.model, &call.prepared.work);
    let mut key = KeyBuilder::default();
    key.text(&model.signature.model);
    key.number(model.signature.version);
    content_hashes(&mut key, model, call.found);
    key.text(call.task.map_or("", Task::name));
    key.number(work.signature as u64);
    key.number(work.outputs.len() as u64);
    work.outputs.iter().for_each(|it| key.text(it));
    key.number(work.inputs.len() as u64);
    let inputs = work.inputs.clone();
    let hash = move || {
        inputs.iter().for_each(|it| {
            key.text(&it.name);
            key.tensor(&it.tensor);
        });
        key
    };
    let mut key = work_on(bytes_of(&work.inputs), hash).await?;
    // They mean nothing to the server. What they mean to a model is not known.
    key.number(call.request.parameters.len() as u64);
    for (name, value) in &call.request.parameters {
        key.text(name);
        match value {
            Parameter::Bool(value) => key.text(if *value { "true" } else { "false" }),
            Parameter::Int(value) => key.text(&format!("int {value}")),
            Parameter::Double(value) => key.text(&format!("double {:x}", value.to_bits())),
            Parameter::Text(value) => key.text(&format!("text {value}")),
        }
    }
    Ok(key.finish())
}

/// The loads that the answer comes from: the model's, and where it is an ensemble those of all its members.
fn content_hashes(key: &mut KeyBuilder, model: &ServedModel, found: Option<&Resolved>) {
    key.bytes(model.content_hash.as_bytes());
    for member in found.into_iter().flat_map(|it| &it.members) {
        content_hashes(key, &member.model, member.nested.as_deref());
    }
}
