//! From a model that was found to one that is ready: its engine, its instances, its scheduler.

pub(crate) mod checksum;
pub(crate) mod create_error;
pub(crate) mod ensemble;
pub(crate) mod extra_inputs;
pub(crate) mod files;
pub(crate) mod gpu_limit;
pub(crate) mod instances;
pub(crate) mod load_error;
pub(crate) mod load_log;
pub(crate) mod load_settings;
pub(crate) mod loader;
pub(crate) mod merging;
pub(crate) mod options;
pub(crate) mod pipeline;
pub(crate) mod placement;
pub(crate) mod planning;
pub(crate) mod proof;
pub(crate) mod queue_settings;
pub(crate) mod resize;
pub(crate) mod run_limit;
pub(crate) mod sample_rows;
pub(crate) mod scheduler;
pub(crate) mod sequence_settings;
pub(crate) mod strict_rows;
pub(crate) mod warmup;
