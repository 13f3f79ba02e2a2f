//! The two neighbours that OpenCV's bilinear resize makes a pixel of, and their weights of 11 bits.

/// One, as a weight.
const ONE: f32 = 2048.0;

/// Two neighbours and their weights, which are at least zero and together at most 2049.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) first: usize,
    /// Behind `first`, or `first` again.
    pub(crate) second: usize,
    pub(crate) weights: [i16; 2],
}

/// Of column `at`, where `from` columns become `to`. At both edges the outermost pixel counts alone.
pub(crate) fn of_column(at: u32, from: u32, to: u32) -> Pair {
    let last = i64::from(from) - 1;
    let (before, share) = position(at, from, to);
    let share = if before < 0 || before >= last { 0.0 } else { share };
    let first = before.clamp(0, last);
    Pair { first: first as usize, second: (first + 1).min(last) as usize, weights: weights(share) }
}

/// Of row `at`, where `from` rows become `to`. At both edges the outermost row counts twice.
pub(crate) fn of_row(at: u32, from: u32, to: u32) -> Pair {
    let last = i64::from(from) - 1;
    let (before, share) = position(at, from, to);
    Pair {
        first: before.clamp(0, last) as usize,
        second: (before + 1).clamp(0, last) as usize,
        weights: weights(share),
    }
}

/// Where a pixel of the output lies in the input: the pixel before it, and how far behind that.
fn position(at: u32, from: u32, to: u32) -> (i64, f32) {
    let scale = 1.0 / (f64::from(to) / f64::from(from));
    let exact = ((f64::from(at) + 0.5) * scale - 0.5) as f32;
    let before = exact.floor();
    (before as i64, exact - before)
}

fn weights(share: f32) -> [i16; 2] {
    [1.0 - share, share].map(|it| (it * ONE).round_ties_even() as i16)
}
