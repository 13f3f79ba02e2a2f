//! A load generator for inference servers over HTTP/1.1 and gRPC, with or without TLS, that costs far less processor
//! time per request than the servers it measures.
//!
//! A [`Plan`] says what is sent to a [`Target`] and how; [`Plan::run`] drives it from the calling thread
//! over non-blocking sockets and gives a [`Report`]. [`compare`] runs two plans in interleaved blocks and
//! gives ratios with intervals.
//!
//! Two loops, because they answer different questions. In the *closed* loop each connection sends its next request when
//! the reply has been read: it finds a server's capacity and hides its stalls, since a server that stands still is sent
//! nothing. In the *open* loop requests are due at times that the server has no say in. Latency counts from the moment
//! a request was due, also while it waits for a free connection: it shows what users see.
//!
//! The library speaks only the wire: it shares no code with any server, but for what says which machine this is.
#![forbid(unsafe_code)]

pub mod cli;

pub mod answers;
mod arrivals;
mod check;
mod compare;
mod connection;
mod content;
mod data;
mod driver;
mod error;
mod export;
mod failures;
mod fetch;
mod files;
mod format;
mod gpu;
mod grpc;
mod hpack;
mod http2;
mod interval;
mod kserve;
mod limit;
mod listener;
mod load_args;
mod made_up;
mod media;
mod numbers;
mod option_values;
mod outputs;
pub mod page;
mod plan;
pub mod predict;
mod progress;
mod random;
mod reference;
mod reply;
mod report;
mod request;
mod same_outputs;
mod series;
mod slot;
mod stated;
mod stream;
mod tally;
mod target;
mod texts;
mod tfs;
mod timer;
mod tls;
mod traffic;
mod trust;
mod usage;

pub use check::{
    Check, CheckedReply, Critic, FirstWrong, Judge, WrongReply, body_hash, is_inference,
};
pub use compare::{Blocks, Comparison, Ratio, Typical, compare};
pub use data::{DataType, Fill, Input, UnknownDatatype};
pub use error::Error;
pub use export::{write_csv, write_histograms, write_json};
pub use failures::{Failures, FirstBad};
pub use fetch::metadata;
pub use grpc::{grpc_raw_outputs, kserve_grpc};
pub use interval::{GpuUsage, Interval, Latency, Usage};
pub use kserve::{inputs_from_metadata, invocations, json_body, kserve_binary, kserve_json};
pub use limit::{Bend, Limit, Percentile, Threshold, find_limit};
pub use load_args::{PhasesArg, StairsArg};
pub use made_up::MadeUp;
pub use option_values::{OptionError, share};
pub use plan::{Arrivals, Enough, Load, Plan};
pub use progress::Progress;
pub use reference::ask;
pub use report::{Cpu, Report, ServerUsage};
pub use request::{Method, Request};
pub use stated::{Server, Stated, bodies_in_words, server_of};

pub use target::Target;
pub use texts::TextRoute;
pub use traffic::{Phase, Stairs, Traffic};
pub use trust::Trust;
