//! Parses a `ModelInferRequest` without a copy: names and raw tensors point into the message, typed contents stay
//! encoded until their model is known. Pure.

use std::ops::Range;

use backend::DataType;
use bytes::Bytes;
use prost::encoding::{WireType, decode_varint};
use smallvec::SmallVec;

use super::parameters::{self, Parameters};
use frontend::grpc::{
    context::Names,
    wire::{self, Lists, Parts, WireProblem},
};
use inference::error::Error;

/// A `ModelInferRequest`.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// The name of the model.
    pub model: &'a str,
    /// The version of the model; empty for the highest.
    pub version: &'a str,
    /// The client's name for the request; may be empty.
    pub id: &'a str,
    /// The parameters of the request itself.
    pub parameters: Parameters<'a>,
    /// Its inputs.
    pub inputs: SmallVec<[Input<'a>; 2]>,
    /// The outputs that the client requests; none for all.
    pub outputs: SmallVec<[Output<'a>; 2]>,
    /// The data of the inputs without typed contents.
    pub raw: SmallVec<[Bytes; 2]>,
    parts: Parts,
}

/// The start of a `ModelInferRequest`: the model and the name of the request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Target<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// The version of the model; empty for the highest.
    pub version: &'a str,
    /// The client's name for the request; may be empty.
    pub id: &'a str,
}

impl<'a> Target<'a> {
    /// Parses the start of `message`, without a look into inputs and outputs.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the message is malformed.
    pub fn of(message: &'a Bytes) -> Result<Target<'a>, Error> {
        let mut target = Target::default();
        let read = target.read(message);
        read.map(|()| target).map_err(|problem| problem.error("ModelInferRequest"))
    }

    /// The target of a message that names it there, and has no name of its own; `None` where these are no texts.
    pub fn at(names: &Names, message: &'a [u8]) -> Option<Target<'a>> {
        let text = |at: &Range<usize>| str::from_utf8(message.get(at.clone())?).ok();
        Some(Target { model: text(&names.model)?, version: text(&names.version)?, id: "" })
    }

    /// Where `message`, in which its texts lie, names it.
    pub fn names(&self, message: &[u8]) -> Names {
        let place = |text: &str| {
            let start = text.as_ptr().addr().checked_sub(message.as_ptr().addr());
            start.filter(|_| !text.is_empty()).map_or(0..0, |it| it..it + text.len())
        };
        Names { model: place(self.model), version: place(self.version) }
    }

    /// Bytes of the fields at the start of a message, up to the first one that is no part of the target. All or only
    /// the first bytes of it are there; 0 where they do not name a model.
    pub fn length(start: &[u8]) -> usize {
        let mut length = 0;
        let mut names_model = false;
        let mut rest = start;
        while let Ok(Some((number @ 1..=3, kind))) = wire::field(&mut rest) {
            if wire::text(kind, &mut rest).is_err() {
                break;
            }
            names_model |= number == 1;
            length = start.len() - rest.len();
        }
        if names_model { length } else { 0 }
    }

    fn read(&mut self, mut rest: &'a [u8]) -> Result<(), WireProblem> {
        while let Some((number, kind)) = wire::field(&mut rest)? {
            match number {
                1 => self.model = wire::text(kind, &mut rest)?,
                2 => self.version = wire::text(kind, &mut rest)?,
                3 => self.id = wire::text(kind, &mut rest)?,
                _ => wire::skip(number, kind, &mut rest)?,
            }
        }
        Ok(())
    }
}

/// An `InferInputTensor`.
#[derive(Debug, Default)]
pub struct Input<'a> {
    /// Its name.
    pub name: &'a str,
    /// The name of its type.
    pub datatype: &'a str,
    /// Its dimensions.
    pub shape: SmallVec<[i64; 4]>,
    /// Its parameters: among others, its place in shared memory.
    pub parameters: Parameters<'a>,
    /// Encoded `InferTensorContents`, to be merged; empty where the message has none.
    pub contents: SmallVec<[Bytes; 1]>,
}

/// An `InferRequestedOutputTensor`.
#[derive(Debug, Default)]
pub struct Output<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its parameters: among others, its form.
    pub parameters: Parameters<'a>,
}

