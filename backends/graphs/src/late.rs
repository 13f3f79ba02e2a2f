//! Weights that are not used as they lie in their files: their bytes are computed, or read, while a model is loaded.

use std::{os::unix::fs::FileExt, path::Path};

use crate::{
    error::GraphError,
    onnx::{ElementType, Tensor},
    weights::Weight,
};

/// A weight whose bytes a graph gets at load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    /// What it is made of.
    pub(crate) weight: Weight,
    pub(crate) form: Form,
}

/// What is made of a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// The tensor of that name, as it lies in its file.
    AsItLies(String),
    /// Codes of 8 bits, a scale for each row of the weight, and whatever else these tensors are, in this order.
    Codes { layout: Layout, outs: Vec<Out> },
}

/// How codes stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Rows of the weight are columns, as products take them.
    Matrix,
    /// As in the weight.
    Table,
}

/// Codes, scales and sums of a weight as a matrix. A sum is that of the numbers that the codes of a row stand for.
pub(crate) fn matrix(name: &str, [rows, size]: [usize; 2]) -> [Out; 3] {
    let out = |what, element, dims| Out::new(format!("{name}.matrix.{what}"), element, dims);
    [
        out("codes", ElementType::Int8, vec![size, rows]),
        out("scales", ElementType::Float, vec![rows]),
        out("sums", ElementType::Float, vec![1, rows]),
    ]
}

/// Codes and scales of a weight as a table. One weight may be both.
pub(crate) fn table(name: &str, [rows, size]: [usize; 2]) -> [Out; 2] {
    let out = |what, element, dims| Out::new(format!("{name}.table.{what}"), element, dims);
    [
        out("codes", ElementType::Int8, vec![rows, size]),
        out("scales", ElementType::Float, vec![rows, 1]),
    ]
}

/// A tensor that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) name: String,
    pub(crate) element: ElementType,
    pub(crate) dims: Vec<i64>,
}

impl Out {
    fn new(name: String, element: ElementType, dims: Vec<usize>) -> Out {
        Out { name, element, dims: dims.into_iter().map(|it| it as i64).collect() }
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> u64 {
        self.dims.iter().map(|it| *it as u64).product::<u64>() * self.element.size() as u64
    }
}

/// So many rows are read at once: as many bytes of a column are written together.
const ROWS: usize = 64;

impl Late {
    /// Is the tensor of that name made of this weight?
    pub(crate) fn makes(&self, name: &str) -> bool {
        match &self.form {
            Form::AsItLies(own) => own == name,
            Form::Codes { outs, .. } => outs.iter().any(|it| it.name == name),
        }
    }

    /// Bytes of what is made.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.form {
            Form::AsItLies(_) => self.weight.place.length,
            Form::Codes { outs, .. } => outs.iter().map(Out::bytes).sum(),
        }
    }

    /// What is made, with its bytes. Blocking; the file lies in that folder.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn tensors(&self, folder: &Path) -> Result<Vec<Tensor>, GraphError> {
        let Late { weight, form } = self;
        let place = &weight.place;
        let dims: Vec<i64> = weight.dims.iter().map(|it| *it as i64).collect();
        let (layout, outs) = match form {
            Form::AsItLies(name) => {
                let bytes = place.bytes(folder)?;
                return Ok(vec![Tensor::inside(name, weight.element, &dims, bytes)]);
            }
            Form::Codes { layout, outs } => (*layout, outs),
        };
        let failed = |it: std::io::Error| GraphError::file(&place.file, it.to_string());
        let file = backend::open_file(&folder.join(&place.file)).map_err(failed)?;
        let count = weight.dims.first().copied().unwrap_or(1).max(1);
        let size = weight.dims.iter().skip(1).product::<usize>();
        let mut made = Made::new(count, size, layout);
        let mut bytes = vec![0; ROWS.min(count) * size * weight.element.size()];
        let mut floats = Vec::new();
        for first in (0..count).step_by(ROWS) {
            let rows = ROWS.min(count - first);
            let length = rows * size * weight.element.size();
            let read = bytes.get_mut(..length).unwrap_or_default();
            let at = place.offset + (first * size * weight.element.size()) as u64;
            file.read_exact_at(read, at).map_err(failed)?;
            floats.clear();
            to_floats(weight.element, read, &mut floats);
            made.add(first, &floats);
        }
        let Made { codes, scales, sums, .. } = made;
        let bytes_of =
            |it: Vec<f32>| it.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
        let contents = [codes, bytes_of(scales), bytes_of(sums)];
        let tensor =
            |(out, bytes): (&Out, _)| Tensor::inside(&out.name, out.element, &out.dims, bytes);
        Ok(outs.iter().zip(contents).map(tensor).collect())
    }
}

/// Codes while they are made.
struct Made {
    codes: Vec<u8>,
    scales: Vec<f32>,
    sums: Vec<f32>,
    count: usize,
    size: usize,
    layout: Layout,
    /// Codes of the rows that were read at once.
    block: Vec<i8>,
}

impl Made {
    fn new(count: usize, size: usize, layout: Layout) -> Made {
        let (codes, block) = (vec![0; count * size], vec![0; ROWS * size]);
        let [scales, sums] = [vec![0.0; count], vec![0.0; count]];
        Made { codes, scales, sums, count, size, layout, block }
    }

