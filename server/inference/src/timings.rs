//! Where the time of one execution goes: measured by the scheduler, counted by the metrics, shown by traces.

use std::time::{Duration, Instant};

use backend::Turn;

/// Where the time of one execution went; for an ensemble, the executions of all its steps together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// When the execution began: its requests left the queue.
    pub started: Instant,
    /// From the acceptance of one request to `started`. An execution serves several requests, so that the scheduler
    /// leaves it at zero.
    pub queue: Duration,
    /// Of a request in texts, from them to their tokens; else zero. A part of `queue`.
    pub prepare: Duration,
    /// Of a request in texts, from `started` to the end of its last row; else zero.
    pub rows: Duration,
    /// Gathering the inputs.
    pub input: Duration,
    /// The run of the engine.
    pub infer: Duration,
    /// Scattering the outputs.
    pub output: Duration,
    /// Rows of the whole batch.
    pub batch_rows: usize,
    /// Where it was made in a process of the model's own: which, and what the way there and back took.
    pub turn: Option<Turn>,
}

impl Timings {
    /// Those of an execution that begins then and takes no time.
    pub fn starting_at(started: Instant) -> Timings {
        let zero = Duration::ZERO;
        Timings {
            started,
            queue: zero,
            prepare: zero,
            rows: zero,
            input: zero,
            infer: zero,
            output: zero,
            batch_rows: 0,
            turn: None,
        }
    }

    /// Those of two executions for one request, side by side or one behind the other.
    pub fn beside(self, other: Timings) -> Timings {
        Timings {
            started: self.started.min(other.started),
            queue: Duration::ZERO,
            prepare: self.prepare + other.prepare,
            rows: self.rows.max(other.rows),
            input: self.input + other.input,
            infer: self.infer + other.infer,
            output: self.output + other.output,
            batch_rows: self.batch_rows.max(other.batch_rows),
            turn: self.turn.or(other.turn),
        }
    }

    /// Adds the time of another execution to the three parts of this one.
    pub fn add(&mut self, other: &Timings) {
        self.input += other.input;
        self.infer += other.infer;
        self.output += other.output;
    }
}

/// Where the time of one request went, as its client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// Until its run began; of texts, until the run of their first row did.
    pub queue: Duration,
    /// In runs. Of several side by side, as an ensemble has them, the sum.
    pub compute: Duration,
}

impl Spent {
    /// By these timings.
    pub fn of(timings: &Timings) -> Spent {
        let compute = match timings.rows {
            Duration::ZERO => timings.input + timings.infer + timings.output,
            rows => rows,
        };
        Spent { queue: timings.queue, compute }
    }

    /// That of two requests side by side, which are answered together.
    pub fn beside(self, other: Spent) -> Spent {
        Spent { queue: self.queue.max(other.queue), compute: self.compute.max(other.compute) }
    }
}
