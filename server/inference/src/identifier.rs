//! Names that are unique without an authority that gives them out.

use ring::rand::{SecureRandom, SystemRandom};

/// A new identifier of version 4, as RFC 9562 has it. By hand: six lines, where a crate would bring a second source of
/// random numbers.
pub fn new_uuid() -> String {
    let mut bytes = [0; 16];
    // Where the system has no randomness there are other worries; the id stays what it is.
    let _ = SystemRandom::new().fill(&mut bytes);
    let random = u128::from_be_bytes(bytes);
    // The version, and the variant.
    let id = random & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let part = |shift: u32, digits: u32| (id >> shift) & ((1 << (4 * digits)) - 1);
    let [a, b, c, d, e] = [part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12)];
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_is_another() {
        let id = new_uuid();
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
        assert_ne!(id, new_uuid());
    }
}
