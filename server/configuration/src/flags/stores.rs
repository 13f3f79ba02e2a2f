//! Model repositories in object stores: settings.

use super::{Setting, value};

const SECTION: &str = "Object stores";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "model-repository-cache-dir", "", "Directory for local copies of models from s3://, gs:// and as:// repositories; what has not changed there is not fetched again. TRITON_AWS_MOUNT_DIRECTORY and the like go before it. Default: muster-models-<user> in the directory for temporary files"),
    value(SECTION, "store-anonymous", "false", "Do not sign requests to object stores, for buckets that anyone may read"),
];
