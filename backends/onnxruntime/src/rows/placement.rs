//! Operators that take elements elsewhere, and compute nothing. Pure.

use super::{
    shapes::axes,
    structure::Node,
    value::{Dim, Rows, Value, axis_of},
};

/// `Flatten`: a matrix of two groups of axes.
pub(super) fn flatten<'a>(node: &Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let (axis, rank) = inputs.first()?.axis()?;
    let second = node.number("axis").unwrap_or(1);
    let is_first = axis == 0 && (second == 1 || axis_of(second, rank).is_some_and(|it| 0 < it));
    is_first.then(|| Value::along(0, 2))
}

/// `Reshape`: rows stay one behind the other where the first dimension is their number, or what others leave.
pub(super) fn reshape<'a>(node: &Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let (axis, _) = inputs.first()?.axis()?;
    let shape = inputs.get(1)?.integers.as_ref()?;
    let (first, others) = shape.split_first()?;
    let copies = node.number("allowzero").is_none_or(|it| it == 0);
    let are_known = others.iter().all(|it| matches!(it, Dim::Known(_)));
    let keeps = match first {
        Dim::Rows => axis == 0,
        Dim::Known(0) => axis == 0 && copies,
        Dim::Known(-1) => (axis == 0 && are_known) || others.is_empty(),
        Dim::Known(_) | Dim::Other => false,
    };
    keeps.then(|| Value::along(0, shape.len()))
}

/// `Squeeze` and `Unsqueeze`: axes of one element go or come.
pub(super) fn squeeze<'a>(node: &Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let (axis, rank) = inputs.first()?.axis()?;
    let axes = axes(node, inputs)?;
    let is_less = node.operator == "Squeeze";
    let after = if is_less { rank.checked_sub(axes.len())? } else { rank + axes.len() };
    let most = rank.max(after);
    let axes: Vec<usize> = axes.into_iter().map(|it| axis_of(it, most)).collect::<Option<_>>()?;
    if is_less {
        let before = axes.iter().filter(|it| **it < axis).count();
        return (!axes.contains(&axis)).then(|| Value::along(axis - before, after));
    }
    let kept = (0..after).filter(|it| !axes.contains(it)).nth(axis)?;
    Some(Value::along(kept, after))
}

/// `Expand`: axes come before the first.
pub(super) fn expand<'a>(inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let [data, shape] = inputs else { return None };
    let rank = data.rank?.max(shape.integers.as_ref()?.len());
    Some(Value::along(rank - 1 - data.behind()?, rank))
}

/// `Tile`: every axis several times.
pub(super) fn tile<'a>(inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let [data, times] = inputs else { return None };
    let (axis, _) = data.axis()?;
    (times.integers.as_ref()?.get(axis) == Some(&Dim::Known(1))).then(|| data.clone())
}

/// `Pad`: elements before and behind each axis.
pub(super) fn pad<'a>(node: &Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let data = inputs.first()?;
    let (axis, rank) = data.axis()?;
    let pads = match node.numbers("pads") {
        Some(pads) => pads.to_vec(),
        None => inputs.get(1)?.numbers()?,
    };
    let is_none = |at: usize| pads.get(at) == Some(&0);
    let of_some_axes = inputs.get(3).is_some_and(|it| !it.is_left_out());
    (!of_some_axes && is_none(axis) && is_none(axis + rank)).then(|| data.clone())
}

