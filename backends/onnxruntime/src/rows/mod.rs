//! Does a graph mix the rows of a run, whatever is sent? Followed through its operators, and not tried: a row whose
//! company matters for one number in a million is found by no trial.
//!
//! The axis along which the rows of a run lie is followed from the inputs on, through each operator whose rule is
//! known. An operator that sums, sorts or normalises along that axis shares rows, and so does one that takes or changes
//! a row at a constant place. Where the axis is lost, nothing is said, and the rows are tried as those of any model.

mod kinds;
mod placement;
mod products;
mod rules;
mod shapes;
mod structure;
#[cfg(test)]
mod tests;
mod value;

use std::collections::HashMap;

pub(crate) use structure::Structure;
use value::{Rows, Value};

/// The operator by which an output is made of several rows of a run, or of a row at a certain place among them. `None`
/// where that is not known.
pub(crate) fn shared_by(structure: &Structure) -> Option<&str> {
    let constants = structure.constants.iter().map(|(name, it)| (&**name, Value::from(it)));
    let mut values: HashMap<&str, Value<'_>> = constants.collect();
    for (name, rank) in &structure.inputs {
        // Until version 4 of the format, constants stand among the inputs, too.
        values.entry(name).or_insert_with(|| match *rank {
            Some(rank @ 1..) => Value::along(0, rank),
            Some(0) | None => Value::UNKNOWN,
        });
    }
    for node in &structure.nodes {
        let of = |name: &String| match &**name {
            "" => Value::LEFT_OUT,
            name => values.get(name).cloned().unwrap_or(Value::UNKNOWN),
        };
        let inputs: Vec<Value<'_>> = node.inputs.iter().map(of).collect();
        for (at, name) in node.outputs.iter().enumerate() {
            values.insert(name, rules::apply(node, at, &inputs, structure.opset));
        }
    }
    structure.outputs.iter().find_map(|name| match values.get(&**name)?.rows {
        Rows::Shared(operator) => Some(operator),
        _ => None,
    })
}
