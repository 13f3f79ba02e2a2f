//! Memory that clients share with the server: settings.

use super::{Setting, value};

const SECTION: &str = "Shared memory";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "allow-client-shm", "false", "Let clients register shared memory objects of this machine, from which inputs are read and into which outputs are written. For clients that are trusted: any of them can name any object that the server may open"),
];
