//! Which rows of unequal length share a run? Pure: lengths and costs go in, the rows of the next run come out.

use crate::cost::CostTable;

/// No more rows than the oldest so many are looked at.
pub const WINDOW: usize = 256;

/// Rows of a run where no bound is given: with more of them, a run of a text model gains nothing on a processor.
pub const USUAL_ROWS: usize = 32;

/// What one run may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBounds {
    /// Most rows.
    pub rows: usize,
    /// Most tokens, padding included. A longer row runs alone.
    pub tokens: usize,
}

/// The rows that run next, ascending: of the cheapest way to cut everything that waits into runs, the run with row
/// `oldest` in it. `lengths` are those of the rows that wait, in tokens, at most [`WINDOW`] of them.
///
/// Each run takes as long as its rows and its longest row say, so that of all ways to cut one is the cheapest in which
/// each run has neighbours by length.
pub fn pack(lengths: &[usize], oldest: usize, costs: &CostTable, bounds: RunBounds) -> Vec<usize> {
    Cut::cheapest(lengths, costs, bounds).run_with(oldest)
}

/// Seconds that the cheapest way to run them all takes, as [`pack`] sees it.
pub fn cheapest(lengths: &[usize], costs: &CostTable, bounds: RunBounds) -> f32 {
    Cut::cheapest(lengths, costs, bounds).seconds.last().copied().unwrap_or(0.0)
}

/// Rows by length, cut into runs.
struct Cut {
    /// Places of the rows, by their length.
    sorted: Vec<usize>,
    /// Seconds of the cheapest way to run the first so many of these.
    seconds: Vec<f32>,
    /// Rows of its last run.
    last_run: Vec<usize>,
}

impl Cut {
    fn cheapest(lengths: &[usize], costs: &CostTable, bounds: RunBounds) -> Cut {
        let rows = lengths.len();
        let mut sorted: Vec<usize> = (0..rows).collect();
        sorted.sort_by_key(|it| lengths[*it]);
        let (mut seconds, mut last_run) = (vec![0.0; rows + 1], vec![0; rows + 1]);
        let mut column = vec![0.0; bounds.rows.clamp(1, rows.max(1))];
        // How many numbers of the column hold, and for which length.
        let mut known = (0, 0);
        for end in 1..=rows {
            let length = lengths[sorted[end - 1]];
            let fitting = bounds.tokens / length.max(1);
            let most = bounds.rows.min(fitting).clamp(1, end);
            if known.0 != length || known.1 < most {
                costs.column(length, &mut column[..most]);
                known = (length, most);
            }
            let mut best = (f32::INFINITY, 1);
            // Backwards from the row at `end`. Of equally cheap ways the one of fewer runs.
            let before = seconds[end - most..end].iter().rev();
            for ((run, before), own) in (1..).zip(before).zip(&column) {
                let total = before + own;
                if total <= best.0 {
                    best = (total, run);
                }
            }
            (seconds[end], last_run[end]) = best;
        }
        Cut { sorted, seconds, last_run }
    }

    fn run_with(&self, row: usize) -> Vec<usize> {
        let mut end = self.sorted.len();
        while 0 < end {
            let run = &self.sorted[end - self.last_run[end]..end];
            if run.contains(&row) {
                let mut run = run.to_vec();
                run.sort_unstable();
                return run;
            }
            end -= run.len();
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
