//! An inference request whose body begins with JSON. The order of keys does not matter; where `data` comes
//! last, as clients write it, everything is read in one pass.

use std::{ops::Range, sync::Arc};

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::Bytes;
use smallvec::SmallVec;

use super::{
    format::{
        DecodeError, HEADER_LENGTH, OutputFormat, ReplyFormat, header_beyond_body, suggestion,
    },
    parameters::Parameters,
    shared::{RegionKeys, SharedInput, SharedParts},
};
use crate::{
    booleans::check_booleans,
    elements::TensorBuilder,
    json::{BytesForm, JsonReader, Mark, Token},
    medium,
    number::Excerpt,
};
use inference::{
    error::Error,
    grant::Grant,
    messages,
    request::InferenceRequest,
    signature::{Port, Signature},
};

/// Where the data of each input stands as text; `None` of an input whose data do not.
pub(super) type Texts = SmallVec<[Option<Range<usize>>; 2]>;

/// How deep in arrays and objects the data of inputs are.
pub(super) const DATA_DEPTH: usize = 3;

pub(super) fn decode(
    signature: &Signature,
    header_length: Option<usize>,
    body: Bytes,
    grant: &Grant,
) -> Result<(InferenceRequest, ReplyFormat, Texts), DecodeError> {
    let given = body.len();
    let length = header_length.unwrap_or(given);
    if length > given {
        return Err(DecodeError { id: None, error: header_beyond_body(length, given) });
    }
    let mut header = body;
    let tail = header.split_off(length);
    let mut decoding = Decoding {
        signature,
        has_tail: header_length.is_some(),
        tail,
        request: InferenceRequest::default(),
        parameters: Parameters::of(signature, grant),
        grant,
        outputs: Vec::new(),
        shared: None,
        texts: Texts::new(),
    };
    match decoding.run(&header) {
        Ok(()) => Ok(decoding.finish()),
        Err(error) => Err(DecodeError { id: decoding.request.id, error }),
    }
}

/// What has been read so far.
struct Decoding<'s> {
    signature: &'s Signature,
    /// Did the client say where the JSON ends?
    has_tail: bool,
    /// Binary tensors that belong to inputs still to come.
    tail: Bytes,
    request: InferenceRequest,
    parameters: Parameters<'s>,
    grant: &'s Grant,
    outputs: Vec<RequestedOutput>,
    /// Made when the first input or output in shared memory is met.
    shared: Option<Box<SharedParts>>,
    /// Those of the inputs of `request`.
    texts: Texts,
}

struct RequestedOutput {
    name: Arc<str>,
    /// `None`: the request's default, which may stand behind the outputs.
    binary: Option<bool>,
    classes: Option<usize>,
    shared: bool,
}

impl<'s> Decoding<'s> {
    fn run(&mut self, header: &[u8]) -> Result<(), Error> {
        let mut inputs = false;
        JsonReader::request(header, self.grant, |reader| {
            reader.takes_missing(self.signature.takes_missing);
            reader.object(|reader, key| match key.as_ref() {
                "id" => optional(reader, |reader| {
                    let id = reader.string()?;
                    self.request.id = (!id.is_empty()).then(|| reader.shared(&id)).transpose()?;
                    Ok(())
                }),
                "parameters" => optional(reader, |reader| {
                    reader.object(|reader, key| self.parameters.read(reader, &key))
                }),
                "inputs" => {
                    inputs = true;
                    reader.array(|reader, _| self.input(reader))
                }
                "outputs" => {
                    optional(reader, |reader| reader.array(|reader, _| self.output(reader)))
                }
                // KServe's client repeats here what the address says.
                "model_name" | "model_version" => reader.skip_value(),
                _ => Err(unknown_key(reader, &key, &["id", "parameters", "inputs", "outputs"])),
            })
        })?;
        if !inputs {
            let problem = "expected the key 'inputs', found none".to_owned();
            return Err(Error::InvalidRequest(problem));
        }
        if !self.tail.is_empty() {
            return Err(Error::InvalidRequest(format!(
                "{} bytes are left in the body behind the JSON and the binary inputs",
                self.tail.len()
            )));
        }
        Ok(())
    }

