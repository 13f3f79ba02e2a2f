//! The instruction `idiv` of x86-64, as its bytes say it (Intel's manual, volume 2, `IDIV`). Pure.

/// General registers.
pub(super) const GENERAL: usize = 16;

/// Those that hold the dividend: its low half, where the quotient goes, and its high half, where the rest goes.
pub(super) const RAX: usize = 0;
pub(super) const RDX: usize = 2;

/// Numbers of registers that stand for something else in an address.
const RSP: usize = 4;
const RBP: usize = 5;

/// A division of signed integers of 32 or 64 bits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Bytes of the instruction.
    pub(super) length: u64,
    /// Are the numbers 64 bits wide, and not 32?
    pub(super) is_wide: bool,
    /// The register that holds the divisor, or the address where it lies.
    pub(super) divisor: Result<usize, u64>,
}

impl Division {
    /// The instruction that begins at that address, with these values in the registers. `code` gives its bytes by their
    /// place, and is asked for none behind its end. `None` where it is another one, or of a form that compilers do not
    /// make.
    pub(super) fn read(
        begin: u64,
        registers: &[u64; GENERAL],
        code: impl Fn(u64) -> u8,
    ) -> Option<Division> {
        let mut at = 0;
        let mut next = || {
            at += 1;
            code(at - 1)
        };
        let mut byte = next();
        let mut rex = 0;
        if byte & 0xF0 == 0x40 {
            (rex, byte) = (byte, next());
        }
        // Bits of the prefix: numbers of 64 bits, and a fourth bit for the index and for the register.
        let (is_wide, index_high, base_high) = (rex & 8 != 0, (rex & 2) << 2, (rex & 1) << 3);
        if byte != 0xF7 {
            return None;
        }
        let form = next();
        let (mode, operation, place) = (form >> 6, form >> 3 & 7, usize::from(form & 7));
        if operation != 7 {
            return None;
        }
        if mode == 3 {
            return Some(Division {
                length: at,
                is_wide,
                divisor: Ok(place | usize::from(base_high)),
            });
        }
        let mut address = 0u64;
        let mut is_relative = false;
        let mut displacement = [0, 1, 4][usize::from(mode)];
        let mut base = Some(place | usize::from(base_high));
        if place == RSP {
            let byte = next();
            let index = usize::from(byte >> 3 & 7 | index_high);
            if index != RSP {
                address = registers[index] << (byte >> 6);
            }
            base = Some(usize::from(byte & 7 | base_high));
            if mode == 0 && byte & 7 == 5 {
                (base, displacement) = (None, 4);
            }
        } else if mode == 0 && place == RBP {
            (base, displacement, is_relative) = (None, 4, true);
        }
        let bytes = match displacement {
            0 => [0; 4],
            1 => {
                let byte = next();
                let sign = if byte & 0x80 == 0 { 0 } else { 0xFF };
                [byte, sign, sign, sign]
            }
            _ => [next(), next(), next(), next()],
        };
        let displacement = i64::from(i32::from_le_bytes(bytes)) as u64;
        address = address.wrapping_add(displacement);
        address = address.wrapping_add(base.map_or(0, |it| registers[it]));
        if is_relative {
            address = address.wrapping_add(begin).wrapping_add(at);
        }
        Some(Division { length: at, is_wide, divisor: Err(address) })
    }

    /// Is the dividend the least number, and the divisor minus one?
    pub(super) fn overflows(&self, low: u64, high: u64, divisor: u64) -> bool {
        match self.is_wide {
            true => low == 1 << 63 && high == u64::MAX && divisor == u64::MAX,
            false => low as u32 == 1 << 31 && high as u32 == u32::MAX && divisor as u32 == u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 0x4000;

    /// Each register holds 0x100 times its number.
    fn read(code: &[u8]) -> Option<(u64, bool, Result<usize, u64>)> {
        let registers = std::array::from_fn(|it| 0x100 * it as u64);
        let division = Division::read(BEGIN, &registers, |at| code[at as usize]);
        division.map(|it| (it.length, it.is_wide, it.divisor))
    }

    #[test]
    fn divisors_are_found_where_an_assembler_says_that_they_are() {
        // What GNU's assembler makes of the text beside it.
        for (code, expected) in [
            (&[0xF7, 0xF9][..], (2, false, Ok(1))),             // idiv ecx
            (&[0x48, 0xF7, 0xFE], (3, true, Ok(6))),            // idiv rsi
            (&[0x49, 0xF7, 0xF9], (3, true, Ok(9))),            // idiv r9
            (&[0x41, 0xF7, 0xFF], (3, false, Ok(15))),          // idiv r15d
            (&[0x48, 0xF7, 0x3E], (3, true, Err(0x600))),       // idiv qword [rsi]
            (&[0x48, 0xF7, 0x7D, 0xF8], (4, true, Err(0x4F8))), // idiv qword [rbp-8]
            (&[0x48, 0xF7, 0x3C, 0xCE], (4, true, Err(0xE00))), // idiv qword [rsi+rcx*8]
            (&[0x4B, 0xF7, 0x3C, 0xC8], (4, true, Err(0x5000))), // idiv qword [r8+r9*8]
            (&[0xF7, 0x7C, 0x24, 0x10], (4, false, Err(0x410))), // idiv dword [rsp+16]
            (&[0x41, 0xF7, 0x7D, 0x00], (4, false, Err(0xD00))), // idiv dword [r13]
            (&[0xF7, 0xBE, 0, 1, 0, 0], (6, false, Err(0x700))), // idiv dword [rsi+256]
            (&[0xF7, 0x3D, 0x10, 0, 0, 0], (6, false, Err(0x4016))), // idiv dword [rip+16]
            (&[0xF7, 0x3C, 0x8D, 0, 2, 0, 0], (7, false, Err(0x600))), // idiv dword [rcx*4+512]
        ] {
            assert_eq!(read(code), Some(expected), "{code:x?}");
        }
    }

    #[test]
    fn other_instructions_are_none() {
        // div ecx; neg ecx; idiv cl; add; a prefix of another width
        for code in [[0xF7, 0xF1], [0xF7, 0xD9], [0xF6, 0xF9], [0x01, 0xC8], [0x66, 0xF7]] {
            assert_eq!(read(&code), None, "{code:x?}");
        }
    }

    #[test]
    fn only_the_least_number_by_minus_one_overflows() {
        let of = |is_wide| Division { length: 2, is_wide, divisor: Ok(1) };
        assert!(of(true).overflows(1 << 63, u64::MAX, u64::MAX));
        assert!(!of(true).overflows(1 << 63, u64::MAX, 0) && !of(true).overflows(1, 0, u64::MAX));
        assert!(!of(true).overflows(1 << 63, 0, u64::MAX), "a dividend of more than 64 bits");
        // The high halves of registers say nothing of numbers of 32 bits.
        assert!(of(false).overflows(7 << 32 | 1 << 31, 0xFFFF_FFFF, 0xFFFF_FFFF));
        assert!(!of(false).overflows(1 << 31, 0xFFFF_FFFF, 0));
    }
}
