//! What the variables of one family of containers mean.

use super::mapping::Means;

/// The variables of one family of containers.
pub(super) struct Family {
    /// For one setting the first row that says something counts.
    pub(super) means: &'static [(&'static str, Means)],
    /// Known, and they do nothing; set, they get one line together.
    pub(super) without_effect: &'static [&'static str],
}