    fn finish(self) -> (InferenceRequest, ReplyFormat, Texts) {
        let Decoding { mut request, parameters, outputs, shared, texts, .. } = self;
        let binary_by_default = parameters.give_to(&mut request);
        request.outputs = outputs.iter().map(|it| it.name.clone()).collect();
        let format = |it: RequestedOutput| {
            let binary = it.binary.unwrap_or(binary_by_default) && !it.shared;
            (it.name, OutputFormat { binary, classes: it.classes, shared: it.shared })
        };
        let outputs = outputs.into_iter().map(format).collect();
        (request, ReplyFormat { binary_by_default, outputs, shared }, texts)
    }

    fn input(&mut self, reader: &mut JsonReader<'_>) -> Result<(), Error> {
        let place = reader.place();
        let mut entry = InputEntry::default();
        reader.object(|reader, key| {
            match key.as_ref() {
                "name" => entry.port = Some(self.input_port(reader)?),
                "shape" => entry.shape = Some(shape(reader)?),
                "datatype" => entry.dtype = Some(datatype(reader)?),
                "parameters" => optional(reader, |reader| entry.parameters(reader))?,
                "data" => entry.data(reader)?,
                _ => {
                    let known = ["name", "shape", "datatype", "parameters", "data"];
                    return Err(unknown_key(reader, &key, &known));
                }
            }
            Ok(())
        })?;
        let missing = |what: String| reader.error_from(place, format_args!("expected {what}"));
        let port = entry.port.ok_or_else(|| missing("the key 'name', found none".to_owned()))?;
        let dtype = entry.dtype.ok_or_else(|| {
            missing(format!("the key 'datatype' of input '{}': \"{}\"", port.name, port.dtype))
        })?;
        if dtype != port.dtype {
            return Err(Error::InvalidRequest(messages::wrong_data_type(
                &port.name,
                dtype,
                &self.signature.model,
                port.dtype,
            )));
        }
        let shape = entry.shape.take().ok_or_else(|| {
            let expected = self.signature.shape_text(port);
            missing(format!("the key 'shape' of input '{}', which is {expected}", port.name))
        })?;
        if let (Some(part), None, None) =
            (entry.region.part(&port.name)?, &entry.data, entry.binary_size)
        {
            let input = SharedInput::new(port, shape, part, &self.signature.model)?;
            self.shared.get_or_insert_default().inputs.push(input);
            return Ok(());
        }
        let text = entry.text.take();
        let tensor = self.tensor(reader, port, shape, entry)?;
        self.texts.push(text);
        self.request.inputs.push(NamedTensor { name: port.name.clone(), tensor });
        Ok(())
    }

