//! Which of several measured settings is the best for a target. Pure.

use serde::{Deserialize, Serialize};

/// Rows that differ by no more than this are equal.
const TIE: f64 = 1.03;

/// What is to be low, or high.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// The price of an hour of as many machines as the target takes.
    #[default]
    Cost,
    /// Latency.
    Latency,
    /// Requests per machine.
    Throughput,
}

/// What is known of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Is it within the threshold?
    pub meets: bool,
    /// Requests per minute of one machine.
    pub max_invocations: u64,
    /// In milliseconds.
    pub model_latency: u64,
    /// Price of an hour of one machine; its processors where no machine has a price.
    pub price: f64,
    /// Processor time over time, 100 for each core.
    pub cpu: f64,
}

impl Row {
    /// Machines that a target of requests per minute takes; one without a target, `None` where no number is enough.
    pub fn instances(&self, target: Option<u64>) -> Option<u64> {
        match (target, self.max_invocations) {
            (None, _) => Some(1),
            (Some(_), 0) => None,
            (Some(target), each) => Some(target.div_ceil(each).max(1)),
        }
    }

    /// Price of an hour of all of them; infinite where no number is enough.
    pub fn cost_per_hour(&self, target: Option<u64>) -> f64 {
        self.instances(target).map_or(f64::INFINITY, |it| self.price * it as f64)
    }

    /// Price of one request on a busy machine.
    pub fn cost_per_inference(&self) -> f64 {
        self.price / (self.max_invocations as f64 * 60.0)
    }
}

/// The places of `rows`, the best one first: those within the threshold before the others; then what the objective
/// says, latency and processor time, each counting where what goes before differs by 3 % at most.
pub fn ranking(rows: &[Row], objective: Objective, target: Option<u64>) -> Vec<usize> {
    let mut left: Vec<usize> = (0..rows.len()).collect();
    let mut ranked = Vec::with_capacity(rows.len());
    while !left.is_empty() {
        let best = best(rows, &left, objective, target);
        left.retain(|it| Some(*it) != best);
        match best {
            Some(best) => ranked.push(best),
            None => break,
        }
    }
    ranked
}

/// The best of those that are left: whatever is within 3 % of the lowest stays for the next key.
fn best(rows: &[Row], left: &[usize], objective: Objective, target: Option<u64>) -> Option<usize> {
    let row = |index: &usize| rows.get(*index).copied();
    let meeting: Vec<usize> =
        left.iter().copied().filter(|it| row(it).is_some_and(|it| it.meets)).collect();
    let mut stay = if meeting.is_empty() { left.to_vec() } else { meeting };
    let cost = |it: &Row| it.cost_per_hour(target);
    let latency = |it: &Row| it.model_latency as f64;
    let slowness = |it: &Row| 1.0 / it.max_invocations.max(1) as f64;
    let keys: [&dyn Fn(&Row) -> f64; 3] = match objective {
        Objective::Cost => [&cost, &latency, &|it| it.cpu],
        Objective::Latency => [&latency, &cost, &|it| it.cpu],
        Objective::Throughput => [&slowness, &latency, &|it| it.cpu],
    };
    for key in keys {
        let value = |index: &usize| row(index).map_or(f64::INFINITY, |it| key(&it));
        let lowest = stay.iter().map(value).fold(f64::INFINITY, f64::min);
        stay.retain(|it| value(it) <= lowest * TIE);
    }
    stay.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(price: f64, max_invocations: u64, model_latency: u64) -> Row {
        Row { meets: true, max_invocations, model_latency, price, cpu: 100.0 }
    }

    #[test]
    fn three_small_machines_win_over_one_large_one() {
        // The default job of Amazon's article on fraud detection.
        let rows = [
            row(0.115, 13_793, 19),
            row(0.23, 15_189, 18),
            row(0.461, 32_427, 13),
            row(0.922, 32_628, 9),
            row(2.765, 32_016, 4),
        ];
        let target = Some(30_000);
        // 0.46 and 0.461 are a tie, which latency decides.
        assert_eq!(ranking(&rows, Objective::Cost, target), [0, 2, 1, 3, 4]);
        assert_eq!((rows[0].instances(target), rows[1].instances(target)), (Some(3), Some(2)));
        assert!((rows[0].cost_per_hour(target) - 0.345).abs() < 1e-9);
        assert_eq!(ranking(&rows, Objective::Latency, target)[0], 4);
        // Two machines of nearly one throughput: the latency decides.
        assert_eq!(ranking(&rows, Objective::Throughput, target)[0], 4);
        let idle = Row { max_invocations: 0, ..rows[0] };
        assert_eq!((idle.instances(target), idle.cost_per_hour(target)), (None, f64::INFINITY));
        let per_million = [0.139, 0.252, 0.237, 0.471, 1.439];
        for (row, expected) in rows.iter().zip(per_million) {
            assert!((row.cost_per_inference() * 1e6 - expected).abs() < 1e-3, "{row:?}");
        }
    }

    #[test]
    fn a_row_within_its_threshold_wins_over_a_cheaper_one() {
        // BERT on Triton with the article's own limit of 500 ms: invocations, latency and price by row and machine.
        let cells = [
            [(490, 1500), (544, 1500), (2138, 906)],
            [(529, 1490), (517, 1500), (2110, 907)],
            [(906, 868), (1054, 960), (3862, 651)],
            [(892, 1158), (1017, 992), (3822, 642)],
            [(643, 742), (718, 1494), (2892, 279)],
            [(1078, 814), (1335, 499), (5356, 278)],
            [(2202, 1273), (1363, 1017), (5210, 328)],
            [(3192, 783), (1369, 963), (5235, 439)],
        ];
        let counts = [
            [62, 56, 15],
            [57, 59, 15],
            [34, 29, 8],
            [34, 30, 8],
            [47, 42, 11],
            [28, 23, 6],
            [14, 23, 6],
            [10, 22, 6],
        ];
        let mut rows = Vec::new();
        for (cells, counts) in cells.iter().zip(counts) {
            for (((max, latency), count), price) in
                cells.iter().zip(counts).zip([0.7364, 0.94, 4.89])
            {
                let row = Row { meets: *latency <= 500, ..row(price, *max, *latency) };
                assert_eq!(row.instances(Some(30_000)), Some(count), "{row:?}");
                rows.push(row);
            }
        }
        let best = rows[ranking(&rows, Objective::Cost, Some(30_000))[0]];
        assert_eq!((best.max_invocations, best.model_latency), (1335, 499));
        assert!((best.cost_per_hour(Some(30_000)) - 21.62).abs() < 0.01);
        assert!((rows[0].cost_per_hour(Some(30_000)) - 45.6568).abs() < 1e-9);
    }
}
