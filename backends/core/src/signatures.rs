//! The signatures of a model whose file has names for several.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ModelSpec;

/// The signatures of a file that has names for them: inputs and outputs that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Signatures {
    /// The name of the default: the one that [`Model::spec`](crate::Model::spec) is of.
    pub default: Arc<str>,
    /// As [`NamedSpec::method`], of the default.
    pub default_method: Option<Arc<str>>,
    /// The others that can be run. [`Batch::signature`](crate::Batch::signature) is 1 for the first of them.
    pub others: Vec<NamedSpec>,
    /// Those that cannot be run, each with the reason.
    pub unusable: Vec<(Arc<str>, String)>,
    /// All of them, as the message `SignatureDefMap` of TensorFlow Serving.
    pub definitions: Bytes,
}

/// A signature that requests may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSpec {
    /// Its name.
    pub name: Arc<str>,
    /// The only method of TensorFlow Serving that may run it, by the name that the file gives it, as
    /// `tensorflow/serving/classify`; `None` where names of methods are not compared.
    pub method: Option<Arc<str>>,
    /// Its inputs and outputs.
    pub spec: ModelSpec,
    /// As [`crate::Model::allows_trial_runs`].
    pub allows_trial_runs: bool,
}