    /// The tensor of an input whose entry has been read.
    fn tensor<'a>(
        &mut self,
        reader: &JsonReader<'a>,
        port: &Port,
        shape: Shape,
        entry: InputEntry<'a, '_>,
    ) -> Result<Tensor, Error> {
        let problem = |problem: String| Error::input(&*port.name, problem);
        let mismatch = |error: backend::SizeMismatch| {
            let model = &self.signature.model;
            Error::InvalidRequest(messages::size_mismatch(&port.name, model, &error))
        };
        let elements = shape.elements().ok_or(backend::SizeMismatch::Overflow(shape.clone()));
        let elements = elements.map_err(mismatch)?;
        if port.dtype.size().is_some_and(|size| elements.checked_mul(size).is_none()) {
            return Err(mismatch(backend::SizeMismatch::Overflow(shape)));
        }
        let builder = match (entry.data, entry.binary_size, entry.region.is_named()) {
            (None, Some(size), false) => {
                let data = self.take_binary(port, size)?;
                check_booleans(&port.name, port.dtype, &data)?;
                return Tensor::new(port.dtype, shape, data).map_err(mismatch);
            }
            (Some(Data::Read(builder)), None, false) => builder,
            (Some(Data::Later(place)), None, false) => {
                let mut builder = TensorBuilder::of(port, Some(elements), self.grant);
                reader.revisit(place, |it| it.elements(&mut builder, BytesForm::Text))?;
                builder
            }
            (None, None, false) if elements == 0 => {
                TensorBuilder::new(port.dtype, Some(0), self.grant)
            }
            (data, binary, shared) => {
                let sources = [
                    ("data", data.is_some()),
                    ("binary_data_size", binary.is_some()),
                    ("shared_memory_region", shared),
                ];
                let given = sources.iter().filter(|it| it.1).map(|it| it.0);
                let given: Vec<&str> = given.collect();
                let given = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
                return Err(problem(format!(
                    "expected one of data, binary_data_size, shared_memory_region; given {given}"
                )));
            }
        };
        if builder.count() != elements {
            let given = builder.count();
            return Err(Error::InvalidRequest(format!(
                "{}: input '{}', shape {shape} has {elements} elements, data has {given}",
                messages::WRONG_COUNT,
                port.name
            )));
        }
        let tensor = builder.finish(shape).map_err(mismatch)?;
        if self.signature.takes_files(&port.name)
            && let Some(at) = tensor.strings().position(|it| medium::of_bytes(it).is_none())
        {
            return Err(problem(format!(
                "element {at} is a string of JSON, which cannot hold a file; send the file as binary data (the \
                 parameter binary_data_size and the header {HEADER_LENGTH}), or as base64 in 'inputs' of POST \
                 /v2/models/{}/pipeline",
                self.signature.model
            )));
        }
        Ok(tensor)
    }

    fn take_binary(&mut self, port: &Port, size: usize) -> Result<Bytes, Error> {
        let left = self.tail.len();
        if size <= left {
            return Ok(self.tail.split_to(size));
        }
        let hint = if self.has_tail { String::new() } else { format!(" (no {HEADER_LENGTH})") };
        let problem = format!("binary_data_size is {size}, the body has {left} bytes for it{hint}");
        Err(Error::input(&*port.name, problem))
    }

    /// Reads the name of an input that has not been given yet.
    fn input_port(&self, reader: &mut JsonReader<'_>) -> Result<&'s Port, Error> {
        let name = reader.string()?;
        let model = &self.signature.model;
        let Some(port) = self.signature.input(&name) else {
            let known = suggestion(&name, self.signature.inputs.iter().map(|it| &*it.name));
            let unexpected = messages::unexpected_input(Excerpt(&name), model);
            return Err(Error::InvalidRequest(format!("{unexpected}{known}")));
        };
        let mut shared = self.shared.iter().flat_map(|it| &it.inputs);
        if self.request.inputs.iter().any(|it| it.name == port.name)
            || shared.any(|it| *it.name() == port.name)
        {
            return Err(Error::InvalidRequest(messages::input_exists(&name)));
        }
        Ok(port)
    }

    fn output(&mut self, reader: &mut JsonReader<'_>) -> Result<(), Error> {
        let place = reader.place();
        let mut name = None;
        let (mut binary, mut classes, mut region) = (None, None, RegionKeys::default());
        reader.object(|reader, key| match key.as_ref() {
            "name" => {
                name = Some(self.output_name(reader)?);
                Ok(())
            }
            "parameters" => optional(reader, |reader| {
                reader.object(|reader, key| {
                    match key.as_ref() {
                        "binary_data" => binary = Some(reader.bool()?),
                        "classification" => classes = Some(reader.usize()?).filter(|&it| it > 0),
                        _ => region.read(reader, &key)?,
                    }
                    Ok(())
                })
            }),
            _ => Err(unknown_key(reader, &key, &["name", "parameters"])),
        })?;
        let missing = || reader.error_from(place, "expected the key 'name', found none");
        let name = name.ok_or_else(missing)?;
        let part = region.part(&name)?;
        let other = [("classification", classes.is_some()), ("binary_data", binary == Some(true))];
        if let (Some(_), Some((other, _))) = (&part, other.iter().find(|it| it.1)) {
            return Err(Error::InvalidRequest(format!(
                "output '{name}': expected one of {other}, shared_memory_region; given both"
            )));
        }
        let shared = part.is_some();
        if let Some(part) = part {
            let parts = self.shared.get_or_insert_default();
            parts.outputs.push((name.clone(), part));
        }
        self.outputs.push(RequestedOutput { name, binary, classes, shared });
        Ok(())
    }

    /// Reads the name of an output that has not been asked for yet.
    fn output_name(&self, reader: &mut JsonReader<'_>) -> Result<Arc<str>, Error> {
        let name = reader.string()?;
        let model = &self.signature.model;
        let Some(port) = self.signature.output(&name) else {
            let known = suggestion(&name, self.signature.outputs.iter().map(|it| &*it.name));
            let unexpected = messages::unexpected_output(Excerpt(&name), model);
            return Err(Error::InvalidRequest(format!("{unexpected}{known}")));
        };
        if self.outputs.iter().any(|it| it.name == port.name) {
            return Err(Error::InvalidRequest(messages::output_exists(&name)));
        }
        Ok(port.name.clone())
    }
}

