//! Rows of numbers on their way into the one input that takes them, for formats that know nothing but rows of
//! numbers: libsvm, RecordIO, delimited text, the bodies of AWS's algorithms.

use backend::{DataType, NamedTensor};

use crate::{
    csv,
    elements::{ElementError, TensorBuilder},
    expansion::{Limit, MOST_ELEMENTS, OMITTED, OPEN},
    inputs,
    number::Number as _,
    shapes,
};
use inference::{
    error::Error,
    grant::Grant,
    granted::Granted,
    signature::{Port, Signature},
};

/// What an element is that a sparse row does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingValue {
    /// Not known: NaN. So XGBoost reads it.
    Nan,
    /// Zero. So AWS's algorithms read it.
    Zero,
}

/// Why a row is refused: what is said of it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum RowError {
    #[error(transparent)]
    Element(#[from] ElementError),
    /// The memory for it is not granted.
    #[error(transparent)]
    NoRoom(#[from] Error),
    #[error("has {given} values, expected {expected} as the first")]
    Uneven { given: usize, expected: usize },
    #[error("has {given} values, the model takes {width}")]
    TooMany { given: usize, width: usize },
    #[error(
        "has {given} values, the model takes {width}; it is a Booster in a pickle, of which XGBoost's container takes \
         {} or {width}: send the others empty where they are missing",
        .width - 1
    )]
    TooFew { given: usize, width: usize },
    #[error(
        "would make the rows {length} bytes of {dtype} with all that are absent, more than the {most} that a body of \
         this length may become: send fewer rows"
    )]
    Grows { length: usize, dtype: DataType, most: usize },
    #[error("names position {0} twice")]
    Twice(usize),
    #[error("names position {at}, the row has {width} positions")]
    Beyond { at: usize, width: usize },
    #[error("leaves out a value, and {0} has no value that means missing")]
    NoMissingValue(DataType),
    #[error("has {given} values, its shape calls for {shape}")]
    OtherShape { given: usize, shape: u64 },
    #[error("has {values} values and {keys} keys")]
    OtherKeys { values: usize, keys: usize },
    #[error("the feature '{0}' is of bytes, expected a tensor of numbers")]
    OfBytes(&'static str),
    #[error("is sparse and has no shape, which says how many values it has")]
    NoShape,
}

/// How many of a row's last values may be left out, which are missing then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// One: XGBoost's container allows it for a `Booster` in a pickle.
    One,
    /// Any number, as XGBoost itself has it.
    Any,
}

/// The rows so far. All have as many columns as the first.
pub struct Matrix<'s> {
    signature: &'s Signature,
    port: &'s Port,
    builder: TensorBuilder<'s>,
    /// Most bytes of it where rows are sparse: a few bytes of text can name a column far to the right, or a row of
    /// thousands of columns.
    most: usize,
    columns: usize,
    /// Elements of the rows that have ended.
    ended: usize,
    rows: usize,
}

