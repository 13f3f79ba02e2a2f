//! Eight decimal digits as the bytes of one word, the first digit in the lowest byte: from text to a value and
//! back, without a branch on the digits.

/// `'0'` eight times.
pub(super) const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Powers of ten that fit a word.
pub(super) const TENS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut power = 1;
    while power < 20 {
        powers[power] = powers[power - 1] * 10;
        power += 1;
    }
    powers
};

/// In `values`, digits as 0 to 9 and anything else as 10 or more, the top bit of each byte that is no digit.
#[inline(always)]
pub(super) fn others(values: u64) -> u64 {
    let above_nine = (values & 0x7f7f_7f7f_7f7f_7f7f) + 0x7676_7676_7676_7676;
    (above_nine | values) & 0x8080_8080_8080_8080
}

/// The number whose eight digits are the bytes of `values`.
#[inline(always)]
pub(super) fn join(values: u64) -> u64 {
    // Pairs, then fours, then all eight: each step adds neighbours after multiplying the left one.
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    low.wrapping_add(high) >> 32
}

/// The number whose digits are the first `count` bytes of `values`, at most eight.
#[inline(always)]
pub(super) fn join_first(values: u64, count: u32) -> u64 {
    // Zeros move in from the front, in two steps because a shift by 64 is none.
    let moved = (values << 8) << (56_u32.wrapping_sub(8 * count) & 63);
    join(if count >= 8 { values } else { moved })
}

/// The nine digits of a number below 10^9: the first, and the others as bytes.
#[inline(always)]
pub(super) fn split_nine(number: u32) -> (u64, u64) {
    let number = u64::from(number);
    // Divisions by 10^8 and 10^4, as multiplications that are exact for 32 bits.
    let first = (number * 1_441_151_881) >> 57;
    let upper = (number * 3_518_437_209) >> 45;
    // `upper % 10^4` in the lower half, `number % 10^4` in the upper one.
    let below = upper.wrapping_mul((10_000 << 32) - 1).wrapping_add(first * 10_000);
    (first, split_fours((number << 32).wrapping_sub(below)))
}

/// The digits of a number below 10^8 as bytes.
#[inline(always)]
pub(super) fn split(number: u64) -> u64 {
    let upper = (number * 3_518_437_209) >> 45;
    split_fours((number << 32).wrapping_sub(upper.wrapping_mul((10_000 << 32) - 1)))
}

/// The digits of two numbers below 10^4, the first in the lower half.
#[inline(always)]
fn split_fours(fours: u64) -> u64 {
    // In each half n becomes n / 100 and n % 100, then each pair its two digits. A quotient q stands where
    // `n - 100 * q`, one place further up, is to be added: one multiplication does both.
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = (fours << 16).wrapping_sub(hundreds.wrapping_mul((100 << 16) - 1));
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    (pairs << 8).wrapping_sub(tens.wrapping_mul((10 << 8) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_apart_and_together_again() {
        let dense = (0..100_000_000u32).step_by(977);
        for number in dense.chain([9, 99, 9_999, 10_000, 99_990_000, 99_999_999]) {
            let digits = split(u64::from(number));
            assert_eq!(
                (digits | ZEROS).to_le_bytes().as_slice(),
                format!("{number:08}").as_bytes()
            );
            assert_eq!(join(digits), u64::from(number));
            for first in 0..=9 {
                let nine = first * 100_000_000 + number;
                assert_eq!(split_nine(nine), (u64::from(first), digits), "{nine}");
            }
        }
    }

    #[test]
    fn the_first_digits_are_a_number_of_their_own() {
        let values = u64::from_le_bytes(*b"12345678") ^ ZEROS;
        let numbers = [0, 1, 12, 123, 1_234, 12_345, 123_456, 1_234_567, 12_345_678];
        for (count, number) in (0..).zip(numbers) {
            assert_eq!(join_first(values, count), number);
        }
    }

    #[test]
    fn only_the_ten_digits_are_digits() {
        for byte in 0..=u8::MAX {
            let found = others(
                u64::from_le_bytes([b'0', byte, b'9', b'5', b'1', byte, b'0', b'7']) ^ ZEROS,
            );
            let expected = if byte.is_ascii_digit() { 0 } else { 0x0000_8000_0000_8000 };
            assert_eq!(found, expected, "{byte}");
        }
    }
}