/// One element of `inputs`, as far as its keys have been read.
#[derive(Default)]
struct InputEntry<'a, 's> {
    port: Option<&'s Port>,
    shape: Option<Shape>,
    dtype: Option<DataType>,
    data: Option<Data<'a>>,
    /// Where they stand, if they have been read.
    text: Option<Range<usize>>,
    binary_size: Option<usize>,
    region: RegionKeys,
}

enum Data<'a> {
    Read(TensorBuilder<'a>),
    /// It came before something that is needed to read it.
    Later(Mark<'a>),
}

impl<'a> InputEntry<'a, '_> {
    fn data(&mut self, reader: &mut JsonReader<'a>) -> Result<(), Error> {
        let elements = self.shape.as_ref().and_then(Shape::elements);
        let known = self.port.is_some_and(|it| Some(it.dtype) == self.dtype);
        let grant = reader.grant();
        self.data = Some(match (self.dtype, elements) {
            (Some(dtype), Some(elements)) if known => {
                let mut builder = match self.port {
                    Some(port) => TensorBuilder::of(port, Some(elements), grant),
                    None => TensorBuilder::new(dtype, Some(elements), grant),
                };
                let start = reader.position();
                reader.elements(&mut builder, BytesForm::Text)?;
                self.text = Some(start..reader.position());
                Data::Read(builder)
            }
            _ => {
                let place = reader.mark();
                reader.skip_value()?;
                Data::Later(place)
            }
        });
        Ok(())
    }

    fn parameters(&mut self, reader: &mut JsonReader<'_>) -> Result<(), Error> {
        reader.object(|reader, key| {
            match key.as_ref() {
                "binary_data_size" => self.binary_size = Some(reader.usize()?),
                _ => self.region.read(reader, &key)?,
            }
            Ok(())
        })
    }
}

/// A value that may also be `null`, as some clients write what they leave out.
fn optional<'a>(
    reader: &mut JsonReader<'a>,
    read: impl FnOnce(&mut JsonReader<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    match reader.peek()? {
        Token::Null => reader.null(),
        _ => read(reader),
    }
}

/// Most dimensions of a shape: more than any model has.
const MOST_DIMS: usize = 64;

fn shape(reader: &mut JsonReader<'_>) -> Result<Shape, Error> {
    let mut dims = SmallVec::<[usize; 4]>::new();
    reader.array(|reader, at| {
        dims.push(reader.usize()?);
        match at < MOST_DIMS {
            true => Ok(()),
            false => Err(reader.error(format_args!("expected at most {MOST_DIMS} dimensions"))),
        }
    })?;
    Ok(Shape::new(&dims))
}

fn datatype(reader: &mut JsonReader<'_>) -> Result<DataType, Error> {
    let place = reader.place();
    let name = reader.string()?;
    DataType::from_name(&name).ok_or_else(|| {
        let known = suggestion(&name, DataType::ALL.iter().map(|it| it.name()));
        reader.error_from(place, format_args!("unknown datatype '{}'{known}", Excerpt(&name)))
    })
}

fn unknown_key(reader: &JsonReader<'_>, key: &str, known: &[&str]) -> Error {
    reader.error(format_args!("unknown key{}", suggestion(key, known.iter().copied())))
}
