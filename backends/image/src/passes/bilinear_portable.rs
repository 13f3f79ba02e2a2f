//! Weighted sums of two neighbours, with the instructions of any processor.

use super::two_rows::TwoRows;
use crate::{neighbours::Pair, part::View, rgb::Rgb};

pub(super) fn bilinear(image: &View<'_>, columns: &[Pair], rows: &[Pair]) -> Rgb {
    let mut out = Rgb::new(columns.len() as u32, rows.len() as u32);
    let stride = out.stride();
    let mut held = TwoRows::new(stride);
    for (line, pair) in out.pixels.chunks_exact_mut(stride.max(1)).zip(rows) {
        let [above, below] = held.get(pair, |y, out| across(image.row(y), out, columns));
        let share = |value: i16, weight: i16| (i32::from(value) * i32::from(weight)) >> 16;
        for ((value, above), below) in line.iter_mut().zip(above).zip(below) {
            let sum = share(*above, pair.weights[0]) + share(*below, pair.weights[1]);
            *value = ((sum + 2) >> 2).clamp(0, 255) as u8;
        }
    }
    out
}

/// A row of sums without their last four bits.
pub(super) fn across(input: &[u8], out: &mut [i16], columns: &[Pair]) {
    for (out, pair) in out.as_chunks_mut::<3>().0.iter_mut().zip(columns) {
        *out = sums(input, pair);
    }
}

/// The sums of one pixel without their last four bits.
pub(super) fn sums(input: &[u8], pair: &Pair) -> [i16; 3] {
    let pixel = |at: usize| [input[at * 3], input[at * 3 + 1], input[at * 3 + 2]].map(i32::from);
    let (first, second) = (pixel(pair.first), pixel(pair.second));
    let [left, right] = pair.weights.map(i32::from);
    // At most 255 * 2049, so that 16 bits hold what is left.
    std::array::from_fn(|it| ((first[it] * left + second[it] * right) >> 4) as i16)
}
