//! Rules by which waiting rows become runs.

use schedule::{
    cost::CostTable,
    pack::{RunBounds, USUAL_ROWS, WINDOW, pack},
};

/// Bounds of the runs of `pack`.
const BOUNDS: RunBounds = RunBounds { rows: USUAL_ROWS, tokens: 4096 };

/// Rows of a run in order of arrival.
const ARRIVAL_ROWS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The one of the server.
    Pack,
    /// Rows of equal length, in order of arrival; another length ends the run.
    Equal,
    /// Eight rows, in order of arrival.
    Arrival,
}

impl Rule {
    pub const ALL: [Rule; 3] = [Rule::Pack, Rule::Equal, Rule::Arrival];

    pub fn name(self) -> &'static str {
        match self {
            Rule::Pack => "pack",
            Rule::Equal => "equal shapes",
            Rule::Arrival => "arrival order, 8 rows",
        }
    }

    /// The rows of the next run, ascending, where rows of these lengths wait in the order of arrival.
    pub fn next_run(self, lengths: &[usize], costs: &CostTable) -> Vec<usize> {
        match self {
            Rule::Pack => pack(&lengths[..lengths.len().min(WINDOW)], 0, costs, BOUNDS),
            Rule::Equal => {
                let equal = lengths.iter().take_while(|it| **it == lengths[0]).count();
                (0..equal.min(USUAL_ROWS)).collect()
            }
            Rule::Arrival => (0..lengths.len().min(ARRIVAL_ROWS)).collect(),
        }
    }
}
