//! The weights of a filter as integers of 22 bits, as Pillow rounds them.

use std::ops::Range;

use crate::filter::Filter;

/// Bits behind the point of a weight.
pub(crate) const BITS: u32 = 22;
/// One half, which is added before the bits behind the point are cut off.
pub(crate) const HALF: i32 = 1 << (BITS - 1);

/// For each pixel of the output, which pixels of the input it is made of.
pub(crate) struct Weights {
    /// The first pixel, and where its weights begin and end in `all`.
    pub(crate) spans: Vec<(usize, usize, usize)>,
    pub(crate) all: Vec<i32>,
}

impl Weights {
    /// Of the pixels `part` of an output of `to` pixels, made from `from` pixels.
    pub(crate) fn new(from: u32, to: u32, filter: Filter, part: Range<u32>) -> Weights {
        let scale = f64::from(from) / f64::from(to);
        let filter_scale = scale.max(1.0);
        let support = filter.support() * filter_scale;
        let step = 1.0 / filter_scale;
        let mut spans = Vec::with_capacity(part.len());
        let mut all = Vec::new();
        let mut exact = Vec::new();
        for at in part {
            let centre = (f64::from(at) + 0.5) * scale;
            // `as` cuts off towards zero and keeps to the range, as the reference does by hand.
            let first = (centre - support + 0.5) as u32;
            let last = ((centre + support + 0.5) as u32).min(from);
            exact.clear();
            exact
                .extend((first..last).map(|x| filter.weight((f64::from(x) - centre + 0.5) * step)));
            let sum: f64 = exact.iter().sum();
            let begin = all.len();
            all.extend(exact.iter().map(|it| {
                let share = if sum == 0.0 { *it } else { it / sum };
                let scaled = share * f64::from(1 << BITS);
                (if share < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
            }));
            spans.push((first as usize, begin, all.len()));
        }
        Weights { spans, all }
    }
    /// Pixels of the output.
    pub(crate) fn length(&self) -> u32 {
        self.spans.len() as u32
    }

    /// The pixels of the input that have weights, as one range.
    pub(crate) fn covered(&self) -> Range<u32> {
        let first = self.spans.iter().map(|it| it.0).min().unwrap_or(0);
        let end = self.spans.iter().map(|&(first, begin, end)| first + (end - begin)).max();
        first as u32..end.unwrap_or(first) as u32
    }

    /// The same for an input that lacks the first `count` pixels, which have no weights.
    pub(crate) fn without_first(mut self, count: u32) -> Weights {
        self.spans.iter_mut().for_each(|it| it.0 -= count as usize);
        self
    }
}
