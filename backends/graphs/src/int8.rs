//! Products of matrices, and rows of tables, in whole numbers of 8 bits.

use crate::{
    builder::{Builder, Codes, Value},
    error::GraphError,
    late::{self, Layout},
    onnx::{Attribute, ElementType},
    precision::Ends,
};

/// The code in the middle of all: products are of distances from it.
const MIDDLE: u8 = 128;

/// The largest distance of a code from the middle where that stands for 0.
const MOST: f32 = 127.0;

/// How many steps there are between the least code and the largest.
const STEPS: f32 = 255.0;

/// Codes of the rows of a matrix. No row has to do with another.
fn codes_of(graph: &mut Builder, x: &Value, ends: Ends) -> Codes {
    let axis = graph.whole_numbers(&[1]);
    let flat = || vec![Attribute::int("keepdims", 0)];
    let high = graph.op("ReduceMax", &[x, &axis], flat());
    let low = graph.op("ReduceMin", &[x, &axis], flat());
    let (low, reach, steps) = match ends {
        Ends::Alike => {
            let low = graph.op("Neg", &[&low], Vec::new());
            let reach = graph.op("Max", &[&high, &low], Vec::new());
            (low, reach, MOST)
        }
        Ends::Own => {
            let zero = graph.number(0.0);
            let high = graph.op("Max", &[&high, &zero], Vec::new());
            let low = graph.op("Min", &[&low, &zero], Vec::new());
            let reach = graph.op("Sub", &[&high, &low], Vec::new());
            (low, reach, STEPS)
        }
    };
    // A row of zeros is divided by something, too.
    let least = graph.number(f32::MIN_POSITIVE * steps);
    let reach = graph.op("Max", &[&reach, &least], Vec::new());
    let steps = graph.number(steps);
    let scales = graph.op("Div", &[&reach, &steps], Vec::new());
    let (zeros, shifts) = match ends {
        Ends::Alike => {
            let shape = graph.op("Shape", &[&scales], Vec::new());
            let middle = graph.byte(MIDDLE);
            (graph.op("Expand", &[&middle, &shape], Vec::new()), None)
        }
        Ends::Own => {
            let below = graph.op("Div", &[&low, &scales], Vec::new());
            let below = graph.op("Round", &[&below], Vec::new());
            let middle = graph.number(f32::from(MIDDLE));
            let shifts = graph.op("Add", &[&middle, &below], Vec::new());
            let shifts = graph.op("Mul", &[&shifts, &scales], Vec::new());
            let shifts = graph.op("Unsqueeze", &[&shifts, &axis], Vec::new());
            let zeros = graph.op("Neg", &[&below], Vec::new());
            (graph.cast(&zeros, ElementType::Uint8), Some(shifts))
        }
    };
    let by_row = vec![Attribute::int("axis", 0)];
    let codes = graph.op("QuantizeLinear", &[x, &scales, &zeros], by_row);
    let scales = graph.op("Unsqueeze", &[&scales, &axis], Vec::new());
    Codes { codes, scales, shifts }
}

/// `x · weightᵀ` in whole numbers, as floats.
pub(crate) fn product(
    graph: &mut Builder,
    x: &Value,
    weight: &str,
    [from, to]: [usize; 2],
) -> Result<Value, GraphError> {
    let ends = Ends::of([from, to]);
    let rows = match graph.codes_of(x, ends) {
        Some(known) => known,
        None => {
            let made = codes_of(graph, x, ends);
            graph.keep_codes(x, ends, made)
        }
    };
    let dims = [to, from];
    let [codes, scales, sums] = late::matrix(weight, dims);
    let Some(shifts) = rows.shifts else {
        let [matrix, scales] = graph.quantised(weight, dims, (Layout::Matrix, [codes, scales]))?;
        return Ok(scaled(graph, [&rows.codes, &rows.scales], [&matrix, &scales]));
    };
    let outs = (Layout::Matrix, [codes, scales, sums]);
    let [matrix, scales, sums] = graph.quantised(weight, dims, outs)?;
    let product = scaled(graph, [&rows.codes, &rows.scales], [&matrix, &scales]);
    let shifts = graph.op("Mul", &[&shifts, &sums], Vec::new());
    Ok(graph.op("Add", &[&product, &shifts], Vec::new()))
}

/// The product of codes, each of both with its scales.
fn scaled(
    graph: &mut Builder,
    [rows, of_rows]: [&Value; 2],
    [matrix, of_outputs]: [&Value; 2],
) -> Value {
    let one = graph.number(1.0);
    let middle = graph.byte(MIDDLE);
    let inputs = [rows, matrix, &one, of_outputs, &middle];
    let product = graph.own_op("MatMulIntegerToFloat", &inputs, Vec::new());
    graph.op("Mul", &[&product, of_rows], Vec::new())
}

/// Rows of a table of codes, by their numbers.
pub(crate) fn rows(
    graph: &mut Builder,
    table: &str,
    dims: [usize; 2],
    numbers: &Value,
) -> Result<Value, GraphError> {
    let outs = (Layout::Table, late::table(table, dims));
    let [table, scales] = graph.quantised(table, dims, outs)?;
    let codes = graph.op("Gather", &[&table, numbers], Vec::new());
    let codes = graph.cast(&codes, ElementType::Float);
    let scales = graph.op("Gather", &[&scales, numbers], Vec::new());
    Ok(graph.op("Mul", &[&codes, &scales], Vec::new()))
}
