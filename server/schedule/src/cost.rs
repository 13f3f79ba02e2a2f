//! How long does a run of so many rows of so many tokens take? A table, learned from every run. Plain data.

use std::time::Duration;

/// Numbers of rows that have a cell.
const ROWS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Lengths that have a cell, in tokens.
const LENGTHS: [usize; 22] = [
    8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
    8192, 12288, 16384,
];

/// Before anything is known a run takes as long as so many tokens, and then its own. Only the proportion matters: it
/// was measured with a small encoder on one processor.
const TOKENS_OF_A_RUN: f32 = 18.0;

/// The same in seconds for a token.
const SECONDS_OF_A_TOKEN: f32 = 111e-6;

/// How fast a run's weight falls with its distance from a cell, which counts doublings of rows and of lengths.
const STEEPNESS: f32 = 8.0;

/// How much of what a cell knows is left after another run.
const KEPT: f32 = 0.9;

/// No run differs by more doublings from what is assumed: it would take 10^-13 or 10^13 times as long.
const MOST_DIFFERENCE: f32 = 43.0;

/// More than the weights of any number of runs come to.
const MOST_WEIGHT: f32 = 2.0 / (1.0 - KEPT);

/// Run times by rows and length.
///
/// Between the cells times are bilinear in logarithms. Below the least cell they are the least cell's, above the
/// largest they go on as between the last two. More rows or more tokens never take less time.
#[derive(Debug, Clone)]
pub struct CostTable {
    /// By how much runs differ from what is assumed before anything is known, near each cell: logarithms to the base
    /// of two.
    differences: [[f32; LENGTHS.len()]; ROWS.len()],
    /// Weight of the runs that each cell knows of.
    weights: [[f32; LENGTHS.len()]; ROWS.len()],
    /// What runs cost, where each cell is at least as large as those of fewer rows or tokens: logarithms to the base of
    /// two, of seconds.
    rising: [[f32; LENGTHS.len()]; ROWS.len()],
    runs: u64,
}

impl Default for CostTable {
    fn default() -> CostTable {
        let none = [[0.0; LENGTHS.len()]; ROWS.len()];
        let mut table = CostTable { differences: none, weights: none, rising: none, runs: 0 };
        table.rise();
        table
    }
}

/// What is assumed of a run before anything is known.
fn assumed(rows: usize, length: usize) -> f32 {
    ((TOKENS_OF_A_RUN + (rows * length) as f32) * SECONDS_OF_A_TOKEN).log2()
}

/// The same of each cell.
const ASSUMED: &[[f32; LENGTHS.len()]; ROWS.len()] = &assumed_of_cells();

const fn assumed_of_cells() -> [[f32; LENGTHS.len()]; ROWS.len()] {
    // The logarithm of `SECONDS_OF_A_TOKEN`.
    const OF_A_TOKEN: f32 = -13.137_153;
    let mut cells = [[0.0; LENGTHS.len()]; ROWS.len()];
    let mut row = 0;
    while row < ROWS.len() {
        let mut tokens = LENGTHS;
        let mut column = 0;
        while column < LENGTHS.len() {
            tokens[column] = TOKENS_OF_A_RUN as usize + ROWS[row] * LENGTHS[column];
            column += 1;
        }
        cells[row] = logs(&tokens);
        column = 0;
        while column < LENGTHS.len() {
            cells[row][column] += OF_A_TOKEN;
            column += 1;
        }
        row += 1;
    }
    cells
}

/// Where a number lies between two cells: the first of them, and how far it is to the second.
#[derive(Clone, Copy)]
struct Between {
    first: usize,
    part: f32,
}

impl Between {
    fn new(cells: &[usize], logs: &[f32], number: usize) -> Between {
        let after = cells.partition_point(|it| *it <= number);
        let first = after.saturating_sub(1).min(cells.len() - 2);
        let (low, high) = (logs[first], logs[first + 1]);
        Between { first, part: ((log(number) - low) / (high - low)).max(0.0) }
    }

    fn of_rows(rows: usize) -> Between {
        Between::new(&ROWS, &LOG_ROWS, rows)
    }

    fn of_length(length: usize) -> Between {
        Between::new(&LENGTHS, &LOG_LENGTHS, length)
    }

    /// The value there, where the two cells have these.
    fn of(self, low: f32, high: f32) -> f32 {
        low + self.part * (high - low)
    }
}

