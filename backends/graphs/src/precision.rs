//! In what numbers products of matrices are computed.

use crate::{
    builder::{Builder, Value},
    error::GraphError,
    late::Layout,
    onnx::{Attribute, ElementType},
};

/// In what numbers products of matrices are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// As the weights are: floats of 32 bits.
    #[default]
    Fp32,
    /// In whole numbers of 8 bits, with a scale for each row of what is multiplied, and for each output. Sums of whole
    /// numbers are exact, so that a row is the same in any company. Heads, norms and attention stay floats.
    Int8,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 2] = [Precision::Fp32, Precision::Int8];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Int8 => "int8",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// A code of 0 in bytes without a sign.
const ZERO: u8 = 128;

/// The largest distance of a code from that.
const MOST: f32 = 127.0;

/// Rows of codes, and the scale of each.
#[derive(Debug, Clone)]
pub(crate) struct Codes {
    codes: Value,
    scales: Value,
}

impl Codes {
    /// Of the rows of a matrix. Each is divided by its own largest number.
    fn of(graph: &mut Builder, x: &Value) -> Codes {
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
            let made = Codes::of(graph, x);
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
