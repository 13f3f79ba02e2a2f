//! Why a setting cannot be recommended.

use serde::{Deserialize, Serialize};

use launch::StartError;

use crate::prices::PriceError;

/// Why a setting cannot be recommended, as a report says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
#[serde(transparent)]
pub struct Rejection(String);

impl Rejection {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Rejection {
        Rejection(reason.into())
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.0
    }
}

impl From<StartError> for Rejection {
    fn from(error: StartError) -> Rejection {
        Rejection(error.to_string())
    }
}

impl From<PriceError> for Rejection {
    fn from(error: PriceError) -> Rejection {
        Rejection(error.to_string())
    }
}

impl From<loadgen::Error> for Rejection {
    fn from(error: loadgen::Error) -> Rejection {
        Rejection(error.to_string())
    }
}
