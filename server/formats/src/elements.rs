//! Elements of one type, gathered one by one from text, until they are a tensor.

use std::{collections::BTreeMap, sync::Arc};

use backend::{DataType, NamedTensor, Shape, SizeMismatch, Tensor, TextCodes};
use half::{bf16, f16};
use inference::{error::Error, grant::Grant, granted::Granted, signature::Port};

use crate::number::{self, Excerpt, Fault, Number};

/// Why a value is no element of its type.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ElementError {
    /// A text, of which the first part is here.
    #[error("{}", number::describe(*.fault, *.dtype, .text))]
    Number { fault: Fault, dtype: DataType, text: String },
    #[error("expected {dtype}, given {given}")]
    OtherKind { dtype: DataType, given: &'static str },
    #[error("expected a value for {0}, found none")]
    Missing(DataType),
    #[error("a string of 4 GiB or more")]
    TooLong,
    /// A string of JSON that is none, or memory that is not granted.
    #[error(transparent)]
    Other(Box<Error>),
    /// A number where texts are spelled as numbers.
    #[error("'{0}' is no category")]
    NoCategory(String),
    /// A text that is none of those of its element. Not all of them are shown.
    #[error(
        "'{text}' is none of the categories that the model was trained on: {categories}; send null, in CSV an empty \
         field, for what is missing"
    )]
    UnknownCategory { text: String, categories: String },
}

impl From<Error> for ElementError {
    fn from(error: Error) -> ElementError {
        ElementError::Other(Box::new(error))
    }
}

impl ElementError {
    fn of(fault: Fault, dtype: DataType, text: &str) -> ElementError {
        ElementError::Number { fault, dtype, text: Excerpt(text).to_string() }
    }
}

/// A tensor in the making. Its [`Grant`] is asked whenever the elements need more memory.
#[derive(Debug)]
pub struct TensorBuilder<'g> {
    /// The elements that are kept.
    pub column: Column<'g>,
    /// Elements beyond this number are counted and not kept.
    pub most: usize,
    /// Elements so far.
    pub count: usize,
    /// The texts that elements may be given as.
    pub codes: Option<RowCodes>,
    grant: &'g Grant,
}

/// The texts that some elements of each row may be given as, and the numbers that these stand for.
#[derive(Debug)]
pub struct RowCodes {
    codes: Arc<BTreeMap<usize, TextCodes>>,
    /// Elements of a row.
    width: usize,
    /// The place of the first of these elements in a row of the input.
    first: usize,
}

/// Names of categories that an error shows.
const SHOWN: usize = 20;

impl RowCodes {
    /// What may be said in the place of the element of that number, counted over all rows.
    fn of_element(&self, number: usize) -> Option<&TextCodes> {
        self.codes.get(&(self.first + number.checked_rem(self.width).unwrap_or(0)))
    }

    /// The number of a text that stands in the place of that element, where the element may be such a text.
    fn known(&self, text: &str, number: usize) -> Option<f64> {
        self.of_element(number)?.codes.get(text).map(|it| f64::from(*it))
    }

    /// Are texts in that place spelled as numbers? A few of those that begin as one are looked at.
    fn are_numbers(&self, number: usize) -> bool {
        const FEW: usize = 8;
        let Some(of) = self.of_element(number) else { return false };
        let mut begin_so = of.codes.range("+".to_owned()..":".to_owned()).take(FEW);
        begin_so.any(|it| it.0.trim_ascii().parse::<f64>().is_ok())
    }

    /// The number of any text in that place; `None` where the element is no text.
    ///
    /// # Errors
    /// It is none of those that there are.
    pub fn number(&self, text: &str, number: usize) -> Option<Result<f64, ElementError>> {
        let of = self.of_element(number)?;
        if let Some(code) = of.codes.get(text) {
            return Some(Ok(f64::from(*code)));
        }
        if of.others_are_missing {
            return Some(Ok(f64::NAN));
        }
        let mut names: Vec<_> = of.codes.iter().map(|(text, code)| (code, text)).collect();
        names.sort_unstable();
        let shown = names.iter().take(SHOWN).map(|it| format!("'{}'", Excerpt(it.1)));
        let more = if SHOWN < names.len() { ", .." } else { "" };
        let categories = shown.collect::<Vec<_>>().join(", ") + more;
        Some(Err(ElementError::UnknownCategory { text: Excerpt(text).to_string(), categories }))
    }
}

