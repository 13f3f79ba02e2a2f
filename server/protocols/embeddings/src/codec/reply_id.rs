//! Names of replies, for clients that want one: random, in the form of a UUID.

use std::hash::{BuildHasher, RandomState};

/// A name that no other reply has.
pub(crate) fn new() -> String {
    // Each is seeded from the system's random numbers, and differs from the one before.
    let number = || RandomState::new().hash_one(0u8);
    let bits = (u128::from(number()) << 64) | u128::from(number());
    // Version 4, variant 1.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_uuids_and_differ() {
        let (one, other) = (new(), new());
        assert_ne!(one, other);
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[19]), "{one}");
    }
}
