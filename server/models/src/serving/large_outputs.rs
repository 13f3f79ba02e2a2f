//! Outputs that may take many times the bytes of the inputs: the room that a request takes for them before its run.

use std::sync::Arc;

use inference::{
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
};
use schedule::work::Work;

/// Bytes of outputs that are made without room in the budget.
const UNCOUNTED: usize = 64 << 10;

/// Those of one model, each with the bytes of a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct LargeOutputs(Arc<[(Arc<str>, usize)]>);

impl LargeOutputs {
    pub(crate) fn new(outputs: Vec<(Arc<str>, usize)>) -> LargeOutputs {
        LargeOutputs(outputs.into())
    }

    /// What requests of the same shapes differ in: which of these outputs they want. 0 for none of them.
    pub(crate) fn key(&self, work: &Work) -> u64 {
        let wanted = |(name, _): &(Arc<str>, usize)| work.outputs.contains(name);
        // A forest has two.
        let bits = self.0.iter().take(64).enumerate();
        bits.fold(0, |key, (at, it)| key | u64::from(wanted(it)) << at)
    }

    /// Takes room for those that a request wants; `None` where it wants none of them, or little.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where other requests hold it; [`Error::InvalidRequest`] where all of the budget would
    /// not do.
    pub(crate) fn take(
        &self,
        model: &str,
        work: &Work,
        budget: Option<&Arc<Budget>>,
    ) -> Result<Option<Permit>, Error> {
        let wanted = || self.0.iter().filter(|(name, _)| work.outputs.contains(name));
        let of_row = wanted().map(|(_, bytes)| *bytes).fold(0, usize::saturating_add);
        let bytes = of_row.saturating_mul(work.rows.max(1));
        let Some(budget) = budget.filter(|_| UNCOUNTED < bytes) else { return Ok(None) };
        if budget.limit() < bytes {
            let names: Vec<String> = wanted().map(|(name, _)| format!("'{name}'")).collect();
            return Err(Error::InvalidRequest(format!(
                "model '{model}': {} of {} rows would take {bytes} bytes, more than all requests may take together \
                 (--max-inflight-bytes); send fewer rows at once",
                names.join(" and "),
                work.rows
            )));
        }
        budget.take(bytes).map(Some).ok_or_else(|| out_of_bytes(budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(rows: usize, outputs: &[&str]) -> Work {
        let outputs = outputs.iter().map(|it| Arc::from(*it)).collect();
        Work { inputs: Vec::new(), outputs, rows, signature: 0 }
    }

    fn outputs() -> LargeOutputs {
        LargeOutputs::new(vec![("leaf".into(), 4000), ("shap".into(), 400)])
    }

    #[test]
    fn room_is_taken_for_what_is_wanted_and_given_back() {
        let budget = Budget::new(1 << 20);
        let take = |rows, names: &[&str]| outputs().take("m", &work(rows, names), Some(&budget));
        assert!(take(100, &["y"]).unwrap().is_none());
        assert!(take(10, &["leaf"]).unwrap().is_none(), "it is little");
        let held = take(100, &["y", "leaf", "shap"]).unwrap();
        assert_eq!((held.as_ref().map(Permit::units), budget.used()), (Some(440_000), 440_000));
        assert!(matches!(take(200, &["leaf"]), Err(Error::OutOfBudget(_))));
        drop(held);
        assert!(take(200, &["leaf"]).is_ok());
        let refused = take(300, &["leaf", "shap"]).unwrap_err().to_string();
        assert!(
            refused.contains("'leaf' and 'shap' of 300 rows would take 1320000 bytes"),
            "{refused}"
        );
    }

    #[test]
    fn requests_that_want_other_ones_have_other_keys() {
        let key = |names: &[&str]| outputs().key(&work(1, names));
        assert_eq!((key(&["y"]), key(&["y", "leaf"]), key(&["leaf"])), (0, 1, 1));
        assert_eq!(key(&["shap", "leaf"]), 3);
    }
}
