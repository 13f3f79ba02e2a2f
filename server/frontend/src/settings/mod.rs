//! Settings of the ports. Each file has the settings of one part, its flags, and the code that reads them.

pub mod access;
pub mod clients;
pub mod grpc;
pub mod limits;
pub mod listeners;
pub mod tls;

pub use access::{AccessSettings, WireAccess};
pub use clients::ClientSettings;
pub use grpc::{Compression, ConnectionAge, GrpcOptions, Keepalive};
pub use limits::{BodyPace, LimitSettings, Timeouts};
pub use listeners::Listeners;
pub use tls::{HttpTls, PemFile, TlsFiles, TlsPorts};
