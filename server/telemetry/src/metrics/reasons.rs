//! Why requests fail, and why batches have their sizes: values of the label `reason`.

/// Why a request to a model was not answered with a result: the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// It waited too long, or there was no room for it.
    Rejected,
    /// The client went away, or its deadline passed.
    Canceled,
    /// The engine failed.
    Backend,
    /// Anything else, but not a request that fails validation: that one is not counted.
    Other,
}

impl FailureReason {
    /// Every reason, in the order of the declaration.
    pub(super) const ALL: [FailureReason; 4] = [
        FailureReason::Rejected,
        FailureReason::Canceled,
        FailureReason::Backend,
        FailureReason::Other,
    ];

    /// The value of the label, as Triton spells it.
    pub const fn name(self) -> &'static str {
        match self {
            FailureReason::Rejected => "REJECTED",
            FailureReason::Canceled => "CANCELED",
            FailureReason::Backend => "BACKEND",
            FailureReason::Other => "OTHER",
        }
    }
}

/// What became of a run that lasted too long: the label `outcome` of `muster_overdue_runs_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverdueRun {
    /// It was ended on the thread of a client, and made again on one of the model.
    Moved,
    /// The engine ended it.
    Stopped,
    /// It goes on, without its place.
    Abandoned,
}

impl OverdueRun {
    /// Every outcome, in the order of the declaration.
    pub(super) const ALL: [OverdueRun; 3] =
        [OverdueRun::Moved, OverdueRun::Stopped, OverdueRun::Abandoned];

    /// The value of the label.
    pub const fn name(self) -> &'static str {
        match self {
            OverdueRun::Moved => "moved",
            OverdueRun::Stopped => "stopped",
            OverdueRun::Abandoned => "abandoned",
        }
    }
}

/// What became of a request whose process died in its run: the label `outcome` of `muster_worker_rerun_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rerun {
    /// It was run once more, and answered.
    Ok,
    /// It was run once more, and that failed.
    Failed,
    /// It was not run again: nobody could use the answer any more.
    Late,
    /// It was not run again: the configuration of its model says so.
    Never,
}

impl Rerun {
    /// Every outcome, in the order of the declaration.
    pub(super) const ALL: [Rerun; 4] = [Rerun::Ok, Rerun::Failed, Rerun::Late, Rerun::Never];

    /// The value of the label.
    pub const fn name(self) -> &'static str {
        match self {
            Rerun::Ok => "ok",
            Rerun::Failed => "failed",
            Rerun::Late => "late",
            Rerun::Never => "never",
        }
    }
}

/// Why a batch was run at the size that it had: the label `reason` of `muster_batches_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchReason {
    /// The model's requests run one at a time.
    Alone,
    /// It holds as many rows as it may, or the next request would have been too many.
    Full,
    /// It had a preferred size.
    Preferred,
    /// The next request has other shapes, or other optional inputs.
    Shapes,
    /// Its oldest request had waited for as long as it may.
    Delay,
    /// Nothing else waited when an instance was free.
    Idle,
    /// It ran at once on the thread that read its requests.
    InPlace,
    /// The model was closing, and nothing waits any more.
    Closing,
    /// It is a part of a batch that had failed.
    Retry,
}

impl BatchReason {
    /// Every reason, in the order of the declaration.
    pub(super) const ALL: [BatchReason; 9] = [
        BatchReason::Alone,
        BatchReason::Full,
        BatchReason::Preferred,
        BatchReason::Shapes,
        BatchReason::Delay,
        BatchReason::Idle,
        BatchReason::InPlace,
        BatchReason::Closing,
        BatchReason::Retry,
    ];

    /// The value of the label.
    pub const fn name(self) -> &'static str {
        match self {
            BatchReason::Alone => "alone",
            BatchReason::Full => "full",
            BatchReason::Preferred => "preferred",
            BatchReason::Shapes => "shapes",
            BatchReason::Delay => "delay",
            BatchReason::Idle => "idle",
            BatchReason::InPlace => "in_place",
            BatchReason::Closing => "closing",
            BatchReason::Retry => "retry",
        }
    }
}
