//! FP32 and FP64 as text: a product of doubles where that is sure to round to the nearest value, else the standard
//! library; out by [`super::shortest`], else by zmij.

use super::{
    Fault, Number, Room,
    digits::TENS,
    scan::{Decimal, scan, text_of},
    shortest, window, word,
};

/// Powers of ten as doubles, from [`LEAST_POWER`] to 38. Up to 10^22 they are exact, further out three units in
/// the last place away at most: each is made of at most two roundings and, below one, a third.
const POWERS: &[f64; 95] = &{
    let mut powers = [0.0; 95];
    let mut index = 0;
    while index < 95 {
        let exponent = index as i32 + LEAST_POWER;
        let (mut power, mut left) = (1.0, exponent.unsigned_abs());
        while left > 0 {
            let step = if left < 22 { left } else { 22 };
            power *= TENS[step as usize / 2] as f64 * TENS[(step - step / 2) as usize] as f64;
            left -= step;
        }
        powers[index] = if exponent < 0 { 1.0 / power } else { power };
        index += 1;
    }
    powers
};

/// The mantissa has at most 19 digits: with a lower power of ten the number is below the least normal float.
const LEAST_POWER: i32 = -56;

/// The nearest float, where no further look at the text is needed to find it.
#[inline(always)]
fn float(decimal: &Decimal) -> Option<f32> {
    // Bits of the least normal float as a double, and of the greatest.
    const LEAST: u64 = (f32::MIN_POSITIVE as f64).to_bits();
    const MOST: u64 = (f32::MAX as f64).to_bits();
    let power = POWERS.get(usize::try_from(decimal.exponent.wrapping_sub(LEAST_POWER)).ok()?)?;
    let bits = (decimal.mantissa as i64 as f64 * power).to_bits();
    // The product is at most five units away from the decimal, and rounds to the same float unless the middle
    // between two floats is as near. Subnormal floats have their middles elsewhere.
    let sure = (bits & 0x1fff_ffff).wrapping_sub(0x1000_0000 - 8) > 16;
    let normal = (LEAST + 8..MOST).contains(&bits) | (decimal.mantissa == 0);
    let sign = u32::from(decimal.negative) << 31;
    (sure & normal).then(|| f32::from_bits((f64::from_bits(bits) as f32).to_bits() | sign))
}

/// The nearest double, where one rounding gives it.
#[inline(always)]
fn double(decimal: &Decimal) -> Option<f64> {
    let power = usize::try_from(decimal.exponent.unsigned_abs()).ok().filter(|&it| it <= 22)?;
    let power = *POWERS.get(power.wrapping_add_signed(-LEAST_POWER as isize))?;
    let mantissa = decimal.mantissa as i64 as f64;
    let value = if decimal.exponent < 0 { mantissa / power } else { mantissa * power };
    (decimal.mantissa <= 1 << 53).then_some(if decimal.negative { -value } else { value })
}

impl Number for f32 {
    const MISSING: Option<f32> = Some(f32::NAN);

    #[inline(always)]
    fn read(text: &[u8]) -> Result<(f32, usize), Fault> {
        match window::at(text, window::decimal) {
            Some(decimal) => match float(&decimal) {
                Some(value) => Ok((value, decimal.length)),
                None => parse(text, decimal.length),
            },
            None => read_carefully(text, float, |it| it as f32),
        }
    }

    #[inline(always)]
    fn put(self, room: &mut Room) -> usize {
        shortest::put(self, room).unwrap_or_else(|| put_in_doubt(self, room))
    }
}

impl Number for f64 {
    const MISSING: Option<f64> = Some(f64::NAN);

    #[inline(always)]
    fn read(text: &[u8]) -> Result<(f64, usize), Fault> {
        match window::at(text, window::decimal) {
            Some(decimal) => match double(&decimal) {
                Some(value) => Ok((value, decimal.length)),
                None => parse(text, decimal.length),
            },
            None => read_carefully(text, double, |it| it),
        }
    }

    #[inline]
    fn put(self, room: &mut Room) -> usize {
        put_by_zmij(self, room)
    }

    /// Straight from zmij's own buffer: one copy is enough.
    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        match self.is_finite() {
            true => out.extend_from_slice(zmij::Buffer::new().format_finite(self).as_bytes()),
            false => out.extend_from_slice(word_of(self)),
        }
    }
}

/// Any float, the bare words included. `quickly` may find it from its decimal, the standard library will.
#[inline(never)]
fn read_carefully<T: Into<f64> + Copy + std::str::FromStr>(
    text: &[u8],
    quickly: fn(&Decimal) -> Option<T>,
    of_word: fn(f64) -> T,
) -> Result<(T, usize), Fault> {
    let Some(decimal) = scan(text) else {
        return word(text).map(|(value, length)| (of_word(value), length)).ok_or(Fault::Syntax);
    };
    // The quick ways read the mantissa as a signed number.
    let fits = decimal.exact && i64::try_from(decimal.mantissa).is_ok();
    match Some(&decimal).filter(|_| fits).and_then(quickly) {
        Some(value) => Ok((value, decimal.length)),
        None => parse(text, decimal.length),
    }
}

/// The number of `length` bytes, by the standard library.
#[inline(never)]
fn parse<T: Into<f64> + Copy + std::str::FromStr>(
    text: &[u8],
    length: usize,
) -> Result<(T, usize), Fault> {
    let value: T = text_of(text, length)?.parse().map_err(|_| Fault::Syntax)?;
    if value.into().is_finite() { Ok((value, length)) } else { Err(Fault::Range) }
}

/// A float whose shortest text was in doubt, or that is not finite.
#[cold]
#[inline(never)]
fn put_in_doubt(value: f32, room: &mut Room) -> usize {
    put_by_zmij(value, room)
}

/// Any float, the bare words included.
#[inline]
fn put_by_zmij<T: zmij::Float + Into<f64> + Copy>(value: T, room: &mut Room) -> usize {
    match value.into().is_finite() {
        true => put_text(zmij::Buffer::new().format_finite(value).as_bytes(), room),
        false => put_text(word_of(value.into()), room),
    }
}

/// A text of at most 24 bytes.
#[inline]
fn put_text(text: &[u8], room: &mut Room) -> usize {
    room.get_mut(..text.len()).unwrap_or_default().copy_from_slice(text);
    text.len()
}

/// The bare word for a value that is not finite.
fn word_of(value: f64) -> &'static [u8] {
    match value {
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => b"NaN",
    }
}
