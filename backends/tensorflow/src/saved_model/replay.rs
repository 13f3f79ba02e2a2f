//! Requests that a SavedModel brings along, to be run before it serves: `tf_serving_warmup_requests` in `assets.extra`,
//! a file of records as TensorFlow Serving writes and reads them.

use std::{fmt, fs, io, path::Path};

use backend::{DataType, Shape, Tensor, encode_strings};

use super::{
    default::tensor_of,
    error::{Defect, SavedModelError},
    prediction_log::{Input, Request, request_of},
    records::records,
};

/// The file, in the folder of the SavedModel.
const FILE: &str = "assets.extra/tf_serving_warmup_requests";

/// Most records, as in TensorFlow Serving.
const MOST: usize = 1000;

/// Largest file: what is larger is no set of requests to warm up with.
const LARGEST: u64 = 1 << 30;

/// The input of signatures that take serialized examples.
const EXAMPLES: &str = "inputs";

/// A request of the file.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    /// Which record it is from, from 1.
    pub(crate) record: usize,
    /// The signature; `None` for the default.
    pub(crate) signature: Option<String>,
    pub(crate) inputs: Vec<(String, Tensor)>,
    /// The outputs that are asked for; none for all.
    pub(crate) outputs: Vec<String>,
}

/// The requests of the SavedModel in that folder, in their order; none where it has no such file.
///
/// # Errors
/// A file that cannot be read, a record that is damaged or of another kind, too many of them; the text has the file.
pub(crate) fn replays_of(folder: &Path) -> Result<Vec<Replay>, SavedModelError> {
    let path = folder.join(FILE);
    let refused = |problem: &dyn fmt::Display| SavedModelError::file(FILE, problem);
    let length = match fs::metadata(&path) {
        Ok(it) => it.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refused(&error)),
    };
    if LARGEST < length {
        return Err(refused(&format_args!("has {length} bytes; at most {LARGEST} are read")));
    }
    let file = backend::read_file(&path).map_err(|it| refused(&it))?;
    replays(&file).map_err(|it| refused(&it))
}

fn replays(file: &[u8]) -> Result<Vec<Replay>, Defect> {
    let mut replays = Vec::new();
    for (index, record) in records(file).enumerate() {
        let number = index + 1;
        if MOST < number {
            return Err(Defect::new(format_args!("has more than {MOST} records")));
        }
        let of_record = |it: Defect| it.within(format_args!("record {number}"));
        let request = request_of(record.map_err(of_record)?).map_err(of_record)?;
        replays.extend(replays_of_request(number, request).map_err(of_record)?);
    }
    Ok(replays)
}

fn replays_of_request(record: usize, request: Request) -> Result<Vec<Replay>, Defect> {
    match request {
        Request::Predict { signature, inputs, outputs } => {
            let inputs = inputs.iter().map(|(name, value)| {
                let tensor = tensor_of(value);
                let tensor =
                    tensor.map_err(|it| it.within(format_args!("has an input '{name}'")))?;
                Ok((name.clone(), tensor))
            });
            let inputs = inputs.collect::<Result<_, Defect>>()?;
            Ok(vec![Replay { record, signature, inputs, outputs }])
        }
        Request::Examples { signatures, input } => {
            let examples = examples(input)?;
            let replay = |signature| Replay {
                record,
                signature,
                inputs: vec![(EXAMPLES.to_owned(), examples.clone())],
                outputs: Vec::new(),
            };
            Ok(signatures.into_iter().map(replay).collect())
        }
    }
}

/// The serialized examples as an input.
fn examples(input: Input) -> Result<Tensor, Defect> {
    let examples = input.examples();
    if examples.is_empty() {
        return Err(Defect::new("has no examples"));
    }
    let shape = Shape::new(&[examples.len()]);
    Tensor::new(DataType::Bytes, shape, encode_strings(&examples)).map_err(Defect::new)
}
