//! In the place of `browser`, where it was left out of the build: its addresses are nobody's.

/// No address.
pub type Pages = ();

/// No address.
pub const PAGES: Pages = ();
