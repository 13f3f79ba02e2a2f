//! The openings of errors that Triton's clients recognise by their words: programs and test suites compare the
//! beginning of a text, or look for a part of it. Each opening stands here once. What follows it is this server's own.

use std::fmt::Display;

/// Of a load or unload by request where the control mode forbids it.
pub const EXPLICIT_CONTROL_ONLY: &str =
    "explicit model load / unload is not allowed if polling is enabled";

/// Of a shared memory region that cannot be registered.
pub const REGISTER_REGION: &str = "failed to register shared memory region";

/// Of a change of `trace_file`.
pub const TRACE_FILE: &str = "trace file location can not be updated through network protocol";

/// Of a change of `log_file`.
pub const LOG_FILE: &str = "log file location can not be updated through network protocol";

/// Of a request whose restriction over HTTP is not met.
pub fn restricted_api(header: &str) -> String {
    format!("This API is restricted, expecting header '{header}'")
}

/// Of a call whose restriction over gRPC is not met.
pub fn restricted_protocol(header: &str) -> String {
    format!("This protocol is restricted, expecting header '{header}'")
}

/// Of a model, or a version of it, that does not exist.
pub fn not_found(model: &str, version: Option<u64>) -> String {
    format!("Request for unknown model: {} is not found", quoted(model, version))
}

/// Of a model without a version that serves.
pub fn no_available_versions(model: &str) -> String {
    format!("Request for unknown model: '{model}' has no available versions")
}

/// Of a model, or a version of it, that exists and cannot serve now.
pub fn not_ready(model: &str, version: Option<u64>) -> String {
    format!("Request for unknown model: {} is not at ready state", quoted(model, version))
}

/// Of statistics of a version that does not serve.
pub fn version_not_available(model: &str) -> String {
    format!("requested model version is not available for model '{model}'")
}

/// Of a load of a model that the repository does not have, or has no valid configuration for.
pub fn poll_failed(model: &str) -> String {
    format!("failed to load '{model}', failed to poll from model repository")
}

/// Of a load that its engine, its files or its members prevent.
pub fn load_failed(model: &str) -> String {
    format!("load failed for model '{model}'")
}

/// Of an input that the model does not have.
pub fn unexpected_input(input: impl Display, model: &str) -> String {
    format!("unexpected inference input '{input}' for model '{model}'")
}

/// Of an output that the model does not have.
pub fn unexpected_output(output: impl Display, model: &str) -> String {
    format!("unexpected inference output '{output}' for model '{model}'")
}

/// Of a request without all the inputs that the model needs.
pub fn inputs_missing(expected: usize, given: usize, model: &str) -> String {
    format!("expected {expected} inputs but got {given} inputs for model '{model}'")
}

/// Of an input with more rows than the model's configuration allows.
pub fn too_many_rows(most: usize, model: &str) -> String {
    format!("inference request batch-size must be <= {most} for '{model}'")
}

/// Of an input with another number of rows than those before it.
pub fn rows_differ(input: &str, model: &str) -> String {
    format!("input '{input}' batch size does not match other inputs for '{model}'")
}

/// Of an input that a request gives twice.
pub fn input_exists(input: &str) -> String {
    format!("input '{input}' already exists in request")
}

/// Of an output that a request asks for twice.
pub fn output_exists(output: &str) -> String {
    format!("output '{output}' already exists in request")
}

/// Of an input of another data type than the model's.
pub fn wrong_data_type(
    input: &str,
    given: impl Display,
    model: &str,
    expected: impl Display,
) -> String {
    format!(
        "inference input '{input}' data-type is '{given}', but model '{model}' expects '{expected}'"
    )
}

/// Of an input whose shape does not fit the model.
pub fn wrong_shape(
    input: &str,
    model: &str,
    expected: impl Display,
    given: impl Display,
) -> String {
    format!(
        "inference input '{input}': unexpected shape for input '{input}' for model '{model}'. \
             Expected {expected}, got {given}"
    )
}

/// Of a part of a region that begins outside of it.
pub fn region_offset(region: &str) -> String {
    format!("Invalid offset for shared memory region: '{region}'")
}

/// Of a part of a region that ends outside of it.
pub fn region_end(region: &str) -> String {
    format!("Invalid offset + byte size for shared memory region: '{region}'")
}

/// Of a name that is registered.
pub fn region_exists(region: &str) -> String {
    format!("shared memory region '{region}' already in manager")
}

/// Of a name that is not registered.
pub fn no_region(region: &str) -> String {
    format!("Unable to find shared memory region: '{region}'")
}

/// Of an object that cannot be opened.
pub fn no_object(key: &str) -> String {
    format!("Unable to open shared memory region: '{key}'")
}

/// A model, or a version of it, as Triton writes it.
fn quoted(model: &str, version: Option<u64>) -> String {
    match version {
        Some(version) => format!("'{model}' version {version}"),
        None => format!("'{model}'"),
    }
}
