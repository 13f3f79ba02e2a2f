//! Settings of the addresses of hosting platforms. Each file has the settings of one part, its flags, and the code that
//! reads them.

pub mod answers;
pub mod aws;
pub mod emf;
pub mod sagemaker;
pub mod sessions;
pub mod xgboost;

pub use answers::{HostingSettings, PingMode};
pub use aws::{AsyncInvocations, AwsFacade, ObjectsAt};
pub use emf::EmfSettings;
pub use sagemaker::{SageMakerSettings, Vendor};
pub use sessions::SessionSettings;
