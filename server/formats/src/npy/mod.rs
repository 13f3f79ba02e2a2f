//! One array in NumPy's `.npy` format, versions 1.0 to 3.0, both ways. Pickled objects and text are refused.

mod header;
mod order;

use backend::{DataType, Element, Shape, Tensor};
use bytes::Bytes;
use half::{bf16, f16};

use header::Header;
pub use header::MAGIC;
use inference::{error::Error, grant::Grant, signature::Port};
use order::{Elements, Straight, Transposed};

/// The array of `body` as a tensor of the input's type and the array's own shape.
///
/// An array of the input's type in C order is not copied; one in Fortran order, which values of a data frame are in, is
/// transposed. Arrays of other types are converted where NumPy itself would call it
/// `same_kind`: between widths of floats (rounded), from integers and booleans to any number type, and
/// between integers. `np.random.rand` gives 64-bit floats and a list of Python numbers 64-bit integers,
/// so that most arrays need it. A finite value that the input's type cannot hold is an error, never
/// wrapped and never made infinite.
///
/// # Errors
/// When the file is malformed, of a kind that is refused, or does not fit the input's type.
pub fn decode(port: &Port, body: &Bytes, grant: &Grant) -> Result<Tensor, Error> {
    let header = Header::parse(body)?;
    let Header { dtype, ref shape, data_start, .. } = header;
    let data = body.slice(data_start.min(body.len())..);
    let size = dtype.size().unwrap_or(1);
    let expected = shape.elements().and_then(|it| it.checked_mul(size));
    if expected != Some(data.len()) {
        return Err(Error::InvalidRequest(format!(
            "npy: {dtype} of shape {shape} takes {} bytes, the file has {} after its header",
            expected.map_or("more than can be addressed in".to_owned(), |it| it.to_string()),
            data.len()
        )));
    }
    let in_place = header.is_in_place(port);
    if dtype == DataType::Bool
        && let Some(at) = data.iter().position(|&it| it > 1)
    {
        let problem = format!("npy: element {at} is no boolean: neither 0 nor 1");
        return Err(Error::input(&*port.name, problem));
    }
    if in_place {
        return Tensor::new(dtype, shape.clone(), data).map_err(|it| Error::input(&*port.name, it));
    }
    let converted = (data.len() / size).saturating_mul(port.dtype.size().unwrap_or(0));
    grant.take(|_| converted.saturating_add(OWNER))?;
    let big_endian = header.big_endian;
    match header.is_transposed() {
        true => {
            let elements = Transposed { data: &data, big_endian, dims: shape.dims() };
            convert(&header, &elements, port)
        }
        false => convert(&header, &Straight { data: &data, big_endian }, port),
    }
}

/// Type and shape of the array in a file, by its header.
///
/// # Errors
/// When the header is malformed, or of a kind that is refused.
pub fn described(file: &[u8]) -> Result<(DataType, Shape), Error> {
    let header = Header::parse(file)?;
    Ok((header.dtype, header.shape))
}

/// Bytes of what owns the elements of a tensor.
const OWNER: usize = 256;

/// Bytes of the tensor that [`decode`] makes of this file.
///
/// # Errors
/// When its header is malformed, or of a kind that is refused.
pub fn length(port: &Port, body: &[u8]) -> Result<usize, Error> {
    let header = Header::parse(body)?;
    let size = port.dtype.size().unwrap_or(1);
    Ok(header.shape.elements().and_then(|it| it.checked_mul(size)).unwrap_or(usize::MAX))
}

/// The tensor as a file: the header, then the tensor's own buffers.
///
/// BF16, which NumPy lacks, is widened to 32-bit floats. `None` for BYTES.
pub fn encode(tensor: &Tensor) -> Option<Vec<Bytes>> {
    let (descr, data) = match tensor.dtype() {
        DataType::Bytes => return None,
        DataType::Bf16 => ("<f4", tensor.segments().iter().map(widened).collect()),
        other => (header::descr(other)?, tensor.segments().to_vec()),
    };
    let mut parts = vec![header::encode(descr, tensor.shape())?];
    parts.extend(data);
    Some(parts)
}

/// 16-bit brain floats as 32-bit floats: the same bits, with zeros below.
fn widened(segment: &Bytes) -> Bytes {
    segment.as_chunks().0.iter().flat_map(|&[low, high]| [0, 0, low, high]).collect()
}