    /// Rows from the one of that number on.
    fn add(&mut self, first: usize, floats: &[f32]) {
        if self.size == 0 {
            return;
        }
        let most = most_of_codes();
        let rows = floats.chunks_exact(self.size);
        let found = self.scales.iter_mut().zip(&mut self.sums).skip(first);
        for ((row, block), (scale, sum)) in
            rows.zip(self.block.chunks_exact_mut(self.size)).zip(found)
        {
            *scale = quantise(row, most, block);
            *sum = *scale * block.iter().map(|it| i32::from(*it)).sum::<i32>() as f32;
        }
        let rows = floats.len() / self.size;
        if self.layout == Layout::Table {
            let to = self.codes.iter_mut().skip(first * self.size);
            to.zip(&self.block).take(floats.len()).for_each(|(to, it)| *to = it.cast_unsigned());
            return;
        }
        for (at, column) in self.codes.chunks_exact_mut(self.count).enumerate() {
            let from = self.block.iter().skip(at).step_by(self.size);
            let to = column.iter_mut().skip(first).take(rows);
            to.zip(from).for_each(|(to, it)| *to = it.cast_unsigned());
        }
    }
}

/// The codes of a row; its scale is what a code of 1 stands for.
fn quantise(row: &[f32], most: f32, codes: &mut [i8]) -> f32 {
    // Four at once: a maximum is the same in any order.
    let mut largest = [0f32; 8];
    for part in row.chunks(largest.len()) {
        largest.iter_mut().zip(part).for_each(|(most, it)| *most = most.max(it.abs()));
    }
    let largest = largest.into_iter().fold(0f32, f32::max);
    if largest == 0.0 {
        codes.fill(0);
        return 0.0;
    }
    let per_step = most / largest;
    // Numbers of this size have no digits behind the point: to add it is to round, to the even one of two neighbours.
    const ROUND: f32 = 12_582_912.0;
    for (code, it) in codes.iter_mut().zip(row) {
        *code = ((it * per_step + ROUND) - ROUND) as i32 as i8;
    }
    largest / most
}

/// The largest code of a weight. Processors of x86 that add products of bytes in 16 bits have no room for more.
#[cfg(target_arch = "x86_64")]
fn most_of_codes() -> f32 {
    let has_room = std::arch::is_x86_feature_detected!("avx512vnni")
        || std::arch::is_x86_feature_detected!("avxvnni");
    if has_room { 127.0 } else { 63.0 }
}

/// The largest code of a weight.
#[cfg(not(target_arch = "x86_64"))]
fn most_of_codes() -> f32 {
    127.0
}

/// Numbers of a file, in little endian.
fn to_floats(element: ElementType, bytes: &[u8], floats: &mut Vec<f32>) {
    let of_two = |it: &[u8]| [it.first(), it.get(1)].map(|it| it.copied().unwrap_or(0));
    match element {
        ElementType::Float => floats.extend(
            bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap_or_default())),
        ),
        ElementType::Float16 => floats
            .extend(bytes.chunks_exact(2).map(|it| half::f16::from_le_bytes(of_two(it)).to_f32())),
        ElementType::Bfloat16 => floats
            .extend(bytes.chunks_exact(2).map(|it| half::bf16::from_le_bytes(of_two(it)).to_f32())),
        // No weight of a file has these types.
        ElementType::Uint8 | ElementType::Int8 | ElementType::Int32 | ElementType::Int64 => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_nearest_steps_of_each_rows_largest_number() {
        let row = [1.27, -0.635, 0.0149, 0.0, -1.27, 0.004];
        let mut codes = [9; 6];
        assert_eq!(quantise(&row, 127.0, &mut codes), 1.27 / 127.0);
        assert_eq!(codes, [127, -64, 1, 0, -127, 0]);
        assert_eq!(quantise(&[0.0; 6], 127.0, &mut codes), 0.0);
        assert_eq!(codes, [0; 6]);
    }

    #[test]
    fn rows_of_a_weight_are_columns_of_a_matrix_and_rows_of_a_table() {
        let count = ROWS + 2;
        let weight: Vec<f32> = (0..count * 3).map(|it| it as f32 - 100.0).collect();
        let made = |layout| {
            let mut made = Made::new(count, 3, layout);
            let (first, last) = weight.split_at(ROWS * 3);
            made.add(0, first);
            made.add(ROWS, last);
            made
        };
        let (matrix, table) = (made(Layout::Matrix), made(Layout::Table));
        assert_eq!(matrix.scales, table.scales);
        assert_eq!(matrix.sums[count - 1], {
            let codes = table.codes[(count - 1) * 3..].iter();
            codes.map(|it| f32::from(it.cast_signed())).sum::<f32>() * table.scales[count - 1]
        });
        for row in 0..count {
            for at in 0..3 {
                let code = table.codes[row * 3 + at];
                assert_eq!(matrix.codes[at * count + row], code);
                let near = f32::from(code.cast_signed()) * table.scales[row];
                assert!((near - weight[row * 3 + at]).abs() <= table.scales[row] * 0.51);
            }
        }
    }

    #[test]
    fn halves_of_both_kinds_are_read() {
        let mut floats = Vec::new();
        to_floats(ElementType::Float16, &[0x00, 0x3c], &mut floats);
        to_floats(ElementType::Bfloat16, &[0x80, 0xbf], &mut floats);
        to_floats(ElementType::Float, &0.25f32.to_le_bytes(), &mut floats);
        assert_eq!(floats, [1.0, -1.0, 0.25]);
    }
}
