//! The configuration as the file says it: types generated from `proto/model_config.proto`, in which a
//! field that was not given and one that was given as zero are the same, but for `max_batch_size`.

// The comments of the definition are the documentation; not every field needs one.
#![allow(missing_docs, clippy::all)]

include!("../../../proto/generated/model_config/inference.rs");
