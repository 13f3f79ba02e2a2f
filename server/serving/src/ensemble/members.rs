//! The members of one request: all as of one moment, and compared with the ensemble when they are others than
//! last time.

use std::{
    cell::Cell,
    collections::BTreeSet,
    ptr,
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwapOption;

use crate::{
    config::{
        ensemble::{EnsembleConfig, StepConfig},
        model::ModelConfig,
    },
    ensemble::{
        path::Path,
        plan::{Plan, compile},
        turns::Turns,
    },
    manager::{ModelManager, Snapshot},
    model_id::ModelId,
    served::{Dispatch, Member, MemberLookup, Members, MembersError, Resolved, ServedModel},
};
use inference::{error::Error, request::SequenceId, signature::Signature};
use schedule::{RequestQueue, Semaphore};

/// So many members a request may have, with those of ensembles that are members. Ensembles of two steps each, one
/// inside the other, would else have twice as many with each.
const MOST_MEMBERS: usize = 1024;

/// What answers an ensemble's requests.
pub struct Ensemble {
    config: EnsembleConfig,
    /// The ensemble's own inputs and outputs.
    outer: ModelConfig,
    /// The repository that it and its members lie in; empty where names are used once.
    namespace: Arc<str>,
    /// Where its members are. Weak: the manager holds the ensemble.
    manager: Weak<ModelManager>,
    /// One for each step, where the number of requests in it is bounded.
    step_limits: Vec<Semaphore>,
    /// Where requests of sequences stand before steps.
    turns: Arc<Turns>,
    /// The steps, as compared with the members of the last request.
    planned: ArcSwapOption<Planned>,
}

impl Ensemble {
    /// Over the members that this manager has in that namespace.
    pub fn new(
        config: EnsembleConfig,
        outer: ModelConfig,
        namespace: Arc<str>,
        manager: &Arc<ModelManager>,
    ) -> Ensemble {
        let step_limits = match config.max_inflight {
            0 => Vec::new(),
            most => config.steps.iter().map(|_| Semaphore::new(most)).collect(),
        };
        let manager = Arc::downgrade(manager);
        let (turns, planned) = (Arc::default(), ArcSwapOption::empty());
        Ensemble { config, outer, namespace, manager, step_limits, turns, planned }
    }

    /// Names of the members, each once, in order.
    pub fn names(&self) -> BTreeSet<&str> {
        self.config.steps.iter().map(|it| &*it.model).collect()
    }

    fn member(&self, step: &StepConfig) -> ModelId {
        ModelId { name: step.model.clone(), namespace: self.namespace.clone() }
    }

    /// The members that serve, as far as they are there.
    fn serving(&self) -> Vec<Arc<ServedModel>> {
        let resolved = self.resolve().map(|it| it.members).unwrap_or_default();
        resolved.into_iter().map(|it| it.model).collect()
    }

    fn resolve_at(
        &self,
        lookup: &dyn MemberLookup,
        path: &Path<'_>,
    ) -> Result<Resolved, MembersError> {
        let mut models = Vec::with_capacity(self.config.steps.len());
        for (i, step) in self.config.steps.iter().enumerate() {
            let model = lookup
                .find(&self.member(step), step.version)
                .map_err(|why| MembersError(format!("step[{i}] ('{}'): {why}", step.model)))?;
            models.push(model);
        }
        let plan = self.plan_for(&models)?;
        let members = models.into_iter().map(|model| {
            let Dispatch::Ensemble(inner) = &model.dispatch else {
                return Ok(Member { model, nested: None });
            };
            let nested = Some(Box::new(inner.resolve_within(lookup, path)?));
            Ok(Member { nested, model })
        });
        let members = members.collect::<Result<_, MembersError>>()?;
        Ok(Resolved { plan, members })
    }

    fn plan_for(&self, models: &[Arc<ServedModel>]) -> Result<Arc<Plan>, MembersError> {
        if let Some(planned) = &*self.planned.load()
            && planned.is_of(models)
        {
            return planned.outcome.clone();
        }
        let signatures: Vec<&Signature> = models.iter().map(|it| &*it.signature).collect();
        let outcome = compile(&self.config, &self.outer, &signatures);
        let outcome = outcome.and_then(|plan| match in_line(&plan, models) {
            None => Ok(Arc::new(plan)),
            Some(problem) => Err(vec![problem]),
        });
        let outcome = outcome.map_err(|it| MembersError(it.join("; ")));
        let members = models.iter().map(Arc::downgrade).collect();
        self.planned.store(Some(Arc::new(Planned { members, outcome: outcome.clone() })));
        outcome
    }
}

/// Why the steps behind two decoupled members cannot be run; `None` where each such member is behind the one before.
fn in_line(plan: &Plan, models: &[Arc<ServedModel>]) -> Option<String> {
    let decoupled = || models.iter().enumerate().filter(|it| it.1.is_decoupled);
    let (one, other) = decoupled()
        .flat_map(|a| decoupled().map(move |b| (a, b)))
        .find(|(a, b)| a.0 < b.0 && !plan.depends(b.0, a.0) && !plan.depends(a.0, b.0))?;
    Some(format!(
        "step[{}] ('{}') and step[{}] ('{}') give a request any number of answers each, and neither reads what the \
         other gives: which answers belong together is not known; expected one behind the other",
        one.0, one.1.signature.model, other.0, other.1.signature.model
    ))
}

/// What came of the last comparison.
pub(super) struct Planned {
    /// Those that were compared. Weak: a member that was unloaded must go.
    members: Vec<Weak<ServedModel>>,
    /// The plan, or what does not fit.
    outcome: Result<Arc<Plan>, MembersError>,
}

impl Planned {
    fn is_of(&self, members: &[Arc<ServedModel>]) -> bool {
        // A weak reference keeps the address from being used again.
        let same =
            |(a, b): (&Weak<ServedModel>, &Arc<ServedModel>)| ptr::eq(a.as_ptr(), Arc::as_ptr(b));
        self.members.len() == members.len() && self.members.iter().zip(members).all(same)
    }
}

impl Members for Ensemble {
    fn resolve(&self) -> Result<Resolved, MembersError> {
        let Some(manager) = self.manager.upgrade() else {
            return Err(MembersError("the server is shutting down".to_owned()));
        };
        let left = Cell::new(MOST_MEMBERS);
        let lookup = Lookup { snapshot: manager.snapshot(), manager: &manager, left };
        self.resolve_at(&lookup, &Path { name: &self.outer.name, outer: None })
    }

    fn resolve_within(
        &self,
        lookup: &dyn MemberLookup,
        outer: &Path<'_>,
    ) -> Result<Resolved, MembersError> {
        let name = &*self.outer.name;
        let mut names = outer.names();
        if let Some(from) = names.iter().position(|it| *it == name) {
            names.push(name);
            let circle = names.get(from..).unwrap_or_default().join("' -> '");
            let text = format!("the ensembles are made of each other: '{circle}'");
            return Err(MembersError(text));
        }
        self.resolve_at(lookup, &Path { name, outer: Some(outer) })
            .map_err(|it| MembersError(format!("its member '{name}' cannot run: {it}")))
    }

    fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    fn step_limit(&self, step: usize) -> Option<&Semaphore> {
        self.step_limits.get(step)
    }

    fn has_member(&self, id: &ModelId) -> bool {
        self.config.steps.iter().any(|it| self.member(it).means(id))
    }

    fn revalidate(&self) {
        if let Err(reason) = self.resolve() {
            tracing::warn!(model = self.outer.name, "the ensemble cannot run as it is: {reason}");
        }
    }
}

impl RequestQueue for Ensemble {
    /// Would a request that came now be refused by a member that every request needs? Looks at the members of the
    /// last request.
    fn admit(&self) -> Result<(), Error> {
        let planned = self.planned.load();
        let Some(planned) = &*planned else { return Ok(()) };
        let Ok(plan) = &planned.outcome else { return Ok(()) };
        for (step, member) in plan.steps.iter().zip(&planned.members) {
            if !step.is_always_needed {
                continue;
            }
            // One that is gone has a successor, or the request will say that it has none.
            match member.upgrade().map(|it| it.admit()) {
                None | Some(Ok(()) | Err(Error::ShuttingDown)) => {}
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn instances(&self) -> usize {
        // Its members have instances; what bounds it is not known to it.
        1
    }

    fn flush(&self) {}

    fn close(&self) {}

    fn wait_closed(&self, _patience: Duration) -> usize {
        0
    }

    fn release(&self) {}

    fn takes_sequence(&self, id: &SequenceId) -> bool {
        self.serving().iter().all(|it| it.takes_sequence(id))
    }

    fn has_sequence(&self, id: &SequenceId) -> bool {
        self.serving().iter().any(|it| it.has_sequence(id))
    }

    fn leave_sequence(&self, id: &SequenceId) {
        self.serving().iter().for_each(|it| it.leave_sequence(id));
    }
}

/// Members as the manager has them at one moment, for one request.
struct Lookup<'a> {
    snapshot: Snapshot,
    manager: &'a ModelManager,
    /// So many more may be found.
    left: Cell<usize>,
}

impl MemberLookup for Lookup<'_> {
    fn find(&self, id: &ModelId, version: Option<u64>) -> Result<Arc<ServedModel>, Error> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Err(Error::InvalidRequest(format!(
                "its steps, with those of ensembles among them, are more than {MOST_MEMBERS}, which is the most for a \
                 request"
            )));
        };
        self.left.set(left);
        self.snapshot.find(id, version).ok_or_else(|| self.manager.explain(id, version))
    }
}
