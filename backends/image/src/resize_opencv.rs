//! OpenCV's bilinear resize of bytes: weights of 11 bits, and shifts that cut off what does not fit.

use crate::rgb::Rgb;

/// One, as a weight.
const ONE: f32 = 2048.0;

/// Two neighbours and their weights.
#[derive(Clone, Copy)]
struct Pair {
    first: usize,
    second: usize,
    weights: [i32; 2],
}

/// The image at another size. `width` and `height` are at least one.
pub fn resize_bilinear(image: &Rgb, width: u32, height: u32) -> Rgb {
    if (image.width, image.height) == (width, height) {
        return image.clone();
    }
    let columns: Vec<Pair> = (0..width).map(|it| column(it, image.width, width)).collect();
    let mut out = Rgb::new(width, height);
    let stride = out.stride();
    // The two rows that were made last, and which they are.
    let mut rows = [vec![0; stride], vec![0; stride]];
    let mut held = [usize::MAX; 2];
    for (y, row) in (0..height).zip(out.pixels.chunks_exact_mut(stride)) {
        let pair = row_of(y, image.height, height);
        if held[1] == pair.first {
            rows.swap(0, 1);
            held.swap(0, 1);
        }
        for (slot, wanted) in [pair.first, pair.second].into_iter().enumerate() {
            if held[slot] != wanted {
                across(image.row(wanted), &mut rows[slot], &columns);
                held[slot] = wanted;
            }
        }
        let [above, below] = &rows;
        for ((value, above), below) in row.iter_mut().zip(above).zip(below) {
            let sum =
                ((pair.weights[0] * (above >> 4)) >> 16) + ((pair.weights[1] * (below >> 4)) >> 16);
            *value = ((sum + 2) >> 2).clamp(0, 255) as u8;
        }
    }
    out
}

fn across(input: &[u8], out: &mut [i32], columns: &[Pair]) {
    for (out, pair) in out.chunks_exact_mut(3).zip(columns) {
        let (left, right) = (&input[pair.first * 3..][..3], &input[pair.second * 3..][..3]);
        for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
            *out = i32::from(*left) * pair.weights[0] + i32::from(*right) * pair.weights[1];
        }
    }
}

/// Where a pixel of the output lies in the input: the pixel before it, and how far behind that.
fn position(at: u32, from: u32, to: u32) -> (i64, f32) {
    let scale = 1.0 / (f64::from(to) / f64::from(from));
    let exact = ((f64::from(at) + 0.5) * scale - 0.5) as f32;
    let before = exact.floor();
    (before as i64, exact - before)
}

fn weights(share: f32) -> [i32; 2] {
    [1.0 - share, share].map(|it| (it * ONE).round_ties_even() as i32)
}

/// At the left and right edge the outermost pixel counts alone.
fn column(at: u32, from: u32, to: u32) -> Pair {
    let last = i64::from(from) - 1;
    let (before, share) = position(at, from, to);
    let share = if before < 0 || before >= last { 0.0 } else { share };
    let first = before.clamp(0, last);
    Pair { first: first as usize, second: (first + 1).min(last) as usize, weights: weights(share) }
}

/// At the upper and lower edge the outermost row counts twice.
fn row_of(at: u32, from: u32, to: u32) -> Pair {
    let last = i64::from(from) - 1;
    let (before, share) = position(at, from, to);
    Pair {
        first: before.clamp(0, last) as usize,
        second: (before + 1).clamp(0, last) as usize,
        weights: weights(share),
    }
}
