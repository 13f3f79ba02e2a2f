//! The tensors of a request: their types, and data for those whose content does not matter.

use std::{fmt, str::FromStr};

use half::{bf16, f16};

use crate::{
    Error,
    media::{Medium, media_type},
    random::Random,
};

/// Element types by their KServe v2 names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DataType {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Bf16,
    Fp32,
    Fp64,
    /// Strings; in raw form each is a 4-byte little-endian length and that many bytes.
    Bytes,
}

impl DataType {
    const ALL: [DataType; 14] = [
        DataType::Bool,
        DataType::Uint8,
        DataType::Uint16,
        DataType::Uint32,
        DataType::Uint64,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Fp16,
        DataType::Bf16,
        DataType::Fp32,
        DataType::Fp64,
        DataType::Bytes,
    ];

    /// As in the protocol: `FP32`.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Bool => "BOOL",
            DataType::Uint8 => "UINT8",
            DataType::Uint16 => "UINT16",
            DataType::Uint32 => "UINT32",
            DataType::Uint64 => "UINT64",
            DataType::Int8 => "INT8",
            DataType::Int16 => "INT16",
            DataType::Int32 => "INT32",
            DataType::Int64 => "INT64",
            DataType::Fp16 => "FP16",
            DataType::Bf16 => "BF16",
            DataType::Fp32 => "FP32",
            DataType::Fp64 => "FP64",
            DataType::Bytes => "BYTES",
        }
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
    }

    /// Bytes per element; `None` for strings.
    pub const fn size(self) -> Option<usize> {
        match self {
            DataType::Bool | DataType::Uint8 | DataType::Int8 => Some(1),
            DataType::Uint16 | DataType::Int16 | DataType::Fp16 | DataType::Bf16 => Some(2),
            DataType::Uint32 | DataType::Int32 | DataType::Fp32 => Some(4),
            DataType::Uint64 | DataType::Int64 | DataType::Fp64 => Some(8),
            DataType::Bytes => None,
        }
    }
}

/// A name that no type of elements has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("datatype '{given}': expected one of {}", DataType::ALL.map(DataType::name).join(", "))]
pub struct UnknownDatatype {
    /// The name.
    pub given: String,
}

impl FromStr for DataType {
    type Err = UnknownDatatype;

    fn from_str(given: &str) -> Result<DataType, UnknownDatatype> {
        let found = DataType::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(given));
        found.ok_or_else(|| UnknownDatatype { given: given.to_owned() })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Content for a tensor whose values do not matter, or whose values are given.
#[derive(Debug, Clone, PartialEq)]
pub enum Fill {
    /// Zeros, `false`, empty strings.
    Zeros,
    /// Floats in `[0, 1)` with all their digits; integers in `0..100`, small enough to be an index into most
    /// vocabularies; strings of eight letters. An input of strings that is called `image` gets a picture, one that is
    /// called `audio` a sound; the same for the same seed.
    Random(u64),
    /// Each element is this: a number, `true` or `false`, or for strings the text itself.
    Value(String),
    /// Numbers between both, of integers both included; the same for the same seed.
    Range {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
        /// Of the random numbers.
        seed: u64,
    },
}

/// One input tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    pub(crate) shape: Vec<usize>,
    /// Row-major, little-endian, exactly as many bytes as type and shape call for.
    pub(crate) data: Vec<u8>,
}

impl fmt::Display for Input {
    /// Its name, type and shape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Input { name, dtype, shape, .. } = self;
        write!(f, "{name} {dtype} {shape:?}")
    }
}

impl Input {
    /// The type and the bytes of the picture or sound that is its only element.
    pub fn file(&self) -> Option<(&'static str, &[u8])> {
        medium(&self.name, self.dtype)?;
        let mut elements = strings(&self.data);
        let file = elements.next()??;
        elements.next().is_none().then(|| Some((media_type(file)?, file))).flatten()
    }

    /// An input of these bytes: row-major, little-endian, strings with their length prefixes.
    ///
    /// # Errors
    /// When they are not exactly what type and shape call for.
    pub fn raw(
        name: &str,
        dtype: DataType,
        shape: &[usize],
        data: Vec<u8>,
    ) -> Result<Input, Error> {
        let elements = elements(name, shape)?;
        let given = match dtype.size() {
            Some(size) => data.len().is_multiple_of(size).then_some(data.len() / size),
            None => strings(&data).try_fold(0, |count, it| it.map(|_| count + 1)),
        };
        if given != Some(elements) {
            let problem = format!(
                "{dtype} of shape {shape:?} takes {elements} elements, the {} bytes given are not that",
                data.len()
            );
            return Err(Error::input(name, problem));
        }
        Ok(Input { name: name.to_owned(), dtype, shape: shape.to_vec(), data })
    }

