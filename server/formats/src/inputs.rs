//! The inputs of a model where a format has no names for them, and the names of their columns.

use inference::signature::{Port, Signature};

/// The input that a value without a name belongs to: the only one, or the only one that is required.
pub fn only_input(signature: &Signature) -> Option<&Port> {
    if let [only] = signature.inputs.as_slice() {
        return Some(only);
    }
    let mut required = signature.inputs.iter().filter(|it| !it.optional);
    required.next().filter(|_| required.next().is_none())
}

/// The names of all inputs, for an error.
pub fn names_of(signature: &Signature) -> String {
    let names = signature.inputs.iter().map(|it| format!("'{}'", it.name));
    names.collect::<Vec<_>>().join(", ")
}

/// Is that the name of a column of the only input, and not of an input?
pub fn is_column(signature: &Signature, name: &str) -> bool {
    let named = only_input(signature).filter(|it| !it.labels.is_empty());
    named.is_some_and(|it| signature.input(name).is_none() && it.labels.iter().any(|it| it == name))
}
