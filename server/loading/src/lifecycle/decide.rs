//! What is to be done so that the right versions of a model serve, of the right content. Pure.

use crate::repository::file_stamps::{FileStamps, Tree};
use serving::config::raw;

/// What a model was, or is to be, made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sources {
    /// Its configuration before it is completed, but for the name.
    pub(super) raw: raw::ModelConfig,
    /// Its files.
    pub(super) stamps: FileStamps,
}

impl Sources {
    /// Of a model of that name, whether its configuration says the name or not.
    pub(super) fn new(name: &str, raw: Option<raw::ModelConfig>, stamps: FileStamps) -> Sources {
        let mut raw = raw.unwrap_or_default();
        if raw.name.is_empty() {
            name.clone_into(&mut raw.name);
        }
        Sources { raw, stamps }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Versions to load.
    pub(super) load: Vec<u64>,
    /// Versions that serve and go on doing so.
    pub(super) keep: Vec<u64>,
    /// Do those that are kept get other instances?
    pub(super) resize: bool,
    /// Do any that serve now stop?
    pub(super) drops: bool,
}

impl Work {
    /// Is everything as it should be?
    pub(super) fn is_nothing(&self) -> bool {
        self.load.is_empty() && !self.resize && !self.drops
    }
}

/// Compares what `serving` versions were made of with what the `wanted` ones are to be made of. Of those that serve the
/// `ended` ones do so no more until they are loaded again, whatever has changed.
pub(super) fn decide(
    old: Option<&Sources>,
    serving: &[u64],
    ended: &[u64],
    new: &Sources,
    wanted: &[u64],
) -> Work {
    let is_same = |version: &u64| {
        old.is_some_and(|old| {
            material(&old.raw) == material(&new.raw)
                && old.stamps.common == new.stamps.common
                && files(old, *version) == files(new, *version)
        })
    };
    let keeps = |it: &u64| serving.contains(it) && !ended.contains(it) && is_same(it);
    let (keep, load): (Vec<u64>, Vec<u64>) = wanted.iter().copied().partition(keeps);
    let regrouped = old.is_some_and(|it| it.raw.instance_group != new.raw.instance_group);
    Work {
        resize: regrouped && !keep.is_empty(),
        drops: serving.iter().any(|it| !wanted.contains(it)),
        keep,
        load,
    }
}

/// The configuration without what can change while a model serves.
fn material(raw: &raw::ModelConfig) -> raw::ModelConfig {
    raw::ModelConfig { instance_group: Vec::new(), version_policy: None, ..raw.clone() }
}

fn files(sources: &Sources, version: u64) -> Option<&Tree> {
    sources.stamps.versions.get(&version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serving::config::raw::ModelInstanceGroup;

    /// A model with these versions, of one file each.
    fn sources(batch: i32, count: i32, versions: &[u64]) -> Sources {
        let group = ModelInstanceGroup { count, ..Default::default() };
        let raw = raw::ModelConfig {
            max_batch_size: Some(batch),
            instance_group: vec![group],
            ..Default::default()
        };
        let versions = versions.iter().map(|it| (*it, Tree::new())).collect();
        Sources { raw, stamps: FileStamps { versions, ..Default::default() } }
    }

    fn work(load: &[u64], keep: &[u64]) -> Work {
        Work { load: load.to_vec(), keep: keep.to_vec(), ..Work::default() }
    }

    #[track_caller]
    fn check(old: &Sources, serving: &[u64], new: &Sources, wanted: &[u64], expect: Work) {
        assert_eq!(decide(Some(old), serving, &[], new, wanted), expect);
    }

    #[test]
    fn a_model_that_was_never_loaded_is_loaded() {
        let new = sources(8, 1, &[1, 2]);
        assert_eq!(decide(None, &[], &[], &new, &[2]), work(&[2], &[]));
    }

    #[test]
    fn what_has_not_changed_is_left_alone() {
        let model = sources(8, 1, &[1]);
        check(&model, &[1], &model, &[1], work(&[], &[1]));
        assert!(decide(Some(&model), &[1], &[], &model, &[1]).is_nothing());
    }

    #[test]
    fn what_has_ended_is_loaded_though_nothing_has_changed() {
        let model = sources(8, 1, &[1, 2]);
        let decided = decide(Some(&model), &[1, 2], &[2], &model, &[1, 2]);
        assert_eq!(decided, work(&[2], &[1]));
    }

    #[test]
    fn a_configuration_that_says_the_name_is_the_same_as_one_that_does_not() {
        let named = raw::ModelConfig { name: "m".to_owned(), ..Default::default() };
        let of = |raw| Sources::new("m", raw, FileStamps::default());
        check(&of(None), &[1], &of(Some(named)), &[1], work(&[], &[1]));
    }

    #[test]
    fn another_version_is_loaded_beside_one_that_stays_or_in_its_place() {
        let (old, new) = (sources(8, 1, &[1]), sources(8, 1, &[1, 2]));
        check(&old, &[1], &new, &[1, 2], work(&[2], &[1]));
        check(&old, &[1], &new, &[2], Work { drops: true, ..work(&[2], &[]) });
    }

    #[test]
    fn other_instances_are_a_change_in_place_and_another_batch_size_is_not() {
        let old = sources(8, 1, &[1]);
        let resized = Work { resize: true, ..work(&[], &[1]) };
        check(&old, &[1], &sources(8, 2, &[1]), &[1], resized);
        check(&old, &[1], &sources(4, 1, &[1]), &[1], work(&[1], &[]));
    }

    #[test]
    fn other_files_of_one_version_leave_the_other_version_alone() {
        let (old, mut new) = (sources(8, 1, &[1, 2]), sources(8, 1, &[1, 2]));
        let here = FileStamps::take(&crate::repository::local::FoundModel {
            name: "m".into(),
            namespace: Default::default(),
            config: None,
            dir: env!("CARGO_MANIFEST_DIR").into(),
            versions: [(2, concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into())].into(),
            renamed: false,
            label: None,
            is_of_request: false,
            others: Default::default(),
            script: None,
            contents: Default::default(),
        });
        new.stamps.versions.extend(here.versions);
        check(&old, &[1, 2], &new, &[1, 2], work(&[2], &[1]));
    }

    #[test]
    fn a_version_that_failed_is_loaded_again() {
        let model = sources(8, 1, &[1, 2]);
        check(&model, &[1], &model, &[1, 2], work(&[2], &[1]));
    }
}