    /// An input of made-up content.
    ///
    /// # Errors
    /// When the shape has more than 2^32 elements, which no server would take, or a given value is none of the type.
    pub fn filled(
        name: &str,
        dtype: DataType,
        shape: &[usize],
        fill: Fill,
    ) -> Result<Input, Error> {
        let elements = elements(name, shape)?;
        let mut data = Vec::with_capacity(elements * dtype.size().unwrap_or(12));
        match fill {
            Fill::Zeros => data.resize(elements * dtype.size().unwrap_or(4), 0),
            Fill::Random(seed) => {
                let mut random = Random::new(seed);
                let medium = medium(name, dtype);
                for _ in 0..elements {
                    match medium {
                        Some(medium) => push_bytes(&mut data, &medium.file(&mut random)),
                        None => push_random(&mut data, dtype, &mut random),
                    }
                }
            }
            Fill::Value(text) if dtype == DataType::Bytes => {
                if u32::try_from(text.len()).is_err() {
                    return Err(Error::input(name, "a text of 4 GiB or more"));
                }
                (0..elements).for_each(|_| push_bytes(&mut data, text.as_bytes()));
            }
            Fill::Value(text) => {
                let number = number(&text, dtype).ok_or_else(|| {
                    Error::input(name, format!("value '{text}': expected one of {dtype}"))
                })?;
                (0..elements).for_each(|_| push_number(&mut data, dtype, number));
            }
            Fill::Range { .. } if dtype == DataType::Bytes => {
                return Err(Error::input(name, "a range of numbers does not fit BYTES"));
            }
            Fill::Range { low, high, seed } => {
                let mut random = Random::new(seed);
                for _ in 0..elements {
                    let number = match dtype.is_float() {
                        true => low + random.unit() * (high - low),
                        false => low + (random.unit() * (high - low + 1.0)).floor(),
                    };
                    push_number(&mut data, dtype, number);
                }
            }
        }
        Ok(Input { name: name.to_owned(), dtype, shape: shape.to_vec(), data })
    }
}

/// What the elements of an input are, if files: the names are those of servers whose models take files.
fn medium(name: &str, dtype: DataType) -> Option<Medium> {
    match (dtype, name) {
        (DataType::Bytes, "image") => Some(Medium::Picture),
        (DataType::Bytes, "audio") => Some(Medium::Sound),
        _ => None,
    }
}

/// One element of BYTES, which is shorter than 4 GiB.
fn push_bytes(data: &mut Vec<u8>, element: &[u8]) {
    data.extend_from_slice(&(element.len() as u32).to_le_bytes());
    data.extend_from_slice(element);
}

fn elements(name: &str, shape: &[usize]) -> Result<usize, Error> {
    let product = shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    product.filter(|&it| it as u64 <= 1 << 32).ok_or_else(|| {
        Error::input(name, format!("the shape {shape:?} has more than 2^32 elements"))
    })
}

/// A number that is an element of that type.
fn number(text: &str, dtype: DataType) -> Option<f64> {
    let number: f64 = match text {
        "true" => 1.0,
        "false" => 0.0,
        text => text.parse().ok()?,
    };
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    let (low, high): (f64, f64) = match dtype {
        DataType::Bool => (0.0, 1.0),
        DataType::Uint8 => (0.0, 255.0),
        DataType::Uint16 => (0.0, 65_535.0),
        DataType::Uint32 => (0.0, f64::from(u32::MAX)),
        DataType::Uint64 => (0.0, f64::MAX),
        DataType::Int8 => (-128.0, 127.0),
        DataType::Int16 => (-32_768.0, 32_767.0),
        DataType::Int32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        DataType::Int64 => (f64::MIN, f64::MAX),
        DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 => return Some(number),
        DataType::Bytes => return None,
    };
    (is_whole && (low..=high).contains(&number)).then_some(number)
}

/// One element; a number that the type does not have becomes the nearest one.
fn push_number(data: &mut Vec<u8>, dtype: DataType, number: f64) {
    match dtype {
        DataType::Bool => data.push(u8::from(number != 0.0)),
        DataType::Fp16 => data.extend_from_slice(&f16::from_f64(number).to_le_bytes()),
        DataType::Bf16 => data.extend_from_slice(&bf16::from_f64(number).to_le_bytes()),
        DataType::Fp32 => data.extend_from_slice(&(number as f32).to_le_bytes()),
        DataType::Fp64 => data.extend_from_slice(&number.to_le_bytes()),
        DataType::Uint64 => data.extend_from_slice(&(number as u64).to_le_bytes()),
        DataType::Bytes => {}
        DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64 => {
            let value = (number as i64).to_le_bytes();
            data.extend(value.iter().take(dtype.size().unwrap_or(0)));
        }
    }
}