/// The elements as a tensor of another type or byte order, or of another order than the file's.
fn convert(header: &Header, elements: &impl Elements, port: &Port) -> Result<Tensor, Error> {
    let conversion = Conversion { shape: &header.shape, source: header.dtype, port };
    if header.dtype == port.dtype {
        return conversion.same(elements);
    }
    match header.dtype {
        DataType::Bool | DataType::Uint8 => {
            conversion.integers(elements.words().map(u8::from_le_bytes))
        }
        DataType::Int8 => conversion.integers(elements.words().map(i8::from_le_bytes)),
        DataType::Uint16 => conversion.integers(elements.words().map(u16::from_le_bytes)),
        DataType::Int16 => conversion.integers(elements.words().map(i16::from_le_bytes)),
        DataType::Uint32 => conversion.integers(elements.words().map(u32::from_le_bytes)),
        DataType::Int32 => conversion.integers(elements.words().map(i32::from_le_bytes)),
        DataType::Uint64 => conversion.integers(elements.words().map(u64::from_le_bytes)),
        DataType::Int64 => conversion.integers(elements.words().map(i64::from_le_bytes)),
        DataType::Fp16 => conversion.floats(elements.words().map(f16::from_le_bytes)),
        DataType::Fp32 => conversion.floats(elements.words().map(f32::from_le_bytes)),
        DataType::Fp64 => conversion.floats(elements.words().map(f64::from_le_bytes)),
        DataType::Bf16 | DataType::Bytes => Err(conversion.refused()),
    }
}

struct Conversion<'a> {
    shape: &'a Shape,
    source: DataType,
    /// The input that the tensor is for.
    port: &'a Port,
}

