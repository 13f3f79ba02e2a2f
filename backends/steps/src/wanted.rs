//! Whether an input is still wanted while something is made of it.

/// Is the input still wanted? Asked again and again while its file is decoded, and between texts.
pub type StillWanted<'a> = &'a (dyn Fn() -> bool + Sync);
