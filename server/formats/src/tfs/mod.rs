//! TensorFlow Serving's REST API: `:predict` bodies in row and column form, `:classify` and `:regress` bodies
//! of examples, the state of versions, and metadata. Source: <https://www.tensorflow.org/tfx/serving/api_rest>.

mod definitions;
mod describe;
mod example_error;
mod examples;
mod predict;
mod results;
mod serialized;
mod sharing;
pub mod types;

pub use crate::shapes::with_scalars;
pub use describe::{VersionState, VersionStatus, metadata, status};
pub use example_error::ExampleError;
pub use examples::{Column, Columns, Unfinished, decode_examples};
pub use predict::{Form, Method, decode_predict, encode, read_predict};
pub use results::{Classes, Results, Scored, encode_results, regressions};
pub use serialized::{Examples, input_of, takes_serialized};
pub use sharing::Sharing;

#[cfg(test)]
mod example_tests;
#[cfg(test)]
mod tests;
