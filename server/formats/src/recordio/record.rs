//! The messages inside the frames: types generated from `proto/aialgs_record.proto`.

// The comments of the definition are the documentation; not every field needs one.
#![allow(missing_docs, clippy::all)]

include!("../../../proto/generated/recordio/aialgs.data.rs");
