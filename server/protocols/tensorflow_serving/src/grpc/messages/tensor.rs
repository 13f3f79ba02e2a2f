//! A `TensorProto` from a client: parsed without a copy, and decoded into a tensor once its input is known.

use backend::{DataType, Shape, Tensor};
use bytes::Bytes;
use half::{bf16, f16};
use prost::Message;
use smallvec::SmallVec;

use formats::{kserve_v2::find_not_boolean, tfs::types};
use frontend::grpc::{
    proto::tensorflow::TensorProto,
    wire::{self, Lists, Parts, WireProblem},
};

/// The lists of elements of a `TensorProto`.
const LISTS: Lists =
    Lists { numbers: &[(7, 4), (10, 8), (11, 1), (13, 4), (16, 4), (17, 8)], strings: STRINGS };

/// The field number of `string_val`.
const STRINGS: u32 = 8;

/// Bytes of memory that a string in `tensor_content` takes besides its own: its prefix in the tensor, its length, and
/// its position.
const PER_STRING: usize = 4 + size_of::<usize>() + size_of::<&[u8]>();

/// A `TensorProto`.
#[derive(Debug, Default)]
pub struct Given {
    dtype: i32,
    shape: SmallVec<[i64; 4]>,
    unknown_rank: bool,
    /// `tensor_content`; empty where the message has none.
    content: Bytes,
    /// The whole message, where it has lists of elements.
    lists: Option<Bytes>,
    /// The number of strings that it lists, and the length of the last one.
    strings: (usize, usize),
}

impl Given {
    /// Parses `message`, which is a part of `whole`.
    pub fn read(whole: &Bytes, message: &[u8], parts: &mut Parts) -> Result<Given, WireProblem> {
        let mut given = Given::default();
        let mut rest = message;
        while let Some((number, kind)) = wire::field(&mut rest)? {
            match number {
                // As every protobuf reader does, numbers of enums are cut to their lower half.
                1 => given.dtype = wire::varint(kind, &mut rest)? as i32,
                2 => given.read_shape(wire::delimited(kind, &mut rest)?, parts)?,
                4 => given.content = whole.slice_ref(wire::delimited(kind, &mut rest)?),
                STRINGS => {
                    let length = wire::delimited(kind, &mut rest)?.len();
                    given.strings = (given.strings.0 + 1, length);
                    given.lists = Some(whole.slice_ref(message));
                }
                5..=17 => {
                    wire::skip(number, kind, &mut rest)?;
                    given.lists = Some(whole.slice_ref(message));
                }
                _ => wire::skip(number, kind, &mut rest)?,
            }
        }
        Ok(given)
    }

    fn read_shape(&mut self, mut rest: &[u8], parts: &mut Parts) -> Result<(), WireProblem> {
        while let Some((number, kind)) = wire::field(&mut rest)? {
            match number {
                2 => {
                    let mut dim = wire::delimited(kind, &mut rest)?;
                    let mut size = 0;
                    while let Some((number, kind)) = wire::field(&mut dim)? {
                        match number {
                            1 => size = wire::varint(kind, &mut dim)?.cast_signed(),
                            _ => wire::skip(number, kind, &mut dim)?,
                        }
                    }
                    self.shape.push(size);
                    parts.count(1)?;
                }
                3 => self.unknown_rank = wire::varint(kind, &mut rest)? != 0,
                _ => wire::skip(number, kind, &mut rest)?,
            }
        }
        Ok(())
    }

    /// Bytes of memory that decoding takes at most, besides the message.
    pub fn bound(&self) -> usize {
        let elements = self.shape().and_then(|it| it.elements()).unwrap_or(0);
        let dtype = types::of_number(self.dtype);
        let Some(size) = dtype.and_then(DataType::size) else {
            // Each string gets a prefix of four bytes; missing ones are copies of the last. While the strings are
            // gathered, the position of each is kept.
            let (count, last) = self.strings;
            let copies = elements.saturating_sub(count).saturating_mul(last);
            let listed = self
                .lists
                .as_ref()
                .map_or(self.content.len(), |it| wire::bound(it, &LISTS).saturating_mul(2));
            return elements
                .saturating_mul(PER_STRING)
                .saturating_add(copies)
                .saturating_add(listed);
        };
        match &self.lists {
            // A growing list has room for twice its elements, and missing elements are filled in.
            Some(message) => {
                let listed = wire::bound(message, &LISTS).saturating_mul(2);
                listed.saturating_add(elements.saturating_mul(size))
            }
            None if self.content.is_empty() => elements.saturating_mul(size),
            None => 0,
        }
    }

