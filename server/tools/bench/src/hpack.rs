//! As much of the compression of headers (RFC 7541) as a generator of gRPC calls needs: writing a head without
//! compressing it, and finding the status in a block that was made without a dynamic table. Pure.

/// `grpc-status` in Huffman's code.
const STATUS_CODED: &[u8] = b"\x9a\xca\xc8\xb2\x12\x34\xda\x8f";
const STATUS: &[u8] = b"grpc-status";

/// Huffman's codes of the ten digits: the bits, and how many they are.
const DIGITS: [(u16, u32); 10] = [
    (0b00000, 5),
    (0b00001, 5),
    (0b00010, 5),
    (0b011001, 6),
    (0b011010, 6),
    (0b011011, 6),
    (0b011100, 6),
    (0b011101, 6),
    (0b011110, 6),
    (0b011111, 6),
];

/// Adds a header to a block, in plain letters and not to be remembered.
pub(crate) fn push(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        length(block, text.len());
        block.extend_from_slice(text.as_bytes());
    }
}

/// A number of which seven bits fit into the first byte.
fn length(block: &mut Vec<u8>, mut value: usize) {
    if value < 127 {
        return block.push(value as u8);
    }
    block.push(127);
    value -= 127;
    while value >= 128 {
        block.push((value % 128) as u8 | 128);
        value /= 128;
    }
    block.push(value as u8);
}

/// The value of `grpc-status` in a block of headers; `None` where it is not there or no number.
pub(crate) fn grpc_status(mut block: &[u8]) -> Option<u32> {
    while let Some(&first) = block.first() {
        // The kinds of entries, by their first bits, and the bits that are left for a number.
        let bits = match first {
            0x80.. => 7,
            0x40.. => 6,
            0x20.. => 5,
            _ => 4,
        };
        let index = number(&mut block, bits)?;
        if bits == 7 || bits == 5 {
            continue;
        }
        let name = if index == 0 { Some(text(&mut block)?) } else { None };
        let value = text(&mut block)?;
        if name.is_some_and(|(coded, it)| it == if coded { STATUS_CODED } else { STATUS }) {
            return digits(value);
        }
    }
    None
}

/// A number that begins in the lowest `bits` of the first byte.
fn number(block: &mut &[u8], bits: u32) -> Option<usize> {
    let most = (1usize << bits) - 1;
    let mut value = usize::from(*block.split_off_first()?) & most;
    if value < most {
        return Some(value);
    }
    for shift in (0..28).step_by(7) {
        let byte = usize::from(*block.split_off_first()?);
        value += (byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

/// A text, and whether it is in Huffman's code.
fn text<'a>(block: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    let coded = block.first()? & 128 != 0;
    let length = number(block, 7)?;
    Some((coded, block.split_off(..length)?))
}

/// A number in decimal digits.
fn digits((coded, text): (bool, &[u8])) -> Option<u32> {
    if !coded {
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    let all = text.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    let mut left = u32::try_from(text.len()).ok().filter(|it| *it <= 8)? * 8;
    let mut value = 0;
    // What is left in the end are less than eight ones.
    while left >= 5 {
        let next = |length: u32| {
            left.checked_sub(length).map(|it| (all >> it) as u16 & ((1 << length) - 1))
        };
        let digit = DIGITS.iter().position(|&(code, length)| next(length) == Some(code));
        let Some(digit) = digit else { break };
        value = value * 10 + digit as u32;
        left -= DIGITS.get(digit)?.1;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found() {
        let mut block = Vec::new();
        push(&mut block, "content-type", "application/grpc");
        push(&mut block, "x", &"y".repeat(300));
        push(&mut block, "grpc-status", "14");
        assert_eq!(grpc_status(&block), Some(14));
    }

    #[test]
    fn the_status_is_found_in_its_short_form_behind_others() {
        // :status 200 by its index, the size of the table, and the status: 0, 5 and 14.
        for (value, status) in [(&b"\x81\x07"[..], 0), (b"\x81\x6f", 5), (b"\x82\x0b\x5f", 14)] {
            let block = [b"\x88\x20\x40\x88", STATUS_CODED, value].concat();
            assert_eq!(grpc_status(&block), Some(status));
        }
        assert_eq!(grpc_status(b"\x88"), None);
        assert_eq!(grpc_status(b"\x40\x88\x9a"), None);
    }
}
