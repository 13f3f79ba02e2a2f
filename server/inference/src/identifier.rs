//! Names that nobody else has given.

use ring::rand::{SecureRandom, SystemRandom};

/// A new identifier of version 4, as RFC 9562 has it.
pub fn new_uuid() -> String {
    let mut bytes = [0; 16];
    // Where the system has no randomness there are other worries; the id stays what it is.
    let _ = SystemRandom::new().fill(&mut bytes);
    let [.., six, _, eight, _, _, _, _, _, _, _] = &mut bytes;
    (*six, *eight) = (*six & 0x0f | 0x40, *eight & 0x3f | 0x80);
    let digits: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    let ends = [0, 8, 12, 16, 20, 32];
    let groups =
        ends.iter().zip(ends.iter().skip(1)).filter_map(|(from, to)| digits.get(*from..*to));
    groups.collect::<Vec<_>>().join("-")
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
