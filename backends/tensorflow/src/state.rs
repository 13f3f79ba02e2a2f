//! Which operations leave something behind for later runs, by what TensorFlow itself says of them.

use std::collections::BTreeSet;

use backend::BackendError;
use prost::Message;

use crate::native::Table;

/// `OpList` of `op_def.proto`.
#[derive(Clone, PartialEq, Message)]
struct Operations {
    #[prost(message, repeated, tag = "1")]
    operations: Vec<Operation>,
}

/// `OpDef`.
#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bool, tag = "17")]
    is_stateful: bool,
}

/// Operations that TensorFlow calls stateful and that only read, or whose state lives for one run: the beginnings of
/// their names. What a function does that is called is found by looking into it.
const READERS: [&str; 21] = [
    "Assert",
    "Case",
    "HashTable",
    "If",
    "IsVariableInitialized",
    "LookupTableFind",
    "LookupTableSize",
    "Multinomial",
    "MutableDenseHashTable",
    "MutableHashTable",
    "ParameterizedTruncatedNormal",
    "Print",
    "Random",
    "ReadVariableOp",
    "ResourceGather",
    "StatefulPartitionedCall",
    "TensorArray",
    "TruncatedNormal",
    "VarHandleOp",
    "VarIsInitializedOp",
    "Variable",
];

/// What `While` is, unlike other names that begin so.
const LOOP: &str = "While";

/// The operations of the library that leave something behind, or may.
pub(crate) fn writers(table: &Table) -> Result<BTreeSet<String>, BackendError> {
    let list = Operations::decode(table.operations().as_slice());
    let list = list.map_err(|error| {
        BackendError::Load(format!("TensorFlow's list of its operations cannot be read: {error}"))
    })?;
    let stateful = list.operations.into_iter().filter(|it| it.is_stateful).map(|it| it.name);
    Ok(stateful.filter(|it| !only_reads(it)).collect())
}

fn only_reads(operation: &str) -> bool {
    operation == LOOP || READERS.iter().any(|it| operation.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_reads_is_told_from_what_writes() {
        for reads in ["ReadVariableOp", "LookupTableFindV2", "RandomUniform", "While", "VariableV2"]
        {
            assert!(only_reads(reads), "{reads}");
        }
        for writes in ["AssignVariableOp", "ScatterMax", "ResourceSparseApplyAdagrad", "Unstage"] {
            assert!(!only_reads(writes), "{writes}");
        }
    }
}
