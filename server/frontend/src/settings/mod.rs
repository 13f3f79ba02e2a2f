//! Settings of the ports. Each file has the settings of one part, its flags, and the code that reads them.

pub mod access;
pub mod aws;
pub mod clients;
pub mod emf;
pub mod grpc;
pub mod hosting;
pub mod limits;
pub mod listeners;
pub mod sagemaker;
pub mod sessions;
pub mod tls;
pub mod vertex;
pub mod xgboost;

pub use access::{AccessSettings, WireAccess};
pub use aws::{AsyncInvocations, AwsFacade, ObjectsAt};
pub use clients::ClientSettings;
pub use emf::EmfSettings;
pub use grpc::{Compression, ConnectionAge, GrpcOptions, Keepalive};
pub use hosting::{HostingSettings, PingMode};
pub use limits::{BodyPace, LimitSettings};
pub use listeners::Listeners;
pub use sagemaker::{SageMakerSettings, Vendor};
pub use sessions::SessionSettings;
pub use tls::{HttpTls, PemFile, TlsFiles, TlsPorts};
pub use vertex::VertexAi;
