//! How far a text can be taken as it is into, or out of, a string of JSON.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// Bytes before the first quote, backslash or control character.
pub(super) fn plain_length(text: &[u8]) -> usize {
    let (near, far) = text.split_at(text.len().min(32));
    let length = by_words(near);
    if length < near.len() || far.is_empty() {
        return length;
    }
    // Blocks without an early exit, which the compiler turns into vector instructions.
    let blocks = far.chunks_exact(32);
    let clear = blocks.take_while(|it| !it.iter().fold(false, |any, &byte| any | stops(byte)));
    let clear = clear.count() * 32;
    length + clear + by_words(far.get(clear..).unwrap_or_default())
}

fn stops(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// The same for a short text, eight bytes at a time.
fn by_words(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marked = marked(u64::from_le_bytes(*word));
        if marked != 0 {
            return index * 8 + (marked.trailing_zeros() / 8) as usize;
        }
    }
    words.len() * 8 + rest.iter().take_while(|&&byte| !stops(byte)).count()
}

/// The high bit of the first byte that stops, counted from the lowest one; above it bits may be set in vain.
fn marked(word: u64) -> u64 {
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | is(b'"') | is(b'\\')) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_stops_is_found_wherever_it_is() {
        for length in [0, 1, 7, 8, 9, 31, 32, 33, 40, 64, 65, 100] {
            for filler in [b'a', b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xdc, 0xff] {
                let mut text = vec![filler; length];
                assert_eq!(plain_length(&text), length);
                for at in 0..length {
                    for stop in [b'"', b'\\', 0, b'\n', 0x1f] {
                        text.fill(filler);
                        text[at] = stop;
                        if let Some(behind) = text.get_mut(at + 1) {
                            *behind = stop ^ 1;
                        }
                        assert_eq!(plain_length(&text), at, "{stop:#x} in {filler:#x}, {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_byte_stops_or_not_as_json_says() {
        for byte in 0..=255 {
            let expected = if stops(byte) { 3 } else { 12 };
            let mut text = [b'x'; 12];
            text[3] = byte;
            assert_eq!(plain_length(&text), expected, "{byte:#x}");
        }
    }
}
