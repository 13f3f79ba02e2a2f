//! The Vertex AI port: settings.

use super::{Setting, value};

const SECTION: &str = "Vertex AI";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "allow-vertex-ai", "", "Serve the two routes of Vertex AI. Default: true where AIP_MODE is PREDICTION; the other ports but the metrics port are then off unless they are asked for"),
    value(SECTION, "vertex-ai-address", "", "Address of the Vertex AI port. Default: the HTTP address"),
    value(SECTION, "vertex-ai-port", "8080", "The Vertex AI port"),
    value(SECTION, "vertex-ai-predict-route", "", "Where requests come by POST. Needed, and set by the platform as AIP_PREDICT_ROUTE"),
    value(SECTION, "vertex-ai-health-route", "", "Where readiness is asked by GET. Needed, and set by the platform as AIP_HEALTH_ROUTE"),
    value(SECTION, "vertex-ai-default-model", "", "The model that answers requests without a name. Default: the only one"),
];