/// `Slice`: a part of some axes. Without the first or the last rows of a run, what is left are those at certain places.
pub(super) fn slice<'a>(node: &'a Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let data = inputs.first()?;
    let (axis, rank) = data.axis()?;
    let given = |at: usize, attribute: &str| match (node.numbers(attribute), inputs.get(at)) {
        (Some(numbers), _) => Some(Some(numbers.iter().map(|it| Dim::Known(*it)).collect())),
        (None, Some(it)) if !it.is_left_out() => it.integers.clone().map(Some),
        (None, _) => Some(None),
    };
    let (starts, ends): (Vec<Dim>, Vec<Dim>) = (given(1, "starts")??, given(2, "ends")??);
    let at = match given(3, "axes")? {
        None => Some(axis).filter(|it| *it < starts.len()),
        Some(axes) => {
            let mut at = None;
            for (place, it) in axes.iter().enumerate() {
                let Dim::Known(it) = it else { return None };
                at = if axis_of(*it, rank)? == axis { Some(place) } else { at };
            }
            at
        }
    };
    let Some(at) = at else { return Some(data.clone()) };
    let step = given(4, "steps")?.map_or(Some(Dim::Known(1)), |it| it.get(at).copied())?;
    match (starts.get(at)?, ends.get(at)?, step) {
        (Dim::Known(0), Dim::Rows, Dim::Known(1)) => Some(data.clone()),
        (Dim::Known(0), Dim::Known(end), Dim::Known(1)) if i64::from(i32::MAX) <= *end => {
            Some(data.clone())
        }
        (Dim::Known(_), Dim::Known(_), Dim::Known(_)) => Some(Value::shared(&node.operator)),
        _ => None,
    }
}

/// `Concat`: along another axis than that of the rows.
pub(super) fn concat<'a>(node: &Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let mut followed = inputs.iter().filter_map(Value::axis);
    let (axis, rank) = followed.next()?;
    let is_of_rows = axis_of(node.number("axis")?, rank)? == axis;
    (!is_of_rows && followed.all(|it| it == (axis, rank))).then(|| Value::along(axis, rank))
}

/// `Gather`, `GatherElements`, `GatherND`: elements at these indices.
pub(super) fn gather<'a>(node: &'a Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let [data, indices] = inputs else { return None };
    let at_constant_rows =
        || (indices.rows == Rows::Constant).then(|| Value::shared(&node.operator));
    if node.operator == "GatherND" {
        let is_of_first =
            data.rows == Rows::Along(0) && node.number("batch_dims").is_none_or(|it| it == 0);
        return is_of_first.then(at_constant_rows).flatten();
    }
    let taken = axis_of(node.number("axis").unwrap_or(0), data.rank?)?;
    if data.axis().is_some_and(|it| it.0 == taken) {
        return at_constant_rows();
    }
    if node.operator == "GatherElements" {
        return match (data.axis(), indices.axis()) {
            (Some(data), Some(of_indices)) if data == of_indices => Some(indices.clone()),
            (None, Some(_)) => Some(indices.clone()),
            _ => None,
        };
    }
    let rank = (data.rank? + indices.rank?).checked_sub(1)?;
    match (data.axis(), indices.axis()) {
        (Some((axis, _)), None) if axis < taken => Some(Value::along(axis, rank)),
        (Some((axis, _)), None) => Some(Value::along(axis + indices.rank? - 1, rank)),
        (None, Some((axis, _))) => Some(Value::along(taken + axis, rank)),
        _ => None,
    }
}

/// `ScatterElements`, `ScatterND`: changed at these indices.
pub(super) fn scatter<'a>(node: &'a Node, inputs: &[Value<'a>]) -> Option<Value<'a>> {
    let [data, indices, updates] = inputs else { return None };
    let (axis, rank) = data.axis()?;
    let is_by_elements = node.operator != "ScatterND";
    if indices.rows == Rows::Constant {
        // As many rows of the run are changed as there are indices, and these begin with the first axis.
        return (is_by_elements || axis == 0).then(|| Value::shared(&node.operator));
    }
    let is_of_rows = axis_of(node.number("axis").unwrap_or(0), rank)? == axis;
    let is_alike = |it: &Value<'_>| it.axis().is_none_or(|it| it == (axis, rank));
    let is_followed = is_by_elements && !is_of_rows && indices.axis() == data.axis();
    (is_followed && is_alike(updates)).then(|| data.clone())
}
