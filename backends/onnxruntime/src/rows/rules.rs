//! What the operators of ONNX make of the rows of a run. Pure.
//!
//! What a rule does not know it calls unknown. That an operator shares rows is said only where it is so for all numbers
//! that can be sent. The operators are those of <https://onnx.ai/onnx/operators/>.

use super::{
    kinds::{OF_IMAGES, OF_INDICES, OF_PLACES, is_elementwise},
    placement::{concat, expand, flatten, gather, pad, reshape, scatter, slice, squeeze, tile},
    products::{einsum, gemm, matrix_product},
    shapes::{axes, of_shapes, shape_of},
    structure::Node,
    value::{Rows, Value, axis_of},
};
use crate::values::sizes;

/// From this version on `Softmax` and its kin look at one axis, before at all from one on.
const SOFTMAX_OF_ONE_AXIS: u64 = 13;

/// What an operator makes of its inputs as its output at that place.
pub(super) fn apply<'a>(
    node: &'a Node,
    output: usize,
    inputs: &[Value<'a>],
    opset: u64,
) -> Value<'a> {
    let operator = &*node.operator;
    if matches!(operator, "Shape" | "Size") {
        return inputs.first().map_or(Value::UNKNOWN, |it| shape_of(node, it));
    }
    if inputs.iter().any(|it| matches!(it.rows, Rows::Shared(_))) {
        return shared(operator, inputs);
    }
    if matches!(operator, "" | "If") || inputs.iter().any(|it| it.rows == Rows::Unknown) {
        return Value::UNKNOWN;
    }
    if inputs.iter().all(Value::is_of_shapes) {
        return of_shapes(node, inputs);
    }
    // Of places alone more places are made. With them what is sent is another thing for each place.
    let mut followed = inputs.iter().filter(|it| it.axis().is_some());
    if followed.all(Value::is_of_places) {
        let made = by_rule(node, output, inputs, opset);
        return made
            .axis()
            .map_or(Value::UNKNOWN, |(axis, rank)| Value::of(Rows::Places(axis), Some(rank)));
    }
    if is_elementwise(operator) && inputs.iter().any(Value::is_of_places) {
        return Value::shared(operator);
    }
    by_rule(node, output, inputs, opset)
}

/// The same where rows are followed in some of the inputs.
fn by_rule<'a>(node: &'a Node, output: usize, inputs: &[Value<'a>], opset: u64) -> Value<'a> {
    let operator = &*node.operator;
    let made = match operator {
        "Flatten" => flatten(node, inputs),
        "Reshape" => reshape(node, inputs),
        "Squeeze" | "Unsqueeze" => squeeze(node, inputs),
        "Expand" => expand(inputs),
        "Tile" => tile(inputs),
        "Pad" => pad(node, inputs),
        "Slice" => slice(node, inputs),
        "Concat" => concat(node, inputs),
        "Gather" | "GatherElements" | "GatherND" => gather(node, inputs),
        "Scatter" | "ScatterElements" | "ScatterND" => scatter(node, inputs),
        "MatMul" | "MatMulInteger" => matrix_product(operator, inputs),
        "Gemm" => gemm(node, inputs),
        "Einsum" => einsum(node, inputs),
        "LSTM" | "GRU" | "RNN" => recurrent(node, output, inputs),
        "Transpose" => transpose(node, inputs),
        "OneHot" => one_hot(node, inputs),
        _ if is_elementwise(operator) => elementwise(inputs),
        _ => of_one(node, inputs, opset),
    };
    made.unwrap_or(Value::UNKNOWN)
}

/// One of these inputs is made of several rows. Then so is what is computed of it, but not the place of something else
/// that it says: a mask as long as the longest row of a run hides what is behind the others.
fn shared<'a>(operator: &str, inputs: &[Value<'a>]) -> Value<'a> {
    let says = OF_PLACES.iter().find(|it| it.0 == operator);
    let is_index = |at: usize| at == 1 && OF_INDICES.contains(&operator);
    let is_place = |at: usize| {
        let is_said = says.is_some_and(|it| it.1 <= at);
        is_said || is_index(at) || sizes(operator.as_bytes()).contains(&at)
    };
    let of = |(at, input): (usize, &Value<'a>)| match input.rows {
        Rows::Shared(by) if !is_place(at) => Some(Value::shared(by)),
        _ => None,
    };
    let found = inputs.iter().enumerate().find_map(of).filter(|_| !operator.is_empty());
    found.unwrap_or(Value::UNKNOWN)
}