fn log(number: usize) -> f32 {
    (number.max(1) as f32).log2()
}

/// Logarithms of the cells.
const LOG_ROWS: [f32; ROWS.len()] = logs(&ROWS);
const LOG_LENGTHS: [f32; LENGTHS.len()] = logs(&LENGTHS);

const fn logs<const N: usize>(numbers: &[usize; N]) -> [f32; N] {
    let mut logs = [0.0; N];
    let mut at = 0;
    while at < N {
        let whole = numbers[at].ilog2();
        logs[at] = whole as f32 + log2_of_ratio(numbers[at], 1 << whole);
        at += 1;
    }
    logs
}

impl CostTable {
    /// How many lengths have a cell.
    pub(crate) const LENGTHS: usize = LENGTHS.len();

    /// The cell that a length belongs to: the least that is not shorter, else the last.
    pub(crate) fn cell(length: usize) -> usize {
        LENGTHS.partition_point(|it| *it < length).min(LENGTHS.len() - 1)
    }

    /// The length of a cell.
    pub(crate) fn length(cell: usize) -> usize {
        LENGTHS[cell.min(LENGTHS.len() - 1)]
    }

    /// The shortest length that has a cell and is no less than this one; this one beyond the last.
    pub fn rounded(length: usize) -> usize {
        CostTable::length(CostTable::cell(length)).max(length)
    }

    /// How many runs it has learned from.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Seconds of a run of so many rows, padded to that length.
    pub fn seconds(&self, rows: usize, length: usize) -> f32 {
        self.log_seconds(Between::of_rows(rows), Between::of_length(length)).exp2()
    }

    /// The same as a duration.
    pub fn time(&self, rows: usize, length: usize) -> Duration {
        Duration::try_from_secs_f32(self.seconds(rows, length)).unwrap_or(Duration::MAX)
    }

    /// Seconds of runs of 1, 2, 3 … rows of that length.
    pub(crate) fn column(&self, length: usize, seconds: &mut [f32]) {
        let at = Between::of_length(length);
        let mut cells = [0.0; ROWS.len()];
        for (cell, row) in cells.iter_mut().zip(&self.rising) {
            *cell = at.of(row[at.first], row[at.first + 1]);
        }
        for (rows, seconds) in (1..).zip(seconds.iter_mut()) {
            let at = ROW_PLACES.get(rows - 1).copied().unwrap_or_else(|| Between::of_rows(rows));
            *seconds = exp2(at.of(cells[at.first], cells[at.first + 1]));
        }
    }

    fn log_seconds(&self, rows: Between, length: Between) -> f32 {
        let row = |at: usize| {
            let row = &self.rising[at];
            length.of(row[length.first], row[length.first + 1])
        };
        rows.of(row(rows.first), row(rows.first + 1))
    }

    /// Takes in one run of so many rows, padded to that length.
    ///
    /// Each cell knows the mean of all runs, the near ones with more weight than the far ones and the late ones with
    /// more than the early ones. So a cell that has seen no run has what the runs around it say, in proportion.
    pub fn record(&mut self, rows: usize, length: usize, took: Duration) {
        let took = took.as_secs_f32().max(1e-7).log2();
        let difference = took - assumed(rows, length);
        let (log_rows, log_length) = (log(rows), log(length));
        let rows_apart = LOG_ROWS.map(|it| (it - log_rows).powi(2));
        let lengths_apart = LOG_LENGTHS.map(|it| (it - log_length).powi(2));
        for (row, rows_apart) in rows_apart.into_iter().enumerate() {
            for (column, lengths_apart) in lengths_apart.into_iter().enumerate() {
                let apart = (rows_apart + lengths_apart).sqrt();
                // Never nothing: the first run is all that any cell knows.
                let weight = exp2(-STEEPNESS * apart).max(f32::MIN_POSITIVE);
                // A far run says nothing of how old a near one is.
                let before = self.weights[row][column] * (1.0 - (1.0 - KEPT) * weight);
                self.weights[row][column] = before + weight;
                let mean = &mut self.differences[row][column];
                *mean += (difference - *mean) * weight / (before + weight);
            }
        }
        self.runs += 1;
        self.rise();
    }

    /// What it has learned: of each cell by how much runs differ from what is assumed, and their weight.
    pub fn cells(&self) -> impl Iterator<Item = [f32; 2]> {
        let cells = self.differences.iter().flatten().zip(self.weights.iter().flatten());
        cells.map(|(difference, weight)| [*difference, *weight])
    }

