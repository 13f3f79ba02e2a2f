//! The cells of the grid: how many instances, of how many threads, that wait in which way.

use std::fmt;

/// One setting of a model. The threads of a machine that has 36 are asked for on whatever machine this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Not a word in the configuration.
    Default,
    Tuple {
        instances: usize,
        /// Threads within an operator.
        intra: usize,
        /// Threads among operators, which then run side by side.
        inter: Option<usize>,
        idle: Idle,
    },
}

/// What a thread of a pool does that waits for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// It gives its processor away.
    Blocks,
    /// It keeps its processor until the run is over.
    SpinsInRuns,
    /// It keeps its processor for a while after the run as well: ONNX Runtime's own default.
    Spins,
}

/// What a table of ratios begins with: one process that takes every number from a larger machine.
pub const BASE: Cell = Cell::Tuple { instances: 1, intra: 36, inter: Some(36), idle: Idle::Spins };

/// All cells, the default first and then the base.
pub fn grid() -> Vec<Cell> {
    let tuple = |instances, intra, inter, idle| Cell::Tuple { instances, intra, inter, idle };
    let mut cells = vec![Cell::Default, BASE, tuple(1, 36, Some(36), Idle::Blocks)];
    for idle in [Idle::Spins, Idle::SpinsInRuns, Idle::Blocks] {
        cells.extend([1, 2].map(|instances| tuple(instances, 2, None, idle)));
    }
    for idle in [Idle::Spins, Idle::Blocks] {
        cells.extend([1, 8].map(|instances| tuple(instances, 36, None, idle)));
        cells.push(tuple(2, 1, Some(2), idle));
    }
    cells.push(tuple(4, 2, None, Idle::Blocks));
    // One thread has nobody to wait for.
    cells.extend([1, 2, 4, 8, 36].map(|instances| tuple(instances, 1, None, Idle::Blocks)));
    cells
}

impl Cell {
    /// The text of `config.pbtxt`.
    pub fn config(&self) -> Option<String> {
        let Cell::Tuple { instances, intra, inter, idle } = *self else { return None };
        let mut config = format!("instance_group {{ count: {instances} }}\n");
        let mut parameter = |key: &str, value: usize| {
            config +=
                &format!("parameters {{ key: \"{key}\" value {{ string_value: \"{value}\" }} }}\n");
        };
        parameter("intra_op_thread_count", intra);
        if let Some(inter) = inter {
            parameter("execution_mode", 1);
            parameter("inter_op_thread_count", inter);
        }
        for scope in ["intra", "inter"] {
            let spins = usize::from(idle != Idle::Blocks);
            parameter(&format!("session.{scope}_op.allow_spinning"), spins);
        }
        if idle == Idle::SpinsInRuns {
            parameter("session.force_spinning_stop", 1);
        }
        Some(config)
    }

    /// A name for a directory.
    pub fn folder(&self) -> String {
        format!("{self:?}").replace(|it: char| !it.is_alphanumeric(), "")
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell::Tuple { instances, intra, inter, idle } = *self else {
            return f.write_str("**default**");
        };
        write!(f, "{instances} × {intra}")?;
        if let Some(inter) = inter {
            write!(f, " × {inter}")?;
        }
        let pools = 1 < intra || inter.is_some_and(|it| 1 < it);
        f.write_str(match idle {
            Idle::Spins if pools => ", spinning",
            Idle::SpinsInRuns if pools => ", spinning in runs",
            _ => "",
        })
    }
}
