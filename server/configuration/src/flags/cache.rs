//! The response cache: settings.

use super::{Setting, many, value};

const SECTION: &str = "Response cache";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    many(SECTION, "cache-config", "<cache>,<key>=<value>, as local,size=64MiB, or redis,host=<host> with further keys each in a flag of its own: port, user, password, db, connect_timeout, socket_timeout, pool_size, wait_timeout"),
    value(SECTION, "response-cache-byte-size", "", "Older form of --cache-config local,size=<bytes>"),
];