    /// The table that has learned this. `None` where it is not what [`CostTable::cells`] gives.
    pub fn of_cells(cells: &[[f32; 2]]) -> Option<CostTable> {
        let is_possible =
            |it: &[f32; 2]| it[0].abs() <= MOST_DIFFERENCE && 0.0 < it[1] && it[1] <= MOST_WEIGHT;
        if cells.len() != ROWS.len() * LENGTHS.len() || !cells.iter().all(is_possible) {
            return None;
        }
        let mut table = CostTable { runs: 1, ..CostTable::default() };
        for (row, cells) in cells.chunks(LENGTHS.len()).enumerate() {
            for (column, [difference, weight]) in cells.iter().enumerate() {
                table.differences[row][column] = *difference;
                table.weights[row][column] = *weight;
            }
        }
        table.rise();
        Some(table)
    }

    fn rise(&mut self) {
        let mut above = [f32::NEG_INFINITY; LENGTHS.len()];
        for (row, assumed) in ASSUMED.iter().enumerate() {
            let mut before = f32::NEG_INFINITY;
            for (column, assumed) in assumed.iter().enumerate() {
                let own = assumed + self.differences[row][column];
                before = own.max(before).max(above[column]);
                above[column] = before;
            }
            self.rising[row] = above;
        }
    }
}

/// Added to a number below 2^22 it leaves the nearest whole number in the last bits.
const ROUND: f32 = 12_582_912.0;

/// Two to the power of `x`, to six digits. Unlike the library's it is made of a few operations that a compiler does for
/// several numbers at once.
fn exp2(x: f32) -> f32 {
    use std::f32::consts::LN_2;
    const SERIES: [f32; 6] = [
        LN_2,
        LN_2 * LN_2 / 2.0,
        LN_2 * LN_2 * LN_2 / 6.0,
        LN_2 * LN_2 * LN_2 * LN_2 / 24.0,
        LN_2 * LN_2 * LN_2 * LN_2 * LN_2 / 120.0,
        LN_2 * LN_2 * LN_2 * LN_2 * LN_2 * LN_2 / 720.0,
    ];
    let x = x.clamp(-125.0, 125.0);
    let rounded = x + ROUND;
    let part = x - (rounded - ROUND);
    let series = SERIES.iter().rev().fold(0.0, |sum, it| (sum + it) * part) + 1.0;
    // The whole part becomes the exponent; what else was in the bits is shifted out.
    let power = f32::from_bits((rounded.to_bits().wrapping_add(127)) << 23);
    power * series
}

/// Places of 1, 2, 3 … 256 rows.
const ROW_PLACES: &[Between; 256] = &row_places();

const fn row_places() -> [Between; 256] {
    let mut places = [Between { first: 0, part: 0.0 }; 256];
    let mut rows = 1;
    while rows <= 256 {
        let mut first = 0;
        while first + 2 < ROWS.len() && ROWS[first + 1] <= rows {
            first += 1;
        }
        places[rows - 1] = Between { first, part: log2_of_ratio(rows, ROWS[first]) };
        rows += 1;
    }
    places
}