fn push_random(data: &mut Vec<u8>, dtype: DataType, random: &mut Random) {
    match dtype {
        DataType::Bool => data.push((random.next_u64() & 1) as u8),
        // As many bits as the type is precise to, so that 1 is never reached.
        DataType::Fp16 => {
            let value = f16::from_f32((random.next_u64() >> 53) as f32 / 2048.0);
            data.extend_from_slice(&value.to_le_bytes());
        }
        DataType::Bf16 => {
            let value = bf16::from_f32((random.next_u64() >> 56) as f32 / 256.0);
            data.extend_from_slice(&value.to_le_bytes());
        }
        DataType::Fp32 => {
            let value = (random.next_u64() >> 40) as f32 / (1u64 << 24) as f32;
            data.extend_from_slice(&value.to_le_bytes());
        }
        DataType::Fp64 => data.extend_from_slice(&random.unit().to_le_bytes()),
        DataType::Bytes => {
            data.extend_from_slice(&8u32.to_le_bytes());
            data.extend((0..8).map(|_| b'a' + random.below(26) as u8));
        }
        DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64 => {
            let value = random.below(100).to_le_bytes();
            data.extend(value.iter().take(dtype.size().unwrap_or(0)));
        }
    }
}

/// The strings of a raw BYTES tensor; an item is `None`, and the last, where the data end too early.
pub(crate) fn strings(mut data: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        let item = data.split_first_chunk::<4>().and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
        });
        data = item.map_or(&[], |(_, rest)| rest);
        Some(item.map(|(string, _)| string))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_files_are_known_by_type_and_name_and_hold_files() {
        let filled =
            |name: &str, dtype| Input::filled(name, dtype, &[1, 1], Fill::Random(1)).unwrap();
        let kind = |input: Input| input.file().map(|it| it.0);
        assert_eq!(kind(filled("image", DataType::Bytes)), Some("image/png"));
        assert_eq!(kind(filled("audio", DataType::Bytes)), Some("audio/wav"));
        assert_eq!(kind(filled("text", DataType::Bytes)), None);
        assert_eq!(kind(filled("image", DataType::Fp32)), None);
        let two = Input::filled("image", DataType::Bytes, &[2, 1], Fill::Random(1)).unwrap();
        assert!(two.file().is_none() && two.data.len() > 300_000);
        let given = Fill::Value("a".to_owned());
        assert_eq!(kind(Input::filled("image", DataType::Bytes, &[1], given).unwrap()), None);
    }

    #[test]
    fn made_up_data_fit_their_type_and_shape() {
        for dtype in DataType::ALL {
            for fill in [Fill::Zeros, Fill::Random(1)] {
                let input = Input::filled("x", dtype, &[2, 3], fill.clone()).unwrap();
                let again = Input::raw("x", dtype, &[2, 3], input.data.clone());
                assert_eq!(again.unwrap(), input, "{dtype} {fill:?}");
            }
        }
    }

    #[test]
    fn values_are_those_that_were_given() {
        let data = |dtype, fill| Input::filled("x", dtype, &[2], fill).map(|it| it.data);
        let value = |it: &str| Fill::Value(it.to_owned());
        assert_eq!(data(DataType::Int16, value("-2")).unwrap(), [254, 255, 254, 255]);
        assert_eq!(data(DataType::Bool, value("true")).unwrap(), [1, 1]);
        assert_eq!(data(DataType::Fp32, value("0.5")).unwrap(), [0, 0, 0, 63, 0, 0, 0, 63]);
        assert_eq!(data(DataType::Bytes, value("a")).unwrap(), b"\x01\0\0\0a\x01\0\0\0a");
        for (dtype, text) in [
            (DataType::Uint8, "256"),
            (DataType::Uint8, "-1"),
            (DataType::Int64, "0.5"),
            (DataType::Bool, "2"),
            (DataType::Fp32, "half"),
        ] {
            let error = data(dtype, value(text)).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(dtype.name()), "{error}");
        }
        let range = Fill::Range { low: 5.0, high: 7.0, seed: 1 };
        let many = Input::filled("x", DataType::Uint8, &[200], range.clone()).unwrap().data;
        assert!((5..=7).all(|it| many.contains(&it)) && many.iter().all(|it| (5..=7).contains(it)));
        data(DataType::Bytes, range).unwrap_err();
    }

    #[test]
    fn random_data_depend_on_the_seed_alone() {
        let make = |seed| Input::filled("x", DataType::Fp32, &[100], Fill::Random(seed)).unwrap();
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn wrong_sizes_are_refused() {
        let raw = |dtype, data: &[u8]| Input::raw("x", dtype, &[2], data.to_vec());
        assert!(raw(DataType::Fp32, &[0; 8]).is_ok());
        assert!(raw(DataType::Fp32, &[0; 9]).is_err());
        assert!(raw(DataType::Bytes, b"\x01\0\0\0a\0\0\0\0").is_ok());
        assert!(raw(DataType::Bytes, b"\x01\0\0\0a\x01\0\0\0").is_err());
        assert!(raw(DataType::Bytes, b"\x01\0\0\0a").is_err());
        assert!(Input::filled("x", DataType::Int8, &[usize::MAX, 2], Fill::Zeros).is_err());
    }
}
