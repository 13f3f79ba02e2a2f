//! Products, which sum over an axis of both factors. Pure.

use super::{structure::Node, value::Value};

/// `MatMul` of two values: the sum is over the last axis of the first and the last but one of the second.
pub(super) fn matrix_product<'a>(operator: &'a str, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let [left, right, ..] = inputs else { return None };
    if inputs[2..].iter().any(|it| it.axis().is_some()) {
        return None;
    }
    let (left_rank, right_rank) = (left.rank?, right.rank?);
    let summed = (0, usize::from(1 < right_rank));
    let (of_left, of_right) = (left.behind(), right.behind());
    if of_left == Some(summed.0) || of_right == Some(summed.1) {
        return Some(Value::shared(operator));
    }
    // A list instead of a matrix has no axis of its own in the product.
    if left_rank < 2 || right_rank < 2 {
        let (axis, rank) = left.axis().filter(|_| right_rank == 1)?;
        return Some(Value::along(axis, rank - 1));
    }
    let behind = match (of_left, of_right) {
        (Some(left), Some(right)) if left == right && 2 <= left => left,
        (Some(one), None) | (None, Some(one)) => one,
        _ => return None,
    };
    let rank = left_rank.max(right_rank);
    Some(Value::along(rank - 1 - behind, rank))
}

/// `Gemm`: a product of matrices that may be transposed, and a sum with a third.
pub(super) fn gemm<'a>(node: &'a Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let [left, right, ..] = inputs else { return None };
    let axis = |value: &Value<'_>, transposed: &str| {
        let is_transposed = node.number(transposed).is_some_and(|it| it != 0);
        value.axis().map(|(axis, _)| if is_transposed { 1 - axis.min(1) } else { axis })
    };
    let axis = match (axis(left, "transA"), axis(right, "transB")) {
        (Some(1), _) | (_, Some(0)) => return Some(Value::shared(&node.operator)),
        (Some(0), None) => 0,
        (None, Some(1)) => 1,
        _ => return None,
    };
    let summed = inputs.get(2).and_then(Value::axis);
    summed.is_none_or(|it| it == (axis, 2)).then(|| Value::along(axis, 2))
}

/// `Einsum` with an output that is written: letters that are not in it are summed over.
pub(super) fn einsum<'a>(node: &'a Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let equation: String = node.text("equation").split_whitespace().collect();
    let (terms, output) = equation.split_once("->")?;
    if equation.contains('.') {
        return None;
    }
    let mut letters = terms.split(',').zip(inputs).filter_map(|(term, input)| {
        let (axis, _) = input.axis()?;
        Some(term.chars().nth(axis))
    });
    let letter = letters.next()??;
    if letters.any(|it| it != Some(letter)) {
        return None;
    }
    match output.find(letter) {
        Some(axis) => Some(Value::along(axis, output.len())),
        None => Some(Value::shared(&node.operator)),
    }
}
