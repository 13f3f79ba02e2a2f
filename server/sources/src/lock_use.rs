//! What a fetch has to do with the lock file.

/// What a fetch has to do with the lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockUse {
    /// The model must be in it: `muster serve`.
    Obey,
    /// A model that is not in it comes into it: `muster pull`.
    Extend,
    /// The model comes into it as it is now: `muster pull --update`.
    Renew,
}
