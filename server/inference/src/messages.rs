//! The openings of errors that Triton's clients recognise by their words: programs and test suites compare the
//! beginning of a text, or look for a part of it. Each opening stands here once. What follows it is this server's own.

use std::fmt::Display;

use backend::SizeMismatch;

/// Of a load or unload by request where the control mode forbids it.
pub const EXPLICIT_CONTROL_ONLY: &str =
    "explicit model load / unload is not allowed if polling is enabled";

/// Of a request that waited longer than its queue policy allows.
pub const QUEUE_TIMEOUT: &str = "Request timeout expired";

/// Of a request whose own deadline has passed. Clients of gRPC say the same where they notice first.
pub const DEADLINE_EXCEEDED: &str = "Deadline Exceeded";

/// Of classes of an output with too many elements.
pub const CLASSES_TOO_LARGE: &str = "classification output tensor too large";

/// Of the requests of a sequence that waited longer for a place than one of them allows.
pub const SEQUENCE_TIMEOUT: &str = "timeout of the corresponding sequence has been expired";

/// Of a model whose name is in two repositories.
pub const APPEARS_TWICE: &str = "model appears in two or more repositories";

/// Of a shared memory region that cannot be registered.
pub const REGISTER_REGION: &str = "failed to register shared memory region";

/// Of a change of `trace_file`.
pub const TRACE_FILE: &str = "trace file location can not be updated through network protocol";

/// Of a change of `log_file`.
pub const LOG_FILE: &str = "log file location can not be updated through network protocol";

/// Of a body that is no JSON, where Triton takes JSON.
pub const NO_JSON: &str = "failed to parse the request JSON buffer";

/// Of a question for the models of the repository that does not say yes or no.
pub const READY_IS_NO_BOOLEAN: &str = "Invalid value for 'ready': expected a boolean";

/// Of what a client says of a region of shared memory that cannot be.
pub const INVALID_ARGUMENTS: &str = "invalid args";

/// Of a request to a model that may give any number of answers, at an address that takes one of each.
pub fn takes_one_answer(address: &str) -> String {
    format!("{address} doesn't support models with decoupled transaction policy")
}

/// Of a shared memory region whose key names no object.
pub fn invalid_key(region: &str, key: &str) -> String {
    format!("cannot register shared memory region '{region}' - invalid shm key '{key}'")
}

/// Of classes of an output whose type has none.
pub fn no_classes(dtype: impl Display) -> String {
    format!("class result not available for output due to unsupported type '{dtype}'")
}

/// Of a part of a shared memory region whose end is no number.
pub fn region_overflow(byte_size: u64, offset: u64) -> String {
    format!("Integer overflow detected: byte_size ({byte_size}) + offset ({offset})")
}

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
    match version {
        Some(_) => {
            format!("Request for unknown model: {} is not at ready state", quoted(model, version))
        }
        None => no_available_versions(model),
    }
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

/// Of a request without all the inputs that the model needs: it has `most` inputs, of which `required` are not
/// optional.
pub fn inputs_missing<'a>(
    required: usize,
    most: usize,
    model: &str,
    given: impl Iterator<Item = &'a str>,
    missing: impl Iterator<Item = &'a str>,
) -> String {
    let given: Vec<String> = given.map(|it| format!("'{it}'")).collect();
    let missing: Vec<String> = missing.map(|it| format!("'{it}'")).collect();
    let count = given.len();
    let expected = match required == most {
        true => format!("expected {most} inputs but got {count} inputs"),
        false => {
            format!(
                "expected number of inputs between {required} and {most} but got {count} inputs"
            )
        }
    };
    format!(
        "{expected} for model '{model}'. Got input(s) [{}], but missing required input(s) [{}]. \
         Please provide all required input(s).",
        given.join(","),
        missing.join(",")
    )
}

/// Of an input whose data does not fit its data type and shape.
pub fn size_mismatch(input: &str, model: &str, mismatch: &SizeMismatch) -> String {
    match mismatch {
        SizeMismatch::Overflow(shape) if shape.elements().is_none() => format!(
            "input '{input}': the shape {shape} causes total element count to exceed maximum size of {}",
            usize::MAX
        ),
        SizeMismatch::Overflow(shape) => {
            format!("byte size overflow for input '{input}': the shape {shape}")
        }
        SizeMismatch::Length { dtype, shape, expected, given } => {
            let wrong = wrong_byte_size(input, model, *expected as u64, *given as u64);
            format!("{wrong}; it is {dtype} of shape {shape}")
        }
        SizeMismatch::Elements { expected, given, .. } if given < expected => format!(
            "expected {expected} string elements for inference input '{input}' for model '{model}', got {given}"
        ),
        SizeMismatch::Elements { expected, given, .. } => format!(
            "unexpected number of string elements {given} for inference input '{input}' for model '{model}', \
             expecting {expected}"
        ),
        SizeMismatch::Prefix { .. } => format!("input '{input}': {mismatch}"),
    }
}

/// Of an input with another number of bytes than its data type and shape call for.
pub fn wrong_byte_size(input: &str, model: &str, expected: u64, given: u64) -> String {
    format!(
        "input byte size mismatch for input '{input}' for model '{model}'. Expected {expected}, got {given}"
    )
}

/// Of an input over gRPC that has contents of its own in a request with raw contents.
pub fn two_contents(input: &str, model: &str) -> String {
    format!(
        "contents field must not be specified when using raw_input_contents for '{input}' for model '{model}'"
    )
}

/// Of JSON data with another number of elements than the shape beside it.
pub const WRONG_COUNT: &str =
    "Unable to parse 'data': Shape does not match true shape of 'data' field";

/// Of JSON that is nested too deeply.
pub fn nested_too_deeply(most: usize) -> String {
    format!("JSON nesting depth exceeds maximum allowed limit ({most})")
}