/// The elements so far, in memory that is aligned for their type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Column<'g> {
    Bool(Booleans<'g>),
    Uint8(Granted<'g, u8>),
    Uint16(Granted<'g, u16>),
    Uint32(Granted<'g, u32>),
    Uint64(Granted<'g, u64>),
    Int8(Granted<'g, i8>),
    Int16(Granted<'g, i16>),
    Int32(Granted<'g, i32>),
    Int64(Granted<'g, i64>),
    Fp16(Granted<'g, f16>),
    Bf16(Granted<'g, bf16>),
    Fp32(Granted<'g, f32>),
    Fp64(Granted<'g, f64>),
    Bytes(Strings<'g>),
}

/// Booleans, each a byte.
#[derive(Debug)]
pub struct Booleans<'g>(pub(super) Granted<'g, u8>);

/// Strings, each behind its length.
#[derive(Debug)]
pub struct Strings<'g>(pub(super) Granted<'g, u8>);

impl Strings<'_> {
    /// Makes room for a length; the string's bytes are then appended, and [`Strings::end`] is told where
    /// they begin.
    ///
    /// # Errors
    /// The memory is not granted.
    pub fn begin(&mut self) -> Result<usize, Error> {
        self.0.extend_from_slice(&[0; 4])?;
        Ok(self.0.len())
    }

    /// Fills in the length of the string that began at `start`.
    pub fn end(&mut self, start: usize) -> Result<(), ElementError> {
        let length = self.0.len().saturating_sub(start);
        let length = u32::try_from(length).map_err(|_| ElementError::TooLong)?;
        if let Some(place) = self.0.as_mut_slice().get_mut(start.saturating_sub(4)..start) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }
}

fn push<T: Number>(
    values: &mut Granted<'_, T>,
    text: &str,
    keep: bool,
) -> Result<(), ElementError> {
    match T::read(text.as_bytes()) {
        Ok((value, length)) if length == text.len() => {
            if keep {
                values.push(value)?;
            }
            Ok(())
        }
        Ok(_) => Err(ElementError::of(Fault::Syntax, T::DTYPE, text)),
        Err(fault) => Err(ElementError::of(fault, T::DTYPE, text)),
    }
}

/// Adds the last element so many times more.
fn repeat<T: Copy>(values: &mut Granted<'_, T>, times: usize) -> Result<(), Error> {
    match values.last() {
        Some(&last) => values.push_times(last, times),
        None => Ok(()),
    }
}

impl<'g> TensorBuilder<'g> {
    /// An empty one, which takes no memory. `expected`: how many elements will be of use, where that is known; more are
    /// counted and not kept, so that a body which lies about its shape does not take memory for it.
    pub fn new(dtype: DataType, expected: Option<usize>, grant: &'g Grant) -> TensorBuilder<'g> {
        let column = match dtype {
            DataType::Bool => Column::Bool(Booleans(Granted::new(grant))),
            DataType::Uint8 => Column::Uint8(Granted::new(grant)),
            DataType::Uint16 => Column::Uint16(Granted::new(grant)),
            DataType::Uint32 => Column::Uint32(Granted::new(grant)),
            DataType::Uint64 => Column::Uint64(Granted::new(grant)),
            DataType::Int8 => Column::Int8(Granted::new(grant)),
            DataType::Int16 => Column::Int16(Granted::new(grant)),
            DataType::Int32 => Column::Int32(Granted::new(grant)),
            DataType::Int64 => Column::Int64(Granted::new(grant)),
            DataType::Fp16 => Column::Fp16(Granted::new(grant)),
            DataType::Bf16 => Column::Bf16(Granted::new(grant)),
            DataType::Fp32 => Column::Fp32(Granted::new(grant)),
            DataType::Fp64 => Column::Fp64(Granted::new(grant)),
            DataType::Bytes => Column::Bytes(Strings(Granted::new(grant))),
        };
        TensorBuilder { column, most: expected.unwrap_or(usize::MAX), count: 0, codes: None, grant }
    }

    /// One for the elements of whole rows of an input, of which some may be given as texts.
    pub fn of(port: &Port, expected: Option<usize>, grant: &'g Grant) -> TensorBuilder<'g> {
        let builder = TensorBuilder::new(port.dtype, expected, grant);
        builder.with_codes(port, 0, port.elements().unwrap_or(0))
    }

    /// One for the element at that place of each row of an input.
    pub fn of_element(port: &Port, place: usize, grant: &'g Grant) -> TensorBuilder<'g> {
        TensorBuilder::new(port.dtype, None, grant).with_codes(port, place, 1)
    }

    fn with_codes(self, port: &Port, first: usize, width: usize) -> TensorBuilder<'g> {
        let has_codes = !port.text_codes.is_empty() && width != 0;
        let codes = has_codes.then(|| RowCodes { codes: port.text_codes.clone(), width, first });
        TensorBuilder { codes, ..self }
    }

    /// Adds the number of a text that is one of those that the element may be given as. False where it is none.
    pub fn push_known(&mut self, text: &str) -> bool {
        let known = self.codes.as_ref().and_then(|it| it.known(text, self.count));
        known.is_some_and(|it| self.push_f64(it).is_ok())
    }

    /// May a number in a body of texts be nothing but a text, as those of this element are spelled so?
    pub fn takes_numbers_as_texts(&self) -> bool {
        self.codes.as_ref().is_some_and(|it| it.are_numbers(self.count))
    }

    /// Adds the number of a text, or what is missing, where the element may be given as a text.
    ///
    /// # Errors
    /// `problem` where it may not; the texts that there are, where it is none of these.
    pub fn push_other(&mut self, text: &str, problem: ElementError) -> Result<(), ElementError> {
        match self.codes.as_ref().and_then(|it| it.number(text, self.count)) {
            Some(number) => self.push_f64(number?),
            None => Err(problem),
        }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DataType {
        match &self.column {
            Column::Bool(_) => DataType::Bool,
            Column::Uint8(_) => DataType::Uint8,
            Column::Uint16(_) => DataType::Uint16,
            Column::Uint32(_) => DataType::Uint32,
            Column::Uint64(_) => DataType::Uint64,
            Column::Int8(_) => DataType::Int8,
            Column::Int16(_) => DataType::Int16,
            Column::Int32(_) => DataType::Int32,
            Column::Int64(_) => DataType::Int64,
            Column::Fp16(_) => DataType::Fp16,
            Column::Bf16(_) => DataType::Bf16,
            Column::Fp32(_) => DataType::Fp32,
            Column::Fp64(_) => DataType::Fp64,
            Column::Bytes(_) => DataType::Bytes,
        }
    }

    /// Who is asked for their memory.
    pub fn grant(&self) -> &'g Grant {
        self.grant
    }

    /// Elements that were given, kept or not.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds the element that `text` spells in whole: a number as in JSON, `true` or `false`, or for BYTES
    /// the text itself.
    ///
    /// # Errors
    /// What was expected and what was found, as a sentence without a place.
    pub fn push_text(&mut self, text: &str) -> Result<(), ElementError> {
        let keep = self.count < self.most;
        match &mut self.column {
            Column::Bool(values) => match text {
                "true" | "false" if keep => values.0.push(u8::from(text == "true"))?,
                "true" | "false" => {}
                _ => return Err(ElementError::of(Fault::Syntax, DataType::Bool, text)),
            },
            Column::Uint8(values) => push(values, text, keep)?,
            Column::Uint16(values) => push(values, text, keep)?,
            Column::Uint32(values) => push(values, text, keep)?,
            Column::Uint64(values) => push(values, text, keep)?,
            Column::Int8(values) => push(values, text, keep)?,
            Column::Int16(values) => push(values, text, keep)?,
            Column::Int32(values) => push(values, text, keep)?,
            Column::Int64(values) => push(values, text, keep)?,
            Column::Fp16(values) => push(values, text, keep)?,
            Column::Bf16(values) => push(values, text, keep)?,
            Column::Fp32(values) => push(values, text, keep)?,
            Column::Fp64(values) => push(values, text, keep)?,
            Column::Bytes(strings) if keep => {
                let start = strings.begin()?;
                strings.0.extend_from_slice(text.as_bytes())?;
                strings.end(start)?;
            }
            Column::Bytes(_) => {}
        }
        self.count += 1;
        Ok(())
    }

    /// Adds a number that is known already, rounded to the width of a float type.
    ///
    /// # Errors
    /// When the type is no number type, or cannot hold the number: a fraction, or one beyond its range.
    pub fn push_f64(&mut self, value: f64) -> Result<(), ElementError> {
        let dtype = self.dtype();
        // A finite number stays one.
        let held = |is_infinite: bool| match is_infinite && value.is_finite() {
            true => Err(ElementError::of(Fault::Range, dtype, &value.to_string())),
            false => Ok(()),
        };
        let keep = self.count < self.most;
        match &mut self.column {
            Column::Fp16(values) => {
                let value = f16::from_f64(value);
                held(value.is_infinite())?;
                values.push_times(value, keep.into())?;
            }
            Column::Bf16(values) => {
                let value = bf16::from_f64(value);
                held(value.is_infinite())?;
                values.push_times(value, keep.into())?;
            }
            Column::Fp32(values) => {
                let value = value as f32;
                held(value.is_infinite())?;
                values.push_times(value, keep.into())?;
            }
            Column::Fp64(values) => values.push_times(value, keep.into())?,
            // A whole number is spelled without a point.
            _ => return self.push_text(&value.to_string()),
        }
        self.count += 1;
        Ok(())
    }

    /// Adds the same number so many times.
    ///
    /// # Errors
    /// Those of [`TensorBuilder::push_f64`].
    pub fn push_f64_times(&mut self, value: f64, times: usize) -> Result<(), ElementError> {
        let Some(more) = times.checked_sub(1) else { return Ok(()) };
        self.push_f64(value)?;
        let kept = more.min(self.most.saturating_sub(self.count));
        match &mut self.column {
            Column::Uint8(values) => repeat(values, kept)?,
            Column::Uint16(values) => repeat(values, kept)?,
            Column::Uint32(values) => repeat(values, kept)?,
            Column::Uint64(values) => repeat(values, kept)?,
            Column::Int8(values) => repeat(values, kept)?,
            Column::Int16(values) => repeat(values, kept)?,
            Column::Int32(values) => repeat(values, kept)?,
            Column::Int64(values) => repeat(values, kept)?,
            Column::Fp16(values) => repeat(values, kept)?,
            Column::Bf16(values) => repeat(values, kept)?,
            Column::Fp32(values) => repeat(values, kept)?,
            Column::Fp64(values) => repeat(values, kept)?,
            Column::Bool(_) | Column::Bytes(_) => {
                return (0..more).try_for_each(|_| self.push_f64(value));
            }
        }
        self.count += more;
        Ok(())
    }

    /// Adds the element `value`.
    ///
    /// # Errors
    /// When the elements are no floats, or cannot hold it.
    pub fn push_float(&mut self, value: f32) -> Result<(), ElementError> {
        match &self.column {
            Column::Fp16(_) | Column::Bf16(_) | Column::Fp32(_) | Column::Fp64(_) => {
                self.push_f64(value.into())
            }
            _ => Err(ElementError::OtherKind { dtype: self.dtype(), given: "a float" }),
        }
    }

    /// Adds the element `value`; 0 and 1 are false and true.
    ///
    /// # Errors
    /// When the elements are neither integers nor booleans, or their type cannot hold it.
    pub fn push_integer(&mut self, value: i64) -> Result<(), ElementError> {
        fn to<T: TryFrom<i64>>(values: &mut Granted<'_, T>, value: i64) -> Result<bool, Error> {
            T::try_from(value).map_or(Ok(false), |it| values.push(it).map(|()| true))
        }
        let fits = match &mut self.column {
            Column::Bool(values) => value < 2 && to(&mut values.0, value)?,
            Column::Uint8(values) => to(values, value)?,
            Column::Uint16(values) => to(values, value)?,
            Column::Uint32(values) => to(values, value)?,
            Column::Uint64(values) => to(values, value)?,
            Column::Int8(values) => to(values, value)?,
            Column::Int16(values) => to(values, value)?,
            Column::Int32(values) => to(values, value)?,
            Column::Int64(values) => to(values, value)?,
            Column::Fp16(_)
            | Column::Bf16(_)
            | Column::Fp32(_)
            | Column::Fp64(_)
            | Column::Bytes(_) => {
                let dtype = self.dtype();
                return Err(ElementError::OtherKind { dtype, given: "an integer" });
            }
        };
        if !fits {
            return Err(ElementError::of(Fault::Range, self.dtype(), &value.to_string()));
        }
        self.count += 1;
        Ok(())
    }

    /// Adds the element `value`.
    ///
    /// # Errors
    /// When the elements are no strings, or it is too long for one.
    pub fn push_bytes(&mut self, value: &[u8]) -> Result<(), ElementError> {
        let dtype = self.dtype();
        let Column::Bytes(strings) = &mut self.column else {
            return Err(ElementError::OtherKind { dtype, given: "a string" });
        };
        let start = strings.begin()?;
        strings.0.extend_from_slice(value)?;
        strings.end(start)?;
        self.count += 1;
        Ok(())
    }

    /// The tensor of that input.
    ///
    /// # Errors
    /// Those of [`TensorBuilder::finish`].
    pub fn finish_input(self, port: &Port, shape: Shape) -> Result<NamedTensor, Error> {
        let tensor = self.finish(shape).map_err(|it| Error::input(&*port.name, it))?;
        Ok(NamedTensor { name: port.name.clone(), tensor })
    }

    /// The tensor.
    ///
    /// # Errors
    /// When the number of elements is not what the shape calls for.
    pub fn finish(self, shape: Shape) -> Result<Tensor, SizeMismatch> {
        match self.column {
            Column::Bool(values) => Tensor::new(DataType::Bool, shape, values.0.into_vec().into()),
            Column::Uint8(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Uint16(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Uint32(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Uint64(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Int8(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Int16(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Int32(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Int64(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Fp16(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Bf16(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Fp32(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Fp64(values) => Tensor::from_vec(shape, values.into_vec()),
            Column::Bytes(strings) => {
                Tensor::new(DataType::Bytes, shape, strings.0.into_vec().into())
            }
        }
    }
}
