//! Filters that sum up the tones of a spectrum as ears do: on the scales of Slaney and of Kaldi.

/// How tones become heights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// In equal steps up to 1,000 Hz, then by factors. Each filter has an area of one.
    Slaney,
    /// The logarithm throughout, of which the triangles are, too.
    Kaldi,
}

/// What the filters are for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    /// Tones of a spectrum: from zero to half the rate, both included.
    pub(crate) tones: usize,
    pub(crate) rate: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

/// Filters over the tones of a spectrum.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filters {
    /// The first tone of each, and its weights from there on.
    filters: Vec<(usize, Vec<f64>)>,
}

const LINEAR: f64 = 200.0 / 3.0;
const FIRST_BY_FACTORS: f64 = 1_000.0;
const STEPS_BY_FACTORS: f64 = 27.0;
const FACTOR: f64 = 6.4;

impl Scale {
    fn height(self, hertz: f64) -> f64 {
        match self {
            Scale::Slaney if hertz < FIRST_BY_FACTORS => hertz / LINEAR,
            Scale::Slaney => {
                let above = (hertz / FIRST_BY_FACTORS).ln() * STEPS_BY_FACTORS / FACTOR.ln();
                FIRST_BY_FACTORS / LINEAR + above
            }
            Scale::Kaldi => 1127.0 * (1.0 + hertz / 700.0).ln(),
        }
    }

    fn hertz(self, height: f64) -> f64 {
        let first = FIRST_BY_FACTORS / LINEAR;
        match self {
            Scale::Slaney if height < first => height * LINEAR,
            Scale::Slaney => {
                FIRST_BY_FACTORS * (FACTOR.ln() / STEPS_BY_FACTORS * (height - first)).exp()
            }
            Scale::Kaldi => 700.0 * ((height / 1127.0).exp() - 1.0),
        }
    }
}

impl Filters {
    /// So many triangles, each from the middle of the one before to that of the next.
    pub(crate) fn new(scale: Scale, range: Range, count: usize) -> Filters {
        let (low, high) = (scale.height(range.lowest), scale.height(range.highest));
        let step = (high - low) / (count + 1) as f64;
        let corner = |at: usize| match scale {
            Scale::Slaney => scale.hertz(low + step * at as f64),
            Scale::Kaldi => low + step * at as f64,
        };
        let place = |tone: usize| {
            let hertz = range.rate / 2.0 * tone as f64 / (range.tones - 1) as f64;
            if scale == Scale::Kaldi { scale.height(hertz) } else { hertz }
        };
        let filter = |at: usize| {
            let (left, middle, right) = (corner(at), corner(at + 1), corner(at + 2));
            let area = if scale == Scale::Slaney { 2.0 / (right - left) } else { 1.0 };
            let weight = |tone: usize| {
                let (up, down) = (
                    (place(tone) - left) / (middle - left),
                    (right - place(tone)) / (right - middle),
                );
                up.min(down).max(0.0) * area
            };
            let weights: Vec<f64> = (0..range.tones).map(weight).collect();
            let first = weights.iter().position(|it| 0.0 < *it).unwrap_or(0);
            let end = weights.iter().rposition(|it| 0.0 < *it).map_or(first, |it| it + 1);
            (first, weights[first..end].to_vec())
        };
        Filters { filters: (0..count).map(filter).collect() }
    }

    /// What each filter lets through.
    pub(crate) fn sums<'a>(&'a self, power: &'a [f64]) -> impl Iterator<Item = f64> {
        self.filters.iter().map(|(first, weights)| {
            weights.iter().zip(&power[*first..]).map(|(weight, power)| weight * power).sum()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_those_of_tones_and_back() {
        for scale in [Scale::Slaney, Scale::Kaldi] {
            for hertz in [0.0, 440.0, 999.0, 1_000.0, 7_999.0] {
                assert!(
                    (scale.hertz(scale.height(hertz)) - hertz).abs() < 1e-9,
                    "{scale:?} {hertz}"
                );
            }
        }
        assert!((Scale::Slaney.height(1_000.0) - 15.0).abs() < 1e-9);
    }

    #[test]
    fn neighbours_share_the_tones_between_their_middles() {
        let range = Range { tones: 257, rate: 16_000.0, lowest: 20.0, highest: 8_000.0 };
        let filters = Filters::new(Scale::Kaldi, range, 10);
        let mut power = vec![0.0; 257];
        power[100] = 2.0;
        let sums: Vec<f64> = filters.sums(&power).filter(|it| 0.0 < *it).collect();
        assert_eq!(sums.len(), 2);
        assert!((sums[0] + sums[1] - 2.0).abs() < 1e-9, "{sums:?}");
    }
}