/// Of a raw request to a model with several inputs.
pub fn raw_inputs(inputs: usize, model: &str) -> String {
    format!(
        "Raw request must only have 1 input (found 1) to be deduced but got {inputs} inputs in '{model}' model \
         configuration"
    )
}

/// Of a raw request whose shape has more than one open dimension.
pub fn raw_open_dimensions(input: &str) -> String {
    format!(
        "The shape of the raw input '{input}' can not be deduced because there are more than one variable-sized \
         dimension"
    )
}

/// Of a raw request to an input of several strings.
pub fn raw_strings(input: &str) -> String {
    format!("For BYTE datatype raw input '{input}', the model must have input shape [1]")
}

/// Of a JSON value of another type than the one of that name.
pub fn wrong_json(expected: &str) -> String {
    format!("attempt to access JSON non-{expected} as {expected}")
}

/// Of a parameter whose value is no string, number or boolean.
pub fn parameter_type(name: &str) -> String {
    format!("parameter '{name}' has invalid type")
}

/// Of trace settings of a model that does not exist.
pub fn no_traced_model(model: &str) -> String {
    format!("Request for unknown model : {model}")
}

/// Of a body above the limit.
pub fn body_too_large(given: u64, limit: u64) -> String {
    format!("the body of {given} bytes exceeds the maximum allowed value of {limit} bytes")
}

/// Of a shared memory object whose key is kept for the server.
pub fn reserved_key(region: &str, key: &str, prefix: &str) -> String {
    format!(
        "cannot register shared memory region '{region}' with key '{key}' as the key contains the reserved prefix \
         '{prefix}'"
    )
}

/// Of an input with more rows than the model's configuration allows.
pub fn too_many_rows(most: usize, model: &str) -> String {
    format!("inference request batch-size must be <= {most} for '{model}'")
}

/// Of a request of several rows to a model that takes sequences.
pub fn sequence_rows(model: &str) -> String {
    format!(
        "inference request to model '{model}' must specify batch-size 1 due to requirements of sequence batcher"
    )
}

/// Of a request without a sequence to a model that takes sequences.
pub fn no_sequence(model: &str) -> String {
    format!(
        "inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
    )
}

/// Of a request of a sequence that is not open, and does not begin it.
pub fn no_sequence_start(sequence: impl Display, model: &str) -> String {
    format!(
        "inference request for sequence {sequence} to model '{model}' must specify the START flag on the first \
         request of the sequence"
    )
}

/// Of what failed in a member of an ensemble.
pub fn in_ensemble(ensemble: &str, error: impl Display) -> String {
    format!("in ensemble '{ensemble}', {error}")
}

/// Of an input with another number of rows than those before it.
pub fn rows_differ(input: &str, model: &str) -> String {
    format!("input '{input}' batch size does not match other inputs for '{model}'")
}

/// Of an input that a request gives twice.
pub fn input_exists(input: &str) -> String {
    format!("input '{input}' already exists in request")
}

/// Of an output that a request asks for twice. Releases of Triton differ in their words: these are both.
pub fn output_exists(output: &str) -> String {
    format!(
        "output '{output}' already exists in request: Duplicate output name '{output}' is not allowed in a request"
    )
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

/// Of a model that is to be loaded and has no name.
pub const NO_MODEL_NAME: &str = "Model name cannot be empty. Please enter a valid name to deploy.";

/// Of a model that is to be loaded, whose name is a path.
pub fn name_of_a_path(name: &str) -> String {
    format!("invalid model name '{name}', model name must not contain path traversal characters")
}

/// Of a server whose clients may register no shared memory.
pub const CLIENT_MEMORY_IS_OFF: &str =
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";

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

#[cfg(test)]
mod tests {
    use backend::{DataType, Shape, Tensor};
    use bytes::Bytes;

    use super::*;

    #[test]
    fn data_that_does_not_fit_is_described_as_triton_does() {
        let said = |dtype, dims: &[usize], data: &'static [u8]| {
            let tensor = Tensor::new(dtype, Shape::new(dims), Bytes::from_static(data));
            size_mismatch("INPUT0", "m", &tensor.unwrap_err())
        };
        let two = b"\x01\0\0\0a\x01\0\0\0b";
        let begins = |text: String, opening: &str| assert!(text.starts_with(opening), "{text}");
        begins(
            said(DataType::Fp32, &[2], &[0; 9]),
            "input byte size mismatch for input 'INPUT0' for model 'm'. Expected 8, got 9",
        );
        begins(
            said(DataType::Bytes, &[3], two),
            "expected 3 string elements for inference input 'INPUT0' for model 'm', got 2",
        );
        begins(
            said(DataType::Bytes, &[1], two),
            "unexpected number of string elements 2 for inference input 'INPUT0' for model 'm', expecting 1",
        );
        begins(
            said(DataType::Fp32, &[4, (1 << 60) + 2], &[]),
            "byte size overflow for input 'INPUT0'",
        );
        assert!(
            said(DataType::Fp32, &[16, (1 << 60) + 2], &[])
                .contains("causes total element count to exceed maximum size of")
        );
    }

    #[test]
    fn missing_inputs_are_listed_beside_those_that_came() {
        let said =
            |required| inputs_missing(required, 3, "m", ["a"].into_iter(), ["b", "c"].into_iter());
        let rest = "for model 'm'. Got input(s) ['a'], but missing required input(s) ['b','c']. \
                    Please provide all required input(s).";
        assert_eq!(said(3), format!("expected 3 inputs but got 1 inputs {rest}"));
        assert_eq!(
            said(2),
            format!("expected number of inputs between 2 and 3 but got 1 inputs {rest}")
        );
    }
}