impl Conversion<'_> {
    /// Elements of the same type, bit for bit.
    fn same(&self, elements: &impl Elements) -> Result<Tensor, Error> {
        match self.port.dtype.size() {
            Some(1) => self.gathered(elements.words::<1>()),
            Some(2) => self.gathered(elements.words::<2>()),
            Some(4) => self.gathered(elements.words::<4>()),
            Some(8) => self.gathered(elements.words::<8>()),
            _ => Err(self.refused()),
        }
    }

    fn gathered<const N: usize>(
        &self,
        words: impl Iterator<Item = [u8; N]>,
    ) -> Result<Tensor, Error> {
        let words: Vec<[u8; N]> = words.collect();
        Tensor::new(self.port.dtype, self.shape.clone(), words.into_flattened().into())
            .map_err(|it| Error::input(&*self.port.name, it))
    }

    fn floats<T: Into<f64>>(&self, values: impl Iterator<Item = T>) -> Result<Tensor, Error> {
        let values = values.map(Into::into);
        match self.port.dtype {
            DataType::Fp16 => self.narrowed(values, f16::from_f64, f16::is_infinite),
            DataType::Bf16 => self.narrowed(values, bf16::from_f64, bf16::is_infinite),
            DataType::Fp32 => self.narrowed(values, |it| it as f32, f32::is_infinite),
            DataType::Fp64 => self.tensor(values.collect()),
            DataType::Bool
            | DataType::Uint8
            | DataType::Uint16
            | DataType::Uint32
            | DataType::Uint64
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Bytes => Err(self.refused()),
        }
    }

    fn integers<T: Into<i128>>(&self, values: impl Iterator<Item = T>) -> Result<Tensor, Error> {
        let values = values.map(Into::into);
        match self.port.dtype {
            DataType::Uint8 => self.checked::<u8>(values),
            DataType::Uint16 => self.checked::<u16>(values),
            DataType::Uint32 => self.checked::<u32>(values),
            DataType::Uint64 => self.checked::<u64>(values),
            DataType::Int8 => self.checked::<i8>(values),
            DataType::Int16 => self.checked::<i16>(values),
            DataType::Int32 => self.checked::<i32>(values),
            DataType::Int64 => self.checked::<i64>(values),
            DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 => {
                self.floats(values.map(|it| it as f64))
            }
            DataType::Bool | DataType::Bytes => Err(self.refused()),
        }
    }

    /// Integers of a type that must be able to hold them.
    fn checked<T: Element + Send + TryFrom<i128>>(
        &self,
        values: impl Iterator<Item = i128>,
    ) -> Result<Tensor, Error> {
        let values = values
            .enumerate()
            .map(|(at, value)| T::try_from(value).map_err(|_| self.too_large(at, value)));
        self.collected(values)
    }

    /// Floats of a type in which finite values must stay finite.
    fn narrowed<T: Element + Send>(
        &self,
        values: impl Iterator<Item = f64>,
        narrow: fn(f64) -> T,
        is_infinite: fn(T) -> bool,
    ) -> Result<Tensor, Error> {
        let values = values.enumerate().map(|(at, value)| {
            let narrowed = narrow(value);
            match is_infinite(narrowed) && value.is_finite() {
                true => Err(self.too_large(at, value)),
                false => Ok(narrowed),
            }
        });
        self.collected(values)
    }

    /// A tensor of elements whose number the header says: its memory is made once.
    fn collected<T: Element + Send>(
        &self,
        values: impl Iterator<Item = Result<T, Error>>,
    ) -> Result<Tensor, Error> {
        let mut elements = Vec::with_capacity(self.shape.elements().unwrap_or(0));
        for value in values {
            elements.push(value?);
        }
        self.tensor(elements)
    }

    fn tensor<T: Element + Send>(&self, values: Vec<T>) -> Result<Tensor, Error> {
        Tensor::from_vec(self.shape.clone(), values)
            .map_err(|it| Error::input(&*self.port.name, it))
    }

    fn too_large(&self, at: usize, value: impl std::fmt::Display) -> Error {
        let Port { name, dtype, .. } = self.port;
        let problem = format_args!("npy: element {at} is {value}, which {dtype} cannot hold");
        Error::input(&**name, problem)
    }

    fn refused(&self) -> Error {
        let Port { name, dtype, .. } = self.port;
        let given = self.source;
        Error::input(&**name, format_args!("npy: expected an array of {dtype}, given {given}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(port: &Port, body: &Bytes) -> Result<Tensor, Error> {
        super::decode(port, body, &Grant::all(0))
    }

    /// Bytes that are asked for.
    fn granted(dtype: DataType, body: &Bytes) -> usize {
        let grant = Grant::all(0);
        super::decode(&port(dtype), body, &grant).unwrap();
        grant.granted()
    }

    fn port(dtype: DataType) -> Port {
        Port {
            name: "x".into(),
            dtype,
            dims: vec![None],
            any_rank: false,
            scalar: false,
            optional: false,
            labels: Default::default(),
            text_codes: Default::default(),
        }
    }

    fn file(descr: &str, shape: &str, data: &[u8]) -> Bytes {
        ordered(descr, "False", shape, data)
    }

    fn ordered(descr: &str, fortran_order: &str, shape: &str, data: &[u8]) -> Bytes {
        let header = format!(
            "{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}\n"
        );
        let mut file = MAGIC.to_vec();
        file.extend([1, 0]);
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(data);
        file.into()
    }

    #[track_caller]
    fn refused(dtype: DataType, file: Bytes, text: &str) {
        let error = decode(&port(dtype), &file).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }

    #[test]
    fn an_array_of_the_inputs_type_is_not_copied() {
        let body = file("<f4", "(1, 2)", &[0, 0, 128, 63, 0, 0, 0, 64]);
        let tensor = decode(&port(DataType::Fp32), &body).unwrap();
        assert_eq!(tensor.shape().dims(), [1, 2]);
        let data = tensor.contiguous().unwrap();
        assert_eq!(data.as_ptr(), body.slice(body.len() - 8..).as_ptr());
    }

    #[test]
    fn doubles_become_the_floats_of_the_model() {
        let body = file("<f8", "(2,)", &[0.1f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat());
        let tensor = decode(&port(DataType::Fp32), &body).unwrap();
        let values = tensor.as_slice_of::<f32>().unwrap();
        assert_eq!(values[0], 0.1f32);
        assert!(values[1].is_nan());
    }

    #[test]
    fn big_endian_integers_are_swapped_and_narrowed_when_they_fit() {
        let tensor = decode(&port(DataType::Int32), &file(">i8", "(1,)", &(-7i64).to_be_bytes()));
        assert_eq!(tensor.unwrap().as_slice_of(), Some([-7i32].as_slice()));
        let large = file("<i8", "(1,)", &(1i64 << 40).to_le_bytes());
        refused(DataType::Int32, large.clone(), "element 0 is 1099511627776, which INT32");
        assert!(decode(&port(DataType::Fp32), &large).is_ok());
    }

    #[test]
    fn an_array_in_fortran_order_is_transposed_whatever_its_type() {
        // [[1, 3, 5], [2, 4, 6]]
        let data: Vec<u8> = (1..=6i16).flat_map(i16::to_le_bytes).collect();
        let body = ordered("<i2", "True", "(2, 3)", &data);
        let same = decode(&port(DataType::Int16), &body).unwrap();
        assert_eq!(same.shape().dims(), [2, 3]);
        assert_eq!(same.as_slice_of(), Some([1i16, 3, 5, 2, 4, 6].as_slice()));
        let floats = decode(&port(DataType::Fp32), &body).unwrap();
        assert_eq!(floats.as_slice_of(), Some([1f32, 3.0, 5.0, 2.0, 4.0, 6.0].as_slice()));
        assert_eq!(granted(DataType::Int16, &body), 12 + OWNER);
        let data: Vec<u8> = (1..=6i16).flat_map(i16::to_be_bytes).collect();
        let body = ordered(">i2", "True", "(2, 3)", &data);
        for dtype in [DataType::Int16, DataType::Int64] {
            assert_eq!(decode(&port(dtype), &body).unwrap().shape().dims(), [2, 3]);
        }
        let swapped = decode(&port(DataType::Int16), &body).unwrap();
        assert_eq!(swapped.to_bytes(), same.to_bytes());
        let truths = ordered("|b1", "True", "(2, 2)", &[1, 0, 1, 1]);
        let truths = decode(&port(DataType::Bool), &truths).unwrap();
        assert_eq!(&truths.to_bytes()[..], [1, 1, 0, 1]);
    }

    #[test]
    fn an_array_that_both_orders_have_alike_is_not_copied() {
        for shape in ["()", "(1,)", "(1, 1)"] {
            let body = ordered("<f4", "True", shape, &[0, 0, 128, 63]);
            let tensor = decode(&port(DataType::Fp32), &body).unwrap();
            assert_eq!(
                tensor.contiguous().unwrap().as_ptr(),
                body.slice(body.len() - 4..).as_ptr()
            );
            assert_eq!(granted(DataType::Fp32, &body), 0);
        }
        let short = ordered("<f4", "True", "(2, 2)", &[0; 15]);
        refused(DataType::Fp32, short, "takes 16 bytes, the file has 15");
        let none = ordered("<f4", "True", "(0, 18446744073709551615, 2)", &[]);
        assert_eq!(decode(&port(DataType::Fp32), &none).unwrap().elements(), 0);
    }

    #[test]
    fn a_finite_value_never_becomes_infinite() {
        refused(DataType::Fp32, file("<f8", "(1,)", &1e300f64.to_le_bytes()), "FP32 cannot hold");
    }

    #[test]
    fn floats_do_not_become_integers_nor_numbers_strings() {
        let body = file("<f4", "(1,)", &[0; 4]);
        refused(DataType::Int64, body.clone(), "expected an array of INT64, given FP32");
        refused(DataType::Bytes, body, "expected an array of BYTES");
    }

    #[test]
    fn a_boolean_is_zero_or_one() {
        refused(DataType::Bool, file("|b1", "(2,)", &[1, 2]), "element 1 is no boolean");
        assert!(decode(&port(DataType::Fp32), &file("|b1", "(2,)", &[1, 0])).is_ok());
    }

    #[test]
    fn the_data_must_have_the_length_that_the_header_calls_for() {
        refused(DataType::Fp32, file("<f4", "(2,)", &[0; 7]), "takes 8 bytes, the file has 7");
        let huge = file("<f4", "(18446744073709551615, 2)", &[]);
        refused(DataType::Fp32, huge, "more than can be addressed");
    }

    #[test]
    fn brain_floats_are_written_as_floats() {
        let tensor = Tensor::from_vec(Shape::new(&[1]), vec![bf16::from_f32(1.5)]).unwrap();
        let body = encode(&tensor).unwrap().concat().into();
        let read = decode(&port(DataType::Fp32), &body).unwrap();
        assert_eq!(read.as_slice_of(), Some([1.5f32].as_slice()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(tail in any::<Vec<u8>>(), version in 0u8..4) {
            let body = [MAGIC, &[version, 0], &tail].concat().into();
            for dtype in DataType::ALL {
                let _ = decode(&port(dtype), &body);
            }
        }

        #[test]
        fn what_is_written_reads_back(values in prop::collection::vec(any::<u64>(), 0..20)) {
            let count = values.len();
            for dtype in DataType::ALL {
                let Some(size) = dtype.size().filter(|_| dtype != DataType::Bf16) else { continue };
                let mut data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
                data.truncate(count * size);
                if dtype == DataType::Bool {
                    data.iter_mut().for_each(|it| *it &= 1);
                }
                let tensor = Tensor::new(dtype, Shape::new(&[count, 1]), data.into()).unwrap();
                let parts = encode(&tensor).unwrap();
                prop_assert_eq!(parts[0].len() % 64, 0);
                let read = decode(&port(dtype), &parts.concat().into()).unwrap();
                prop_assert_eq!(read.shape(), tensor.shape());
                prop_assert_eq!(read.to_bytes(), tensor.to_bytes());
            }
        }
    }
}
