//! The members of one request: all as of one moment, and compared with the ensemble when they are others than
//! last time.

use std::{
    ptr,
    sync::{Arc, Weak},
};

use crate::{
    ensemble::{
        Ensemble,
        plan::{Plan, compile},
    },
    serving::{
        manager::{ModelManager, Snapshot},
        served::{Engine, ServedModel},
    },
};
use inference::{error::Error, signature::Signature};

/// An ensemble's members and what goes where between them. Holding it keeps the members alive.
pub struct Resolved {
    /// What goes where.
    pub plan: Arc<Plan>,
    /// The model of each step.
    pub members: Vec<Member>,
}

/// The model of one step.
pub struct Member {
    /// The model.
    pub model: Arc<ServedModel>,
    /// Its own members, as of the same moment, where it is an ensemble.
    pub nested: Option<Box<Resolved>>,
}

/// What came of the last comparison.
pub(super) struct Planned {
    /// Those that were compared. Weak: a member that was unloaded must go.
    members: Vec<Weak<ServedModel>>,
    /// The plan, or what does not fit.
    outcome: Result<Arc<Plan>, String>,
}

impl Planned {
    fn is_of(&self, members: &[Arc<ServedModel>]) -> bool {
        // A weak reference keeps the address from being used again.
        let same =
            |(a, b): (&Weak<ServedModel>, &Arc<ServedModel>)| ptr::eq(a.as_ptr(), Arc::as_ptr(b));
        self.members.len() == members.len() && self.members.iter().zip(members).all(same)
    }
}

/// The ensembles that are being looked into, the innermost first.
struct Path<'a> {
    name: &'a str,
    outer: Option<&'a Path<'a>>,
}

impl Path<'_> {
    fn names(&self) -> Vec<&str> {
        let mut names = self.outer.map(Path::names).unwrap_or_default();
        names.push(self.name);
        names
    }
}

impl Ensemble {
    /// The members that serve now, and theirs.
    ///
    /// # Errors
    /// When one is not there, or does not fit, or has the ensemble among its own members; a sentence.
    pub fn resolve(&self) -> Result<Resolved, String> {
        let Some(manager) = self.manager.upgrade() else {
            return Err("the server is shutting down".to_owned());
        };
        let path = Path { name: &self.outer.name, outer: None };
        self.resolve_in(&manager, &manager.snapshot(), &path)
    }

    fn resolve_in(
        &self,
        manager: &ModelManager,
        snapshot: &Snapshot,
        path: &Path<'_>,
    ) -> Result<Resolved, String> {
        let mut models = Vec::with_capacity(self.config.steps.len());
        for (i, step) in self.config.steps.iter().enumerate() {
            let member = self.member(step);
            let model = snapshot.find(&member, step.version).ok_or_else(|| {
                let why = manager.explain(&member, step.version);
                format!("step[{i}] ('{}'): {why}", step.model)
            })?;
            models.push(model);
        }
        let plan = self.plan_for(&models)?;
        let members = models.into_iter().map(|model| {
            let Engine::Ensemble(inner) = &model.engine else {
                return Ok(Member { model, nested: None });
            };
            let name = &*inner.outer.name;
            let mut names = path.names();
            if let Some(from) = names.iter().position(|it| *it == name) {
                names.push(name);
                let circle = names.get(from..).unwrap_or_default().join("' -> '");
                return Err(format!("the ensembles are made of each other: '{circle}'"));
            }
            let path = Path { name, outer: Some(path) };
            let nested = inner
                .resolve_in(manager, snapshot, &path)
                .map_err(|it| format!("its member '{name}' cannot run: {it}"))?;
            Ok(Member { nested: Some(Box::new(nested)), model })
        });
        let members = members.collect::<Result<_, String>>()?;
        Ok(Resolved { plan, members })
    }

    fn plan_for(&self, models: &[Arc<ServedModel>]) -> Result<Arc<Plan>, String> {
        if let Some(planned) = &*self.planned.load()
            && planned.is_of(models)
        {
            return planned.outcome.clone();
        }
        let signatures: Vec<&Signature> = models.iter().map(|it| &*it.signature).collect();
        let outcome = compile(&self.config, &self.outer, &signatures);
        let outcome = outcome.map(Arc::new).map_err(|it| it.join("; "));
        let members = models.iter().map(Arc::downgrade).collect();
        self.planned.store(Some(Arc::new(Planned { members, outcome: outcome.clone() })));
        outcome
    }

    /// Would a request that came now be refused by a member that every request needs? Looks at the members of the
    /// last request.
    ///
    /// # Errors
    /// Those of [`ServedModel::admit`].
    pub fn admit(&self) -> Result<(), Error> {
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

    /// Compares with the members that serve now, and logs what does not fit. For whoever has changed one.
    pub fn revalidate(&self) {
        if let Err(reason) = self.resolve() {
            tracing::warn!(model = self.outer.name, "the ensemble cannot run as it is: {reason}");
        }
    }
}