    /// Decodes the tensor, which must be of the type `expected`.
    ///
    /// # Errors
    /// A sentence: the type is another, the shape is malformed, the number of elements is another, or the type cannot
    /// hold an element.
    pub fn tensor(self, expected: DataType) -> Result<Tensor, String> {
        match types::of_number(self.dtype) {
            Some(dtype) if dtype == expected => {}
            given => {
                let given = match (given, self.dtype) {
                    (Some(dtype), number) => format!("{} ({number})", types::name(dtype)),
                    (None, 0) => "none".to_owned(),
                    (None, number) => format!("the number {number}"),
                };
                let (name, number) = (types::name(expected), types::number(expected));
                return Err(format!("dtype: expected {name} ({number}), given {given}"));
            }
        }
        let shape = self.shape().ok_or_else(|| match self.unknown_rank {
            true => "tensor_shape: expected a known rank, given unknown_rank".to_owned(),
            false => format!("tensor_shape: expected sizes >= 0, given {:?}", self.shape),
        })?;
        let elements = shape.elements();
        let elements =
            elements.ok_or_else(|| format!("the shape {shape} has too many elements"))?;
        match (self.content.is_empty(), self.lists) {
            (false, Some(_)) => {
                Err(format!("expected tensor_content or {}, given both", list_of(expected)))
            }
            (false, None) if expected == DataType::Bytes => strings(shape, elements, &self.content),
            (false, None) => {
                if let Some((at, byte)) = find_not_boolean(expected, &self.content) {
                    return Err(format!(
                        "tensor_content: element {at} is the byte {byte}, expected 0 or 1"
                    ));
                }
                let tensor = Tensor::new(expected, shape, self.content);
                tensor.map_err(|error| format!("tensor_content: {error}"))
            }
            // An empty list is zeros, in the shortest form that TensorFlow writes.
            (true, None) => Tensor::zeros(expected, shape).map_err(|error| error.to_string()),
            (true, Some(message)) => {
                let proto = TensorProto::decode(message).map_err(|error| error.to_string())?;
                listed(expected, shape, elements, proto)
            }
        }
    }

    fn shape(&self) -> Option<Shape> {
        let sizes = self.shape.iter().map(|&it| usize::try_from(it).ok());
        sizes.collect::<Option<Shape>>().filter(|_| !self.unknown_rank)
    }
}