fn elementwise<'a>(inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let rank = inputs.iter().try_fold(0, |most, it| Some(it.rank?.max(most)))?;
    let mut places = inputs.iter().filter_map(Value::behind);
    let behind = places.next()?;
    places.all(|it| it == behind).then(|| Value::along(rank - 1 - behind, rank))
}

/// Operators that are told apart by the axes of their first input along which they compute.
fn of_one<'a>(node: &'a Node, inputs: &[Value<'a>], opset: u64) -> Option<Value<'a>> {
    let (data, others) = inputs.split_first()?;
    let (axis, rank) = data.axis()?;
    let operator = &*node.operator;
    let attribute = |default| axis_of(node.number("axis").unwrap_or(default), rank);
    let unless = |shares: bool| Some(if shares { Value::shared(operator) } else { data.clone() });
    match operator {
        "ReverseSequence" => unless(axis_of(node.number("time_axis").unwrap_or(0), rank)? == axis),
        _ if !others.iter().all(Value::is_of_shapes) => None,
        "Softmax" | "LogSoftmax" | "Hardmax" if opset < SOFTMAX_OF_ONE_AXIS => {
            unless(attribute(1)? <= axis)
        }
        "Softmax" | "LogSoftmax" | "Hardmax" | "LpNormalization" | "TopK" => {
            unless(attribute(-1)? == axis)
        }
        "LayerNormalization" | "RMSNormalization" => unless(attribute(-1)? <= axis),
        "CumSum" => unless(axis_of(*inputs.get(1)?.numbers()?.first()?, rank)? == axis),
        "MeanVarianceNormalization" => {
            let axes = node.numbers("axes").unwrap_or(&[0, 2, 3]);
            unless(axes.iter().any(|it| axis_of(*it, rank) == Some(axis)))
        }
        "BatchNormalization" if node.number("training_mode") == Some(1) => unless(axis != 1),
        "Trilu" => unless(rank <= axis + 2),
        "Split" => (attribute(0)? != axis).then(|| data.clone()),
        "ArgMax" | "ArgMin" => reduced(node, data, Some(vec![node.number("axis").unwrap_or(0)])),
        _ if operator.starts_with("Reduce") => {
            let is_given =
                node.numbers("axes").is_some() || inputs.get(1).is_some_and(|it| !it.is_left_out());
            let axes = if is_given { Some(axes(node, inputs)?) } else { None };
            reduced(node, data, axes.filter(|it| !it.is_empty()))
        }
        _ if OF_IMAGES.contains(&operator) => (axis == 0).then(|| data.clone()),
        _ => None,
    }
}

/// Made one along these axes, or along all of them.
fn reduced<'a>(node: &'a Node, data: &Value<'a>, axes: Option<Vec<i64>>) -> Option<Value<'a>> {
    let (axis, rank) = data.axis()?;
    let axes: Vec<usize> = match axes {
        Some(axes) => axes.into_iter().map(|it| axis_of(it, rank)).collect::<Option<_>>()?,
        None if node.number("noop_with_empty_axes") == Some(1) => return Some(data.clone()),
        None => (0..rank).collect(),
    };
    if axes.contains(&axis) {
        return Some(Value::shared(&node.operator));
    }
    if node.number("keepdims").unwrap_or(1) != 0 {
        return Some(data.clone());
    }
    let before = axes.iter().filter(|it| **it < axis).count();
    Some(Value::along(axis - before, rank - axes.len()))
}

fn transpose<'a>(node: &Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let (axis, rank) = inputs.first()?.axis()?;
    let axis = match node.numbers("perm") {
        Some(order) => order.iter().position(|it| usize::try_from(*it) == Ok(axis))?,
        None => rank - 1 - axis,
    };
    Some(Value::along(axis, rank))
}

fn one_hot<'a>(node: &Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let (axis, rank) = inputs.first()?.axis()?;
    let new = axis_of(node.number("axis").unwrap_or(-1), rank + 1)?;
    let is_first = inputs[1..].iter().all(Value::is_of_shapes);
    is_first.then(|| Value::along(axis + usize::from(new <= axis), rank + 1))
}

/// `LSTM` and its kin: a sequence along one axis, with steps that know those before them, and rows along another.
fn recurrent<'a>(node: &'a Node, output: usize, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let (axis, 3) = inputs.first()?.axis()? else { return None };
    let rows = usize::from(node.number("layout") != Some(1));
    if axis == 1 - rows {
        return Some(Value::shared(&node.operator));
    }
    // The directions are an axis of their own, behind the steps and before the rows, or behind both.
    let (of_steps, of_last) = if rows == 1 { (2, 1) } else { (0, 0) };
    (axis == rows).then(|| match output {
        0 => Value::along(of_steps, 4),
        _ => Value::along(of_last, 3),
    })
}
