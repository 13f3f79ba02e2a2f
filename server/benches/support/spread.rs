//! A value of several rounds: the median, and how far the rounds lie apart.

/// The median and the extremes.
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// Not a number where there are no values.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let (middle, last) = (values.len() / 2, values.len().saturating_sub(1));
        let median = match values.len() % 2 {
            0 => (at(middle.saturating_sub(1)) + at(middle)) / 2.0,
            _ => at(middle),
        };
        Spread { median, low: at(0), high: at(last) }
    }

    /// Half the distance of the extremes, relative to the median.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.median
    }

    /// `97.1 % (95–99)`.
    pub fn percent(&self) -> String {
        let [median, low, high] = [self.median, self.low, self.high].map(|it| it * 100.0);
        format!("{median:.1} % ({low:.0}–{high:.0})")
    }
}
