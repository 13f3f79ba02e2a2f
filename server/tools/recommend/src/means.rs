//! What jobs are done with.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use loadgen::Trust;

use crate::{
    payload::TypedBody, prices::Prices, ranking::Objective, setting::Variables, shares::Places,
    watch::Watch,
};

/// What a job is done with.
#[derive(Debug, Clone)]
pub struct Means {
    /// The program whose `serve` is started.
    pub program: PathBuf,
    /// Machines.
    pub prices: Prices,
    /// Processors for servers and load generators.
    pub places: Places,
    /// Bodies of requests.
    pub bodies: Vec<TypedBody>,
    /// The times of loads are divided by this.
    pub time_scale: f64,
    /// Ends the job when it is set.
    pub stop: Arc<AtomicBool>,
    /// What is to be low, or high.
    pub objective: Objective,
    /// Variables of all servers; those of a setting go before them.
    pub environment: Variables,
    /// Are files of findings written, which list what there is no room for?
    pub has_lists: bool,
    /// Whose certificates of a server that runs already are believed.
    pub trust: Trust,
    /// Is shown each step as soon as it is over.
    pub watch: Watch,
}
