//! Products of matrices, and rows of tables, in whole numbers of 8 bits.

use crate::{
    builder::{Builder, Codes, Value},
    error::GraphError,
    late::Layout,
    onnx::{Attribute, ElementType},
};

/// A code of 0 in bytes without a sign.
const ZERO: u8 = 128;

/// The largest distance of a code from that.
const MOST: f32 = 127.0;

/// Codes of the rows of a matrix. Each is divided by its own largest number.
fn codes_of(graph: &mut Builder, x: &Value) -> Codes {
    let axis = graph.whole_numbers(&[1]);
    let flat = || vec![Attribute::int("keepdims", 0)];
    let high = graph.op("ReduceMax", &[x, &axis], flat());
    let low = graph.op("ReduceMin", &[x, &axis], flat());
    let low = graph.op("Neg", &[&low], Vec::new());
    // A row of zeros is divided by something, too.
    let least = graph.numbers(&[f32::MIN_POSITIVE * MOST]);
    let most = graph.op("Max", &[&high, &low, &least], Vec::new());
    let steps = graph.numbers(&[MOST]);
    let scales = graph.op("Div", &[&most, &steps], Vec::new());
    let shape = graph.op("Shape", &[&scales], Vec::new());
    let zero = graph.byte(ZERO);
    let zeros = graph.op("Expand", &[&zero, &shape], Vec::new());
    let by_row = vec![Attribute::int("axis", 0)];
    let codes = graph.op("QuantizeLinear", &[x, &scales, &zeros], by_row);
    let scales = graph.op("Unsqueeze", &[&scales, &axis], Vec::new());
    Codes { codes, scales }
}

/// `x · weightᵀ` in whole numbers, as floats.
pub(crate) fn product(
    graph: &mut Builder,
    x: &Value,
    weight: &str,
    [from, to]: [usize; 2],
) -> Result<Value, GraphError> {
    let [matrix, scales] = graph.quantised(weight, [to, from], Layout::Matrix)?;
    let rows = match graph.codes_of(x) {
        Some(known) => known,
        None => {
            let made = codes_of(graph, x);
            graph.keep_codes(x, made)
        }
    };
    let one = graph.number(1.0);
    let zero = graph.byte(ZERO);
    let inputs = [&rows.codes, &matrix, &one, &scales, &zero];
    let sums = graph.own_op("MatMulIntegerToFloat", &inputs, Vec::new());
    Ok(graph.op("Mul", &[&sums, &rows.scales], Vec::new()))
}

/// Rows of a table of codes, by their numbers.
pub(crate) fn rows(
    graph: &mut Builder,
    table: &str,
    dims: [usize; 2],
    numbers: &Value,
) -> Result<Value, GraphError> {
    let [table, scales] = graph.quantised(table, dims, Layout::Table)?;
    let codes = graph.op("Gather", &[&table, numbers], Vec::new());
    let codes = graph.cast(&codes, ElementType::Float);
    let scales = graph.op("Gather", &[&scales, numbers], Vec::new());
    Ok(graph.op("Mul", &[&codes, &scales], Vec::new()))
}
