//! Lengths of texts, the same in every run.

/// What clients send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// Short ones.
    Queries,
    /// Long ones.
    Passages,
    /// Half of each.
    Mixed,
}

/// Median length in tokens, and the deviation of its logarithm.
const QUERY: (f64, f64) = (9.0, 0.5);
const PASSAGE: (f64, f64) = (80.0, 0.6);

/// No text is shorter or longer, with its special tokens.
const RANGE: (f64, f64) = (3.0, 512.0);

impl Texts {
    pub fn name(self) -> &'static str {
        match self {
            Texts::Queries => "queries",
            Texts::Passages => "passages",
            Texts::Mixed => "mixed",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Texts::Queries => "lengths log-normal around 9 tokens",
            Texts::Passages => "lengths log-normal around 80 tokens",
            Texts::Mixed => "half queries, half passages",
        }
    }
}

/// An endless list of lengths.
pub struct Lengths {
    texts: Texts,
    state: u64,
}

impl Lengths {
    pub fn new(texts: Texts) -> Lengths {
        Lengths { texts, state: 42 }
    }

    /// The next one.
    pub fn next(&mut self) -> usize {
        let is_query = match self.texts {
            Texts::Queries => true,
            Texts::Passages => false,
            Texts::Mixed => self.uniform() < 0.5,
        };
        let (median, deviation) = if is_query { QUERY } else { PASSAGE };
        let length = median * (deviation * self.normal()).exp();
        length.round().clamp(RANGE.0, RANGE.1) as usize
    }

    /// A number from 0 to 1, by the generator of Steele, Lea and Flood.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.state;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((it ^ (it >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
