//! Which settings and which machine suit a model.
//!
//! A [`Job`] has the form of SageMaker's Inference Recommender. Each setting is a server of its own under a load that
//! grows; the load generator measures it, [`windows`] says what it carries, and [`ranking`] which one is the best.
#![forbid(unsafe_code)]

mod advanced_job;
mod ahead;
mod alike;
pub mod api;
mod arguments;
mod arn;
mod asked;
pub mod basis;
mod bench;
pub mod bottleneck;
pub mod cli;
mod cloudwatch;
mod control_server;
mod create_job;
mod default_job;
mod describe;
mod description;
mod difference;
mod error;
mod finding;
mod job;
pub mod job_folder;
mod job_of_arguments;
pub mod job_state;
pub mod journal;
pub mod left_out;
mod made_bodies;
pub mod means;
mod model_files;
mod page;
pub mod payload;
pub mod prices;
mod process;
pub mod ranking;
pub mod rejection;
mod rounds;
pub mod run;
pub mod search;
pub mod served;
pub mod setting;
pub mod shares;
pub mod step;
mod surroundings;
mod table;
mod tested;
pub mod trial;
mod variants;
mod verdict;
pub mod watch;
pub mod windows;
pub mod winner;
mod words;

pub use launch::cpus;

pub use error::{ArgumentError, Invalid};
pub use job::{Conditions, Configuration, Job, Kind};
