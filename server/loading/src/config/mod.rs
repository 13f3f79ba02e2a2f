//! What a model's configuration says: read, completed from the model, checked, in the terms of the server.

pub(crate) mod check;
pub(crate) mod choose;
pub(crate) mod complete;
pub(crate) mod complete_ensemble;
pub(crate) mod elsewhere;
pub(crate) mod engines;
pub(crate) mod fit;
pub(crate) mod give_way;
pub(crate) mod hints;
pub(crate) mod misspelt;
pub(crate) mod open_ranks;
pub(crate) mod pbtxt;
pub(crate) mod planned_group;
pub(crate) mod reach;
pub(crate) mod run_limit;
pub(crate) mod unapplied;
pub(crate) mod unbatch;
mod zero_sizes;

#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod validate_tests;
