//! Values that are the same for all rows of a run, as those that operators take for a shape. Pure.

use super::{
    kinds::is_elementwise,
    structure::Node,
    value::{Dim, Rows, Value},
};

/// What an operator makes of values that are the same for all rows.
pub(super) fn of_shapes<'a>(node: &Node, inputs: &[Value<'a>]) -> Value<'a> {
    let is_constant = inputs.iter().all(|it| it.rows == Rows::Constant);
    let rows = if is_constant { Rows::Constant } else { Rows::OfShapes };
    if node.operator == "Constant" {
        return Value::from(&node.constant());
    }
    let limit = inputs.get(1).and_then(|it| it.integers.as_deref());
    if node.operator == "Range" && limit == Some(&[Dim::Rows]) {
        return Value::of(Rows::Places(0), Some(1));
    }
    Value { rows, rank: rank(node, inputs), integers: integers(node, inputs) }
}

/// The shape of a value, as the operator `Shape` gives it.
pub(super) fn shape_of<'a>(node: &Node, input: &Value<'_>) -> Value<'a> {
    let is_part = node.number("start").is_some() || node.number("end").is_some();
    let dims = |rank| {
        let of = |it| {
            if input.axis().is_some_and(|(axis, _)| axis == it) { Dim::Rows } else { Dim::Other }
        };
        (0..rank).map(of).collect()
    };
    let integers = input.rank.filter(|_| !is_part && node.operator == "Shape").map(dims);
    let rank = usize::from(node.operator == "Shape");
    Value { rows: Rows::OfShapes, rank: Some(rank), integers }
}

fn rank(node: &Node, inputs: &[Value<'_>]) -> Option<usize> {
    let first = inputs.first()?;
    let count = |at: usize| inputs.get(at)?.integers.as_ref().map(Vec::len);
    match &*node.operator {
        "Range" => Some(1),
        "ConstantOfShape" => count(0),
        "Reshape" => count(1),
        "Expand" => Some(first.rank?.max(count(1)?)),
        "Unsqueeze" => Some(first.rank? + axes(node, inputs)?.len()),
        "Squeeze" => first.rank?.checked_sub(axes(node, inputs)?.len()),
        "Gather" => (first.rank? + inputs.get(1)?.rank?).checked_sub(1),
        "Concat" | "Slice" | "Transpose" | "Tile" | "Pad" | "Softmax" | "CumSum" | "Trilu" => {
            first.rank
        }
        it if is_elementwise(it) => {
            inputs.iter().try_fold(0, |most, input| Some(input.rank?.max(most)))
        }
        _ => None,
    }
}

fn integers(node: &Node, inputs: &[Value<'_>]) -> Option<Vec<Dim>> {
    let first = inputs.first()?.integers.as_ref();
    match &*node.operator {
        "Identity" | "Cast" | "Unsqueeze" | "Squeeze" | "Reshape" => first.cloned(),
        "Concat" => {
            let parts = inputs.iter().map(|it| it.integers.clone());
            parts.collect::<Option<Vec<_>>>().map(|it| it.concat())
        }
        "Gather" => {
            let of = |index: i64| {
                let first = first?;
                let index =
                    if index < 0 { index + i64::try_from(first.len()).ok()? } else { index };
                first.get(usize::try_from(index).ok()?).copied()
            };
            inputs.get(1)?.numbers()?.into_iter().map(of).collect()
        }
        "Slice" => {
            let number = |at: usize| match inputs.get(at) {
                Some(it) if !it.is_left_out() => Some(it.numbers()?.first().copied()),
                _ => Some(None),
            };
            let (start, end, step) = (number(1)??, number(2)??, number(4)?);
            if step.unwrap_or(1) != 1 {
                return None;
            }
            let first = first?;
            let length = i64::try_from(first.len()).ok()?;
            let at = |it: i64| if it < 0 { it.saturating_add(length) } else { it }.clamp(0, length);
            let (start, end) = (usize::try_from(at(start)).ok()?, usize::try_from(at(end)).ok()?);
            first.get(start..end).map(<[Dim]>::to_vec)
        }
        // A number is made; which one does not matter here.
        it if is_elementwise(it) => {
            let lengths = inputs.iter().map(|it| it.integers.as_ref().map(Vec::len));
            let most = lengths.collect::<Option<Vec<_>>>()?.into_iter().max()?;
            Some(vec![Dim::Other; most])
        }
        _ => None,
    }
}

/// The axes that an operator is given as an attribute or, in later versions, as its second input.
pub(super) fn axes(node: &Node, inputs: &[Value<'_>]) -> Option<Vec<i64>> {
    match node.numbers("axes") {
        Some(axes) => Some(axes.to_vec()),
        None => inputs.get(1)?.numbers(),
    }
}
