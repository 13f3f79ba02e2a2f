//! Ensembles that are being loaded, and their members: ensembles that are made of each other are found before any of
//! them waits for another, and an unload of a member waits for the ensemble.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use serving::{
    config::{ensemble, raw},
    lock::lock,
    model_id::ModelId,
};

/// The ensembles that are being loaded.
#[derive(Default)]
pub(super) struct MemberWaits {
    /// Guards which members each of them has: its load may wait for those of its members. Nothing else is taken under
    /// it.
    loading: Mutex<BTreeMap<ModelId, Vec<ModelId>>>,
    /// One of them is loaded, or is not.
    ended: Condvar,
}

/// An ensemble is among those that are being loaded until this is dropped.
pub(super) struct MemberWait<'a> {
    id: &'a ModelId,
    awaited: &'a MemberWaits,
}

impl Drop for MemberWait<'_> {
    fn drop(&mut self) {
        lock(&self.awaited.loading).remove(self.id);
        self.awaited.ended.notify_all();
    }
}

/// The members of a model: they lie in its repository.
pub(super) fn members(namespace: &Arc<str>, raw: &raw::ModelConfig) -> Vec<ModelId> {
    let member = |name: String| ModelId { name: name.into(), namespace: namespace.clone() };
    ensemble::members(raw).into_iter().map(member).collect()
}

/// A way from a model along members back to itself: `'a' -> 'b' -> 'a'`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}'", .0.join("' -> '"))]
pub(super) struct Circle(Vec<String>);

impl MemberWaits {
    /// Whoever holds the place of a model asks here before waiting for its members. Two loads of which each would
    /// wait for the other are not both let through, whatever their configurations were read from. Blocking.
    ///
    /// # Errors
    /// The circle, as the repository or the loads that go on have it.
    ///
    /// `on_disk` knows the members of a model as the repository has it.
    pub(super) fn wait_for<'a>(
        &'a self,
        id: &'a ModelId,
        members: &[ModelId],
        on_disk: impl Fn(&ModelId) -> Vec<ModelId>,
    ) -> Result<MemberWait<'a>, Circle> {
        if let Some(circle) = circle(id, members.to_vec(), on_disk) {
            return Err(circle);
        }
        let mut awaited = lock(&self.loading);
        let of_load = |it: &ModelId| awaited.get(it).cloned().unwrap_or_default();
        if let Some(circle) = circle(id, members.to_vec(), of_load) {
            return Err(circle);
        }
        awaited.insert(id.clone(), members.to_vec());
        Ok(MemberWait { id, awaited: self })
    }

    /// Waits until no ensemble is being loaded that this model is a member of. Blocking; to be called without any lock.
    pub(super) fn until_loaded(&self, member: &ModelId) {
        let needs = |it: &mut BTreeMap<ModelId, Vec<ModelId>>| {
            it.values().any(|members| members.contains(member))
        };
        let loading = self.ended.wait_while(lock(&self.loading), needs);
        drop(loading.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The same, where `first` are the members of `id`, and `members_of` knows those of others.
fn circle(
    id: &ModelId,
    first: Vec<ModelId>,
    members_of: impl Fn(&ModelId) -> Vec<ModelId>,
) -> Option<Circle> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<Vec<ModelId>> = first.into_iter().map(|it| vec![id.clone(), it]).collect();
    while let Some(path) = open.pop() {
        let Some(last) = path.last() else { continue };
        if last == id {
            return Some(Circle(path.iter().map(|it| it.name.to_string()).collect()));
        }
        if seen.insert(last.clone()) {
            let next = members_of(last).into_iter();
            open.extend(next.map(|it| path.iter().cloned().chain([it]).collect()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, models: &[(&str, &[&str])]) -> Option<String> {
        let members_of = |id: &ModelId| {
            let model = models.iter().find(|it| *it.0 == *id.name);
            model.map_or(&[][..], |it| it.1).iter().map(|it| ModelId::named(it)).collect()
        };
        let id = ModelId::named(name);
        circle(&id, members_of(&id), members_of).map(|it| it.to_string())
    }

    #[test]
    fn a_circle_is_an_error_of_its_members_only() {
        let models: &[(&str, &[&str])] =
            &[("a", &["b"]), ("b", &["c"]), ("c", &["d", "b"]), ("d", &[])];
        assert_eq!(found("a", models), None);
        assert_eq!(found("b", models).unwrap(), "'b' -> 'c' -> 'b'");
        assert_eq!(found("c", models).unwrap(), "'c' -> 'b' -> 'c'");
        assert_eq!(found("d", models), None);
    }

    #[test]
    fn a_missing_model_is_no_circle_and_a_model_may_be_its_own_member() {
        assert_eq!(found("a", &[("a", &["gone"])]), None);
        assert_eq!(found("a", &[("a", &["a"])]).unwrap(), "'a' -> 'a'");
    }
}