/// The logarithm of a ratio between one and two. `log2` of the library is no constant function.
const fn log2_of_ratio(number: usize, of: usize) -> f32 {
    // The series of the inverse hyperbolic tangent.
    let ratio = number as f64 / of as f64;
    let x = (ratio - 1.0) / (ratio + 1.0);
    let (mut power, mut sum, mut odd) = (x, 0.0, 1);
    while odd < 40 {
        sum += power / odd as f64;
        power *= x * x;
        odd += 2;
    }
    (2.0 * sum / std::f64::consts::LN_2) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f32, other: f32, part: f32) -> bool {
        (one - other).abs() <= part * other.abs()
    }

    fn seconds(rows: usize, length: usize) -> f32 {
        2e-3 + 111e-6 * (rows * length) as f32
    }

    /// A table that has seen each of these sizes so often, at these times.
    fn taught(sizes: &[(usize, usize)], times: usize) -> CostTable {
        let mut table = CostTable::default();
        for _ in 0..times {
            for (rows, length) in sizes {
                let took = Duration::from_secs_f32(seconds(*rows, *length));
                table.record(*rows, *length, took);
            }
        }
        table
    }

    #[test]
    fn a_cell_that_has_seen_one_run_has_its_time() {
        let table = taught(&[(4, 32), (1, 8), (32, 512)], 1);
        for (rows, length) in [(4, 32), (1, 8), (32, 512)] {
            assert!(near(table.seconds(rows, length), seconds(rows, length), 0.01));
        }
    }

    #[test]
    fn the_first_run_sets_the_scale_of_all() {
        let mut table = CostTable::default();
        let before = table.seconds(16, 256) / table.seconds(1, 8);
        table.record(2, 16, Duration::from_micros(5));
        assert!(near(table.seconds(16, 256) / table.seconds(1, 8), before, 1e-3));
        assert!(table.seconds(16, 256) < 1e-3);
    }

    #[test]
    fn runs_between_the_cells_teach_those_around_them() {
        let sizes = [(3, 10), (3, 13), (5, 10), (5, 13), (3, 20), (5, 20), (7, 11), (6, 19)];
        let table = taught(&sizes, 200);
        for (rows, length) in sizes.into_iter().chain([(4, 12), (6, 12), (4, 16)]) {
            let (learned, real) = (table.seconds(rows, length), seconds(rows, length));
            assert!(near(learned, real, 0.05), "{rows} rows of {length}: {learned}, {real}");
        }
    }

    #[test]
    fn a_change_is_followed_within_some_tens_of_runs() {
        let mut table = taught(&[(8, 32)], 100);
        for _ in 0..50 {
            table.record(8, 32, Duration::from_secs_f32(10.0 * seconds(8, 32)));
        }
        assert!(near(table.seconds(8, 32), 10.0 * seconds(8, 32), 0.1));
    }

    #[test]
    fn more_never_takes_less_time() {
        let mut table = CostTable::default();
        table.record(1, 8, Duration::from_millis(50));
        table.record(8, 64, Duration::from_millis(1));
        table.record(2, 512, Duration::from_millis(3));
        let mut before = vec![0.0; 300];
        for length in 1..600 {
            let mut column = vec![0.0; 300];
            table.column(length, &mut column);
            assert!(column.iter().zip(column.iter().skip(1)).all(|(a, b)| *a <= b * 1.000_001));
            assert!(before.iter().zip(&column).all(|(a, b)| *a <= b * 1.000_001), "{length}");
            before = column;
        }
    }

    #[test]
    fn what_is_assumed_of_cells_is_what_is_assumed_of_runs() {
        for (row, rows) in ROWS.into_iter().enumerate() {
            for (column, length) in LENGTHS.into_iter().enumerate() {
                let cell = ASSUMED[row][column];
                assert!((cell - assumed(rows, length)).abs() < 1e-4, "{rows} rows of {length}");
            }
        }
    }

    #[test]
    fn what_was_learned_can_be_kept() {
        let table = taught(&[(1, 8), (2, 16), (32, 64), (3, 100)], 200);
        let cells: Vec<[f32; 2]> = table.cells().collect();
        let kept = CostTable::of_cells(&cells).unwrap();
        for (rows, length) in [(1, 8), (5, 70), (256, 20_000)] {
            assert_eq!(kept.seconds(rows, length), table.seconds(rows, length));
        }
        assert!(0 < kept.runs());
    }

    #[test]
    fn what_cannot_have_been_learned_is_no_table() {
        let cells: Vec<[f32; 2]> = taught(&[(1, 8)], 1).cells().collect();
        assert!(CostTable::of_cells(&cells[1..]).is_none());
        for wrong in [[f32::NAN, 1.0], [1.0, f32::INFINITY], [44.0, 1.0], [1.0, 0.0], [0.0, -1.0]] {
            let mut cells = cells.clone();
            cells[7] = wrong;
            assert!(CostTable::of_cells(&cells).is_none(), "{wrong:?}");
        }
        assert!(CostTable::of_cells(&CostTable::default().cells().collect::<Vec<_>>()).is_none());
    }

    #[test]
    fn a_column_has_what_its_cells_have() {
        let table = taught(&[(1, 8), (2, 16), (32, 64), (3, 100)], 5);
        for length in [1, 8, 9, 40, 100, 777, 20_000] {
            let mut column = vec![0.0; 300];
            table.column(length, &mut column);
            for (rows, seconds) in (1..).zip(&column) {
                let exact = table.seconds(rows, length);
                assert!(near(*seconds, exact, 1e-4), "{rows} rows of {length}");
            }
        }
    }
}