/// Decodes a tensor from the list of its type.
fn listed(
    dtype: DataType,
    shape: Shape,
    elements: usize,
    proto: TensorProto,
) -> Result<Tensor, String> {
    let list = list_of(dtype);
    let given = [
        ("half_val", proto.half_val.len()),
        ("float_val", proto.float_val.len()),
        ("double_val", proto.double_val.len()),
        ("int_val", proto.int_val.len()),
        ("string_val", proto.string_val.len()),
        ("int64_val", proto.int64_val.len()),
        ("bool_val", proto.bool_val.len()),
        ("uint32_val", proto.uint32_val.len()),
        ("uint64_val", proto.uint64_val.len()),
    ];
    if let Some((other, _)) = given.iter().find(|(name, count)| *count > 0 && *name != list) {
        return Err(format!("expected {list} for {}, given {other}", types::name(dtype)));
    }
    let count = given.iter().map(|(_, count)| *count).max().unwrap_or(0);
    if elements < count {
        return Err(format!("shape {shape} has {elements} elements, {list} has {count}"));
    }
    let bits = |value: i32| u16::try_from(value).map_err(|_| unfit(dtype, value));
    let halves = |values: Vec<i32>| values.into_iter().map(bits).collect::<Result<Vec<u16>, _>>();
    let made = match dtype {
        DataType::Bool => {
            let bytes: Vec<u8> = proto.bool_val.into_iter().map(u8::from).collect();
            Tensor::new(dtype, shape, fill(bytes, elements).into())
        }
        DataType::Int8 => {
            Tensor::from_vec(shape, fill(narrow::<i8>(dtype, proto.int_val)?, elements))
        }
        DataType::Int16 => {
            Tensor::from_vec(shape, fill(narrow::<i16>(dtype, proto.int_val)?, elements))
        }
        DataType::Uint8 => {
            Tensor::from_vec(shape, fill(narrow::<u8>(dtype, proto.int_val)?, elements))
        }
        DataType::Uint16 => {
            Tensor::from_vec(shape, fill(narrow::<u16>(dtype, proto.int_val)?, elements))
        }
        DataType::Int32 => Tensor::from_vec(shape, fill(proto.int_val, elements)),
        DataType::Int64 => Tensor::from_vec(shape, fill(proto.int64_val, elements)),
        DataType::Uint32 => Tensor::from_vec(shape, fill(proto.uint32_val, elements)),
        DataType::Uint64 => Tensor::from_vec(shape, fill(proto.uint64_val, elements)),
        DataType::Fp16 => {
            let values = halves(proto.half_val)?.into_iter().map(f16::from_bits);
            Tensor::from_vec(shape, fill(values.collect(), elements))
        }
        DataType::Bf16 => {
            let values = halves(proto.half_val)?.into_iter().map(bf16::from_bits);
            Tensor::from_vec(shape, fill(values.collect(), elements))
        }
        DataType::Fp32 => Tensor::from_vec(shape, fill(proto.float_val, elements)),
        DataType::Fp64 => Tensor::from_vec(shape, fill(proto.double_val, elements)),
        DataType::Bytes => {
            let last = proto.string_val.last().cloned().unwrap_or_default();
            let missing = elements - proto.string_val.len();
            let missing = std::iter::repeat_n(last, missing);
            Tensor::from_strings(shape, proto.string_val.into_iter().chain(missing))
        }
    };
    made.map_err(|error| error.to_string())
}

/// The list in which elements of that type are given.
fn list_of(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Fp16 | DataType::Bf16 => "half_val",
        DataType::Fp32 => "float_val",
        DataType::Fp64 => "double_val",
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Uint8 | DataType::Uint16 => {
            "int_val"
        }
        DataType::Bytes => "string_val",
        DataType::Int64 => "int64_val",
        DataType::Bool => "bool_val",
        DataType::Uint32 => "uint32_val",
        DataType::Uint64 => "uint64_val",
    }
}

/// The last value stands for all elements that the list lacks.
fn fill<T: Copy + Default>(mut values: Vec<T>, elements: usize) -> Vec<T> {
    let last = values.last().copied().unwrap_or_default();
    values.resize(elements, last);
    values
}

/// The same numbers in a type with fewer bits.
fn narrow<T: TryFrom<i32>>(dtype: DataType, values: Vec<i32>) -> Result<Vec<T>, String> {
    let values = values.into_iter();
    values.map(|value| T::try_from(value).map_err(|_| unfit(dtype, value))).collect()
}

fn unfit(dtype: DataType, value: i32) -> String {
    format!("{}: {value} does not fit {}", list_of(dtype), types::name(dtype))
}

/// Decodes strings from `tensor_content`: first all lengths, then all bytes.
fn strings(shape: Shape, elements: usize, content: &Bytes) -> Result<Tensor, String> {
    let cut = || format!("tensor_content: expected {elements} strings, it ends before");
    if content.len() < elements {
        return Err(cut());
    }
    let mut rest: &[u8] = content;
    let mut lengths = Vec::with_capacity(elements);
    for _ in 0..elements {
        let length = prost::encoding::decode_varint(&mut rest).map_err(|_| cut())?;
        lengths.push(usize::try_from(length).map_err(|_| cut())?);
    }
    let mut strings = Vec::with_capacity(elements);
    for length in lengths {
        let (string, behind) = rest.split_at_checked(length).ok_or_else(cut)?;
        strings.push(string);
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(format!(
            "tensor_content: {} bytes are left behind {elements} strings",
            rest.len()
        ));
    }
    Tensor::from_strings(shape, strings).map_err(|error| error.to_string())
}