impl<'a> Request<'a> {
    /// Parses `message`.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the message is malformed, or has too many parts.
    pub fn of(message: &'a Bytes) -> Result<Request<'a>, Error> {
        let mut request = Request::default();
        let read = request.read(message);
        read.map(|()| request).map_err(|problem| problem.error("ModelInferRequest"))
    }

    fn read(&mut self, message: &'a Bytes) -> Result<(), WireProblem> {
        let mut rest: &'a [u8] = message;
        while let Some((number, kind)) = wire::field(&mut rest)? {
            match number {
                1 => self.model = wire::text(kind, &mut rest)?,
                2 => self.version = wire::text(kind, &mut rest)?,
                3 => self.id = wire::text(kind, &mut rest)?,
                4 => parameters::read(&mut self.parameters, kind, &mut rest)?,
                5 => {
                    let input = self.input(message, wire::delimited(kind, &mut rest)?)?;
                    self.inputs.push(input);
                }
                6 => {
                    let output = self.output(wire::delimited(kind, &mut rest)?)?;
                    self.outputs.push(output);
                }
                7 => self.raw.push(message.slice_ref(wire::delimited(kind, &mut rest)?)),
                _ => wire::skip(number, kind, &mut rest)?,
            }
            self.count(1)?;
        }
        Ok(())
    }

    fn input(&mut self, message: &Bytes, mut rest: &'a [u8]) -> Result<Input<'a>, WireProblem> {
        let mut input = Input::default();
        while let Some((number, kind)) = wire::field(&mut rest)? {
            match number {
                1 => input.name = wire::text(kind, &mut rest)?,
                2 => input.datatype = wire::text(kind, &mut rest)?,
                3 if kind == WireType::Varint => {
                    input.shape.push(decode_varint(&mut rest)?.cast_signed());
                }
                3 => {
                    let mut packed = wire::delimited(kind, &mut rest)?;
                    while !packed.is_empty() {
                        input.shape.push(decode_varint(&mut packed)?.cast_signed());
                        self.count(1)?;
                    }
                }
                4 => parameters::read(&mut input.parameters, kind, &mut rest)?,
                5 => input.contents.push(message.slice_ref(wire::delimited(kind, &mut rest)?)),
                _ => wire::skip(number, kind, &mut rest)?,
            }
            self.count(1)?;
        }
        Ok(input)
    }

    fn output(&mut self, mut rest: &'a [u8]) -> Result<Output<'a>, WireProblem> {
        let mut output = Output::default();
        while let Some((number, kind)) = wire::field(&mut rest)? {
            match number {
                1 => output.name = wire::text(kind, &mut rest)?,
                2 => parameters::read(&mut output.parameters, kind, &mut rest)?,
                _ => wire::skip(number, kind, &mut rest)?,
            }
            self.count(1)?;
        }
        Ok(output)
    }

    fn count(&mut self, parts: usize) -> Result<(), WireProblem> {
        self.parts.count(parts)
    }

    /// The model and the name of the request.
    pub fn target(&self) -> Target<'a> {
        Target { model: self.model, version: self.version, id: self.id }
    }

    /// Bytes of memory that decoding takes at most, besides the message. An element of typed contents may be sixteen
    /// times as large as on the wire, and a growing list has room for twice its elements. The id and the texts of
    /// parameters are copied.
    pub fn bound(&self) -> usize {
        let contents = self.inputs.iter().flat_map(|it| &it.contents);
        let contents = contents.map(|it| wire::bound(it, &CONTENTS).saturating_mul(2));
        let inputs = self.inputs.iter().map(|it| &it.parameters);
        let outputs = self.outputs.iter().map(|it| &it.parameters);
        let parameters = inputs.chain(outputs).chain([&self.parameters]).map(parameters::copied);
        contents.chain(parameters).fold(self.id.len(), usize::saturating_add)
    }

    /// Bytes of raw tensors that may be read element by element: lengths of strings and booleans are checked.
    pub fn checked(&self) -> usize {
        let names = [DataType::Bytes, DataType::Bool].map(|it| it.name());
        match self.inputs.iter().any(|it| names.contains(&it.datatype)) {
            true => self.raw.iter().map(Bytes::len).sum(),
            false => 0,
        }
    }
}

/// The lists of `InferTensorContents`.
const CONTENTS: Lists = Lists { numbers: &[(1, 1), (2, 4), (3, 8), (4, 4), (5, 8)], strings: 8 };

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prost::Message;

    use super::{super::parameters::Value, *};
    use frontend::grpc::{
        proto::{
            InferParameter, InferTensorContents, ModelInferRequest,
            infer_parameter::ParameterChoice,
            model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
        },
        wire::MOST_PARTS,
    };

    fn parameters() -> BTreeMap<String, InferParameter> {
        let value = ParameterChoice::Int64Param(-3);
        let value = InferParameter { parameter_choice: Some(value) };
        [("key".to_owned(), value), ("none".to_owned(), InferParameter::default())].into()
    }

    fn request() -> ModelInferRequest {
        let contents = InferTensorContents { fp32_contents: vec![1.5, 2.5], ..Default::default() };
        ModelInferRequest {
            model_name: "m".to_owned(),
            model_version: "2".to_owned(),
            id: "ü".to_owned(),
            parameters: parameters(),
            inputs: vec![
                InferInputTensor {
                    name: "x".to_owned(),
                    datatype: "FP32".to_owned(),
                    shape: vec![1, -1, 300],
                    parameters: parameters(),
                    contents: Some(contents),
                },
                InferInputTensor { name: "y".to_owned(), ..Default::default() },
            ],
            outputs: vec![InferRequestedOutputTensor {
                name: "z".to_owned(),
                parameters: parameters(),
            }],
            raw_input_contents: vec![vec![1; 300].into(), Bytes::new()],
        }
    }

    #[test]
    fn raw_strings_and_booleans_are_work() {
        let checked = |datatypes: [&str; 2]| {
            let mut given = request();
            for (input, datatype) in given.inputs.iter_mut().zip(datatypes) {
                input.datatype = datatype.to_owned();
            }
            Request::of(&given.encode_to_vec().into()).unwrap().checked()
        };
        assert_eq!(checked(["FP32", "INT8"]), 0);
        assert_eq!(checked(["FP32", "BYTES"]), 300);
        assert_eq!(checked(["BOOL", "INT8"]), 300);
    }

    #[test]
    fn everything_is_found_and_raw_tensors_are_not_copied() {
        let given = request();
        let message = Bytes::from(given.encode_to_vec());
        let read = Request::of(&message).unwrap();
        let expected: Parameters<'_> =
            [("key", Value::Int64(-3)), ("none", Value::None)].into_iter().collect();
        assert_eq!((read.model, read.version, read.id), ("m", "2", "ü"));
        assert_eq!(read.parameters, expected);
        for (read, given) in read.inputs.iter().zip(&given.inputs) {
            assert_eq!((read.name, read.datatype), (&*given.name, &*given.datatype));
            assert_eq!(read.shape[..], given.shape);
            match given.parameters.is_empty() {
                true => assert!(read.parameters.is_empty()),
                false => assert_eq!(read.parameters, expected),
            }
            let contents = given.contents.iter().map(Message::encode_to_vec);
            assert!(read.contents.iter().eq(contents.collect::<Vec<_>>().iter()));
        }
        assert_eq!((read.inputs.len(), read.outputs[0].name), (2, "z"));
        assert_eq!(read.outputs[0].parameters, expected);
        assert_eq!(read.raw[..], given.raw_input_contents);
        assert!(message.as_ptr_range().contains(&read.raw[0].as_ptr()));
    }

    #[test]
    fn the_start_of_a_message_names_its_model() {
        let message = request().encode_to_vec();
        let length = Target::length(&message[..40]);
        let start = Bytes::copy_from_slice(&message[..length]);
        let message = Bytes::from(message);
        assert_eq!(Target::of(&start), Target::of(&message));
        assert_eq!(Target::of(&start).unwrap(), Request::of(&message).unwrap().target());
        // What is cut off is no part of it.
        let name = ModelInferRequest { model_name: "m".repeat(10), ..Default::default() };
        let message = [name.encode_to_vec(), vec![0x1a, 30, b'i']].concat();
        assert_eq!(Target::length(&message), message.len() - 3);
        // Fields may come in any order: this start says nothing of the model.
        let inputs = ModelInferRequest { inputs: request().inputs, ..Default::default() };
        let message = [inputs.encode_to_vec(), name.encode_to_vec()].concat();
        assert_eq!(Target::length(&message), 0);
        assert_eq!(Target::length(&[0x1a, 1, b'i']), 0);
    }

    #[test]
    fn a_message_that_ends_early_or_is_none_is_refused() {
        let message = request().encode_to_vec();
        let whole =
            |length: usize| Request::of(&Bytes::copy_from_slice(&message[..length])).is_ok();
        let decoded = |length: usize| ModelInferRequest::decode(&message[..length]).is_ok();
        for length in 0..=message.len() {
            assert_eq!(whole(length), decoded(length), "{length}");
        }
        for wrong in [&[0xff; 20][..], &[0x08, 1], &[0x0a, 1, 0xff], &[0x0b]] {
            let error = Request::of(&Bytes::copy_from_slice(wrong)).unwrap_err();
            assert!(error.to_string().contains("no ModelInferRequest"), "{error}");
        }
    }

    #[test]
    fn a_message_of_tiny_parts_is_refused_wherever_they_are() {
        // An empty raw tensor takes two bytes, a dimension one.
        let raw = [0x3a, 0].repeat(MOST_PARTS + 1);
        let shape = InferInputTensor { shape: vec![1; MOST_PARTS], ..Default::default() };
        let shape = ModelInferRequest { inputs: vec![shape], ..Default::default() };
        for message in [raw, shape.encode_to_vec()] {
            let error = Request::of(&Bytes::from(message)).unwrap_err();
            assert!(error.to_string().contains("at most 16384"), "{error}");
        }
    }

    #[test]
    fn what_typed_contents_take_in_memory_is_known_before_they_are_decoded() {
        let bound = |contents: InferTensorContents| {
            let input = InferInputTensor { contents: Some(contents), ..Default::default() };
            let request = ModelInferRequest { inputs: vec![input], ..Default::default() };
            Request::of(&request.encode_to_vec().into()).unwrap().bound()
        };
        let strings =
            InferTensorContents { bytes_contents: vec![Bytes::new(); 1000], ..Default::default() };
        assert!(1000 * 32 * 2 <= bound(strings));
        let numbers = InferTensorContents { int64_contents: vec![1; 1000], ..Default::default() };
        assert!(1000 * 8 * 2 <= bound(numbers));
        let floats = InferTensorContents { fp32_contents: vec![1.0; 1000], ..Default::default() };
        assert!(1000 * 4 * 2 <= bound(floats));
        let without = ModelInferRequest {
            raw_input_contents: vec![Bytes::from(vec![0; 1000])],
            ..Default::default()
        };
        assert_eq!(Request::of(&without.encode_to_vec().into()).unwrap().bound(), 0);
    }

    #[test]
    fn the_id_and_texts_of_parameters_count_wherever_they_are() {
        let value = ParameterChoice::StringParam("x".repeat(10_000));
        let long: BTreeMap<String, InferParameter> =
            [("key".to_owned(), InferParameter { parameter_choice: Some(value) })].into();
        let input = InferInputTensor { parameters: long.clone(), ..Default::default() };
        let output = InferRequestedOutputTensor { parameters: long.clone(), ..Default::default() };
        for request in [
            ModelInferRequest { id: "x".repeat(10_000), ..Default::default() },
            ModelInferRequest { parameters: long, ..Default::default() },
            ModelInferRequest { inputs: vec![input], ..Default::default() },
            ModelInferRequest { outputs: vec![output], ..Default::default() },
        ] {
            let bound = Request::of(&request.encode_to_vec().into()).unwrap().bound();
            assert!((10_000..11_000).contains(&bound), "{bound}");
        }
    }
}