impl<'s> Matrix<'s> {
    /// No rows. `format` is what they come in, for the error; `sent`: bytes of the body.
    ///
    /// # Errors
    /// When the model has not one input of numbers that its rows could belong to.
    pub fn new(
        signature: &'s Signature,
        format: &str,
        sent: usize,
        grant: &'s Grant,
    ) -> Result<Matrix<'s>, Error> {
        let port = numbers(signature).ok_or_else(|| {
            let names = inputs::names_of(signature);
            Error::InvalidRequest(format!(
                "{format} carries rows of numbers for one input; the inputs of the model are {names}"
            ))
        })?;
        let builder = TensorBuilder::new(port.dtype, None, grant);
        let size = port.dtype.size().unwrap_or(1);
        let limit = limit(width(signature, port));
        let most = limit.bytes(sent).min(MOST_ELEMENTS.saturating_mul(size));
        Ok(Matrix { signature, port, builder, most, columns: 0, ended: 0, rows: 0 })
    }

    /// Numbers in one row of the input; `None` where that is open.
    pub fn width(&self) -> Option<usize> {
        width(self.signature, self.port)
    }

    /// Who is asked for the memory of the rows.
    pub fn grant(&self) -> &'s Grant {
        self.builder.grant()
    }

    /// The input that the rows are for.
    pub fn name(&self) -> &str {
        &self.port.name
    }

    /// May `null` stand for a value that is missing?
    pub fn takes_missing(&self) -> bool {
        self.signature.takes_missing
    }

    /// Adds a number to the row that is being read, from text as CSV has it.
    ///
    /// # Errors
    /// What was expected and what was found.
    pub fn text(&mut self, text: &str) -> Result<(), ElementError> {
        csv::push_number(&mut self.builder, text)
    }

    /// Adds a number to the row that is being read, from text as JSON has it. It is rounded once, and integers are read
    /// as they are.
    ///
    /// # Errors
    /// When it is none, or the input's type cannot hold it.
    pub fn json_number(&mut self, text: &str) -> Result<(), ElementError> {
        self.text(text).or_else(|problem| match f64::read(text.as_bytes()) {
            // A whole number may be spelled with a point or an exponent.
            Ok((value, _)) if text.contains(['.', 'e', 'E']) => self.number(value),
            Ok(_) | Err(_) => Err(problem),
        })
    }

    /// Adds a number to the row that is being read.
    ///
    /// # Errors
    /// When the input's type cannot hold it.
    pub fn number(&mut self, value: f64) -> Result<(), ElementError> {
        self.builder.push_f64(value)
    }

    /// Ends a row whose numbers have all been added.
    ///
    /// # Errors
    /// When it has not as many as the first one.
    pub fn end_row(&mut self) -> Result<(), RowError> {
        let columns = self.builder.count().saturating_sub(self.ended);
        if self.rows > 0 && columns != self.columns {
            return Err(RowError::Uneven { given: columns, expected: self.columns });
        }
        self.columns = columns;
        self.ended = self.builder.count();
        self.rows += 1;
        Ok(())
    }

    /// Are so many values of a row enough and not too many? So they are where the model takes any number.
    ///
    /// # Errors
    /// How many the model takes.
    pub fn check_columns(&self, given: usize, may_be: LeftOut) -> Result<(), RowError> {
        match self.width() {
            Some(width) if width < given => Err(RowError::TooMany { given, width }),
            Some(width) if may_be == LeftOut::One && given.saturating_add(1) < width => {
                Err(RowError::TooFew { given, width })
            }
            _ => Ok(()),
        }
    }

    /// Ends a row whose last numbers may be left out: what the model takes beyond it is missing.
    ///
    /// # Errors
    /// When it has more numbers than the model takes, or too few. When the rows become too large, or the input's type
    /// has no value that means missing. When the model takes any number and it has not as many as the first one.
    pub fn end_short_row(&mut self, may_be: LeftOut) -> Result<(), RowError> {
        let given = self.builder.count().saturating_sub(self.ended);
        self.check_columns(given, may_be)?;
        let Some(width) = self.width() else { return self.end_row() };
        let left_out = width.saturating_sub(given);
        if 0 < left_out {
            self.check_growth(left_out)?;
            self.push_missing(left_out, MissingValue::Nan)?;
        }
        self.end_row()
    }

    /// That so many numbers more are not too many for a body of this length.
    fn check_growth(&self, more: usize) -> Result<(), RowError> {
        let size = self.port.dtype.size().unwrap_or(1);
        let length = self.builder.count().saturating_add(more).saturating_mul(size);
        if length <= self.most {
            return Ok(());
        }
        Err(RowError::Grows { length, dtype: self.port.dtype, most: self.most })
    }

    /// Has a batch no room for another row? Then it is refused in the end, and its rows need only be counted.
    fn is_full(&self) -> bool {
        self.most_rows().is_some_and(|it| it <= self.rows)
    }

    fn most_rows(&self) -> Option<usize> {
        self.signature.most_rows.filter(|_| self.signature.batches())
    }

    /// Adds a whole row of `width` numbers, of which only some are given: by position, ascending. `add` adds the
    /// number of an entry.
    ///
    /// # Errors
    /// When the rows become too large, an entry stands behind the end or twice, and those of `add`.
    pub fn sparse<T>(
        &mut self,
        width: usize,
        missing: MissingValue,
        entries: &mut Granted<'_, (usize, T)>,
        mut add: impl FnMut(&mut Matrix<'s>, &T) -> Result<(), ElementError>,
    ) -> Result<(), RowError> {
        if self.is_full() {
            self.rows += 1;
            return Ok(());
        }
        self.check_growth(width)?;
        // Such a row is not added first: only one like the first row takes memory.
        if self.rows > 0 && width != self.columns {
            return Err(RowError::Uneven { given: width, expected: self.columns });
        }
        entries.sort_by_key(|it| it.0)?;
        let mut next = 0;
        for (at, entry) in entries.iter() {
            if *at < next {
                return Err(RowError::Twice(*at));
            }
            if *at >= width {
                return Err(RowError::Beyond { at: *at, width });
            }
            self.push_missing(at - next, missing)?;
            add(self, entry)?;
            next = at + 1;
        }
        self.push_missing(width.saturating_sub(next), missing)?;
        self.end_row()
    }

    fn push_missing(&mut self, count: usize, missing: MissingValue) -> Result<(), RowError> {
        let value = match missing {
            MissingValue::Zero => 0.0,
            MissingValue::Nan if csv::is_float(self.port.dtype) => f64::NAN,
            MissingValue::Nan if count == 0 => return Ok(()),
            MissingValue::Nan => return Err(RowError::NoMissingValue(self.port.dtype)),
        };
        Ok(self.builder.push_f64_times(value, count)?)
    }

    /// The rows as the model's inputs. `format` is what they came in, for the error.
    ///
    /// # Errors
    /// When there is none, or more than a batch has; when the input has other columns.
    pub fn finish(self, format: &str) -> Result<Vec<NamedTensor>, Error> {
        let most_rows = self.most_rows();
        let Matrix { signature, port, builder, columns, rows, .. } = self;
        if rows == 0 {
            return Err(Error::InvalidRequest(format!("the {format} body has no records")));
        }
        if let Some(max) = most_rows.filter(|it| *it < rows) {
            let problem = format!("{rows} rows are more than max_batch_size {max}");
            return Err(Error::input(&*port.name, problem));
        }
        let shape = shapes::of_rows(signature, port, rows, columns).ok_or_else(|| {
            let expected = signature.shape_text(port);
            let problem =
                format!("expected shape {expected}, the {format} body has [{rows},{columns}]");
            Error::input(&*port.name, problem)
        })?;
        Ok(vec![builder.finish_input(port, shape)?])
    }
}

