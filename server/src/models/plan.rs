//! How many instances, and how many threads each: never more than the processors that there are. Pure.

use std::{collections::BTreeMap, num::NonZeroUsize};

use super::raw::ModelInstanceGroup;
use crate::config::ModelDefaults;

/// The instances of one model version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Most instances.
    pub instances: NonZeroUsize,
    /// Instances that are made before the model is ready; the others when there is work for them.
    pub made_at_load: NonZeroUsize,
    /// Threads of one run.
    pub threads: NonZeroUsize,
    /// Why, for the log.
    pub reason: String,
}

/// Instances of a model that says nothing: two, so that one can run while another's results are sent, and
/// never more than there are processors.
const DEFAULT_INSTANCES: usize = 2;

/// The model's own setting of threads, as Triton calls it for ONNX Runtime and for libtorch; 0 leaves it to
/// the server.
const THREADS: [&str; 2] = ["intra_op_thread_count", "INTRA_OP_THREAD_COUNT"];

/// The plan for a model with these groups and settings of its engine on a machine of `cpus` processors.
pub(super) fn plan(
    groups: &[ModelInstanceGroup],
    options: &BTreeMap<String, String>,
    defaults: &ModelDefaults,
    cpus: NonZeroUsize,
) -> Plan {
    // A count of 0 is one that is not given.
    let count = |it: &ModelInstanceGroup| usize::try_from(it.count).unwrap_or(0);
    // A passive instance gets no requests, so it need not be there.
    let groups = || groups.iter().filter(|it| !it.passive);
    let asked: usize = groups().map(|it| count(it).max(1)).sum();
    let says_so = groups().any(|it| 0 < count(it));
    let (instances, made_at_load, why) = if says_so {
        (asked, asked, "instance_group".to_owned())
    } else if let Some(count) = defaults.instance_count {
        (count.get(), count.get(), "--default-instance-count".to_owned())
    } else {
        (DEFAULT_INSTANCES.min(cpus.get()), 1, "default, further ones when needed".to_owned())
    };
    let at_least_one = |it| NonZeroUsize::new(it).unwrap_or(NonZeroUsize::MIN);
    let instances = at_least_one(instances);
    let own = THREADS.iter().find_map(|key| {
        let threads = options.get(*key)?.trim().parse().ok()?;
        Some((NonZeroUsize::new(threads)?, *key))
    });
    let (threads, from) = match (own, defaults.intra_op_threads) {
        (Some((threads, key)), _) => (threads, key.to_owned()),
        (None, Some(threads)) => {
            (threads, "--default-intra-op-threads or OMP_NUM_THREADS".to_owned())
        }
        (None, None) => {
            let share = at_least_one(cpus.get() / instances.get());
            (share, format!("an equal share of {cpus} processors"))
        }
    };
    let reason = format!("instances: {why}; threads: {from}");
    Plan { instances, made_at_load: at_least_one(made_at_load), threads, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap()
    }

    fn defaults() -> ModelDefaults {
        ModelDefaults { instance_count: None, intra_op_threads: None, inter_op_threads: None }
    }

    fn shape(plan: &Plan) -> (usize, usize, usize) {
        (plan.instances.get(), plan.made_at_load.get(), plan.threads.get())
    }

    fn group(count: i32) -> ModelInstanceGroup {
        ModelInstanceGroup { count, ..ModelInstanceGroup::default() }
    }

    #[test]
    fn without_a_word_two_instances_share_the_processors_and_one_is_made_at_once() {
        assert_eq!(shape(&plan(&[], &BTreeMap::new(), &defaults(), number(1))), (1, 1, 1));
        assert_eq!(shape(&plan(&[], &BTreeMap::new(), &defaults(), number(2))), (2, 1, 1));
        assert_eq!(shape(&plan(&[], &BTreeMap::new(), &defaults(), number(8))), (2, 1, 4));
        assert_eq!(shape(&plan(&[group(0)], &BTreeMap::new(), &defaults(), number(8))), (2, 1, 4));
    }

    #[test]
    fn a_configured_count_is_kept_and_its_threads_fit_the_processors() {
        assert_eq!(shape(&plan(&[group(3)], &BTreeMap::new(), &defaults(), number(8))), (3, 3, 2));
        assert_eq!(
            shape(&plan(&[group(16)], &BTreeMap::new(), &defaults(), number(8))),
            (16, 16, 1)
        );
    }

    #[test]
    fn a_configured_count_beats_the_default_and_the_default_beats_the_choice() {
        let defaults = ModelDefaults {
            instance_count: Some(number(4)),
            intra_op_threads: Some(number(3)),
            ..defaults()
        };
        assert_eq!(shape(&plan(&[], &BTreeMap::new(), &defaults, number(8))), (4, 4, 3));
        assert_eq!(shape(&plan(&[group(1)], &BTreeMap::new(), &defaults, number(8))), (1, 1, 3));
    }

    #[test]
    fn passive_instances_take_no_part() {
        let spare = ModelInstanceGroup { passive: true, ..group(5) };
        let plan = plan(&[group(2), spare], &BTreeMap::new(), &defaults(), number(8));
        assert_eq!(shape(&plan), (2, 2, 4));
    }

    #[test]
    fn the_threads_are_those_that_the_model_asks_for() {
        let defaults = ModelDefaults { intra_op_threads: Some(number(3)), ..defaults() };
        let threads = |key: &str, own: &str| {
            let options = BTreeMap::from([(key.to_owned(), own.to_owned())]);
            plan(&[], &options, &defaults, number(8)).threads.get()
        };
        for key in THREADS {
            assert_eq!((threads(key, " 5 "), threads(key, "0")), (5, 3));
        }
    }
}
