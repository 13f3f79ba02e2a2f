//! Is there memory for one more model? Estimated before it is loaded, from the size of its files. Pure.

use crate::{
    lifecycle::multi_model::table::Reserved, load::load_error::LoadError,
    settings::multi_model::MultiModel,
};
use machine::bytes_text;

/// The part of the memory that is left for requests, as a divisor, and its bounds in bytes.
const RESERVE: u64 = 20;
const LEAST_RESERVE: u64 = 32 << 20;
const MOST_RESERVE: u64 = 1 << 30;

/// Memory that is taken at this moment, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// By this process and those of models, without files that the system can drop, such as libraries.
    pub(super) taken: u64,
    /// What the machine has left; `None` where it does not tell.
    pub(super) available: Option<u64>,
}

/// What a model with so many bytes of files is estimated to take.
pub(super) fn needed(file_bytes: u64) -> u64 {
    file_bytes.saturating_add(file_bytes / 5)
}

/// Is there room for `needed` bytes beside the models that there are?
///
/// # Errors
/// [`LoadError::OutOfMemory`], with the numbers.
pub(super) fn check(
    needed: u64,
    settings: &MultiModel,
    reserved: Reserved,
    usage: Usage,
) -> Result<(), LoadError> {
    let shown = bytes_text(needed);
    if let Some(budget) = settings.budget {
        return match reserved.all.saturating_add(needed) <= budget {
            true => Ok(()),
            false => Err(LoadError::OutOfMemory(format!(
                "there is no room for it: it needs about {shown}, and the models that are loaded take {} of \
                 --model-memory-budget {}",
                bytes_text(reserved.all),
                bytes_text(budget)
            ))),
        };
    }
    let Some(memory) = settings.memory else { return Ok(()) };
    let reserve = (memory / RESERVE).clamp(LEAST_RESERVE, MOST_RESERVE).min(memory / 4);
    let left = memory.saturating_sub(usage.taken);
    let left = left.min(usage.available.unwrap_or(u64::MAX));
    let free = left.saturating_sub(reserve).saturating_sub(reserved.loading);
    match needed <= free {
        true => Ok(()),
        false => Err(LoadError::OutOfMemory(format!(
            "there is no room for it: it needs about {shown}, and {} of {} of memory are free, less a reserve of {}",
            bytes_text(left),
            bytes_text(memory),
            bytes_text(reserve)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn settings(budget: Option<u64>, memory: Option<u64>) -> MultiModel {
        MultiModel { root: "/m".into(), budget, memory }
    }

    fn fits(needed: u64, settings: &MultiModel, loading: u64, taken: u64) -> bool {
        let reserved = Reserved { all: 60 * MIB, loading };
        check(needed, settings, reserved, Usage { taken, available: None }).is_ok()
    }

    #[test]
    fn files_take_a_fifth_more_than_their_size() {
        assert_eq!((needed(100), needed(0)), (120, 0));
    }

    #[test]
    fn a_budget_is_for_all_models_together() {
        let settings = settings(Some(100 * MIB), Some(1));
        assert!(fits(40 * MIB, &settings, 0, 0) && !fits(40 * MIB + 1, &settings, 0, 0));
    }

    #[test]
    fn without_a_budget_what_is_used_a_reserve_and_other_loads_are_taken_off() {
        let settings = settings(None, Some(1000 * MIB));
        assert!(fits(650 * MIB, &settings, 0, 300 * MIB));
        assert!(!fits(651 * MIB, &settings, 0, 300 * MIB));
        assert!(!fits(650 * MIB, &settings, MIB, 300 * MIB));
    }

    #[test]
    fn a_small_container_has_room_for_small_models() {
        let settings = settings(None, Some(64 * MIB));
        assert!(fits(8 * MIB, &settings, 0, 40 * MIB));
        assert!(!fits(9 * MIB, &settings, 0, 40 * MIB));
    }

    #[test]
    fn what_others_take_of_the_machine_counts_too() {
        let (settings, reserved) = (settings(None, Some(1000 * MIB)), Reserved::default());
        let usage = Usage { taken: 0, available: Some(100 * MIB) };
        let error = check(60 * MIB, &settings, reserved, usage).unwrap_err().to_string();
        assert!(error.contains("about 60 MiB") && error.contains("100 MiB of 1000 MiB"), "{error}");
        assert!(check(50 * MIB, &settings, reserved, usage).is_ok());
    }

    #[test]
    fn a_machine_that_tells_nothing_refuses_nothing() {
        assert!(fits(u64::MAX, &settings(None, None), 0, 0));
    }
}