/// How large sparse rows may become, by the numbers in a row of the model.
pub fn limit(width: Option<usize>) -> Limit {
    match width {
        Some(_) => OMITTED,
        None => OPEN,
    }
}

/// Numbers in one row of an input; `None` where that is open.
fn width(signature: &Signature, port: &Port) -> Option<usize> {
    match (signature.batches(), port.dims.as_slice()) {
        // The input is a matrix of its own: the first dimension counts rows.
        (false, [_, row]) => *row,
        _ => port.elements(),
    }
}

/// Numbers in one row of the input that rows belong to; `None` where that is open, or there is no such input.
pub fn width_of(signature: &Signature) -> Option<usize> {
    width(signature, numbers(signature)?)
}

/// The input of numbers that rows without names belong to.
pub fn numbers(signature: &Signature) -> Option<&Port> {
    let is_numbers = |it: &&Port| !matches!(it.dtype, DataType::Bytes | DataType::Bool);
    inputs::only_input(signature).filter(is_numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{grant, model, show_inputs};

    fn sparse(
        matrix: &mut Matrix<'_>,
        width: usize,
        entries: &[(usize, f64)],
    ) -> Result<(), RowError> {
        let mut given = Granted::new(grant());
        given.extend_from_slice(entries)?;
        matrix.sparse(width, MissingValue::Nan, &mut given, |it, &value| it.number(value))
    }

    #[test]
    fn what_a_row_does_not_name_is_missing_or_zero() {
        let signature = model(8, &["x FP32 [3]"], &[]);
        let mut matrix = Matrix::new(&signature, "f", 0, grant()).unwrap();
        sparse(&mut matrix, 3, &[(2, 0.5), (0, 1.0)]).unwrap();
        let mut none = Granted::new(grant());
        matrix.sparse(3, MissingValue::Zero, &mut none, |_, (): &()| Ok(())).unwrap();
        let shown = show_inputs(&matrix.finish("f").unwrap());
        assert_eq!(shown, "x FP32 [2,3] [1.0,NaN,0.5,0.0,0.0,0.0]\n");
    }

    #[test]
    fn positions_behind_the_end_and_twice_are_refused() {
        let signature = model(8, &["x FP32 [3]"], &[]);
        let mut matrix = Matrix::new(&signature, "f", 0, grant()).unwrap();
        let error = sparse(&mut matrix, 3, &[(3, 1.0)]).unwrap_err().to_string();
        assert_eq!(error, "names position 3, the row has 3 positions");
        let mut matrix = Matrix::new(&signature, "f", 0, grant()).unwrap();
        let error = sparse(&mut matrix, 3, &[(1, 1.0), (1, 1.0)]).unwrap_err().to_string();
        assert_eq!(error, "names position 1 twice");
    }

    #[test]
    fn few_bytes_do_not_become_gigabytes() {
        let signature = model(8, &["x FP32 [-1]"], &[]);
        for width in [(64 << 10) + 1, usize::MAX] {
            let mut matrix = Matrix::new(&signature, "f", 0, grant()).unwrap();
            let error = sparse(&mut matrix, width, &[(1, 1.0)]).unwrap_err().to_string();
            assert!(error.contains("more than the 262144 that a body"), "{error}");
        }
        // However many.
        let mut matrix = Matrix::new(&signature, "f", usize::MAX, grant()).unwrap();
        let error = sparse(&mut matrix, (1 << 24) + 1, &[]).unwrap_err().to_string();
        assert!(error.contains("more than the 67108864 that a body"), "{error}");
        // A model without a batch dimension has no other bound.
        let signature = model(0, &["x UINT8 [-1,10000]"], &[]);
        let mut matrix = Matrix::new(&signature, "f", 2000, grant()).unwrap();
        let mut row = || {
            let mut given = Granted::new(grant());
            given.push((1, 1.0))?;
            matrix.sparse(10_000, MissingValue::Zero, &mut given, |it, &value| it.number(value))
        };
        let error = (0..2000).find_map(|_| row().err()).unwrap().to_string();
        assert!(error.contains("more than the 4706304 that a body"), "{error}");
    }

    #[test]
    fn rows_of_which_few_values_are_given_are_honest() {
        let signature = model(2000, &["x FP32 [10000]"], &[]);
        let mut matrix = Matrix::new(&signature, "f", 1000 * 200, grant()).unwrap();
        for _ in 0..1000 {
            sparse(&mut matrix, 10_000, &[(9_999, 1.0)]).unwrap();
        }
        let inputs = matrix.finish("f").unwrap();
        assert_eq!(inputs[0].tensor.shape().dims(), [1000, 10_000]);
    }

    #[test]
    fn rows_beyond_a_batch_are_counted_and_not_made() {
        let signature = model(8, &["x FP32 [10000]"], &[]);
        let mut matrix = Matrix::new(&signature, "f", 0, grant()).unwrap();
        for _ in 0..100_000 {
            sparse(&mut matrix, 10_000, &[]).unwrap();
        }
        assert_eq!(matrix.builder.count(), 80_000);
        let error = matrix.finish("f").unwrap_err().to_string();
        assert_eq!(error, "input 'x': 100000 rows are more than max_batch_size 8");
    }

    #[test]
    fn integers_have_no_missing_value() {
        let signature = model(8, &["x INT64 [2]"], &[]);
        let mut matrix = Matrix::new(&signature, "f", 0, grant()).unwrap();
        sparse(&mut matrix, 2, &[(0, 7.0), (1, -2.0)]).unwrap();
        let error = sparse(&mut matrix, 2, &[(0, 1.0)]).unwrap_err().to_string();
        assert!(error.contains("no value that means missing"), "{error}");
        let error = matrix.number(0.5).unwrap_err().to_string();
        assert_eq!(error, "expected an integer for INT64, found 0.5");
    }

    #[test]
    fn the_rows_must_fit_the_only_input_of_numbers() {
        let two = model(8, &["a FP32 [1]", "b FP32 [1]"], &[]);
        let error = Matrix::new(&two, "libsvm", 0, grant()).err().unwrap().to_string();
        let expected =
            "libsvm carries rows of numbers for one input; the inputs of the model are 'a', 'b'";
        assert_eq!(error, expected);
        let signature = model(8, &["x FP32 [3]"], &[]);
        let mut matrix = Matrix::new(&signature, "f", 0, grant()).unwrap();
        sparse(&mut matrix, 2, &[]).unwrap();
        let error = matrix.finish("f").unwrap_err().to_string();
        assert_eq!(error, "input 'x': expected shape [-1,3], the f body has [1,2]");
    }
}
