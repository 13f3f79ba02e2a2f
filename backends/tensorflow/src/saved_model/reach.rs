//! Which operations stand behind the outputs of a signature. Pure.

use std::collections::{HashMap, HashSet};

use super::proto::{Attribute, Graph, Node};

/// Beginnings of operations that leave something behind for later runs: variables, tables, queues, stacks.
const WRITERS: [&str; 22] = [
    "Apply",
    "Assign",
    "Barrier",
    "CountUpTo",
    "LookupTableImport",
    "LookupTableInsert",
    "LookupTableRemove",
    "MapStage",
    "OrderedMapStage",
    "Queue",
    "ResourceApply",
    "ResourceCountUpTo",
    "ResourceScatter",
    "Rng",
    "ScatterAdd",
    "ScatterNdAdd",
    "ScatterNdSub",
    "ScatterNdUpdate",
    "ScatterSub",
    "ScatterUpdate",
    "Stack",
    "Stateful",
];

/// It leaves nothing behind by itself: the operations of the function that it calls are looked at.
const CALL: &str = "StatefulPartitionedCall";

/// Does a run that gives those outputs change what later runs see? `outputs` are names as signatures write them.
pub(super) fn changes_state<'a>(graph: &'a Graph, outputs: impl Iterator<Item = &'a str>) -> bool {
    let nodes: HashMap<&str, &Node> = graph.nodes.iter().map(|it| (it.name.as_str(), it)).collect();
    let library = graph.library.iter().flat_map(|it| &it.functions);
    let functions: HashMap<&str, &[Node]> = library
        .filter_map(|it| Some((it.signature.as_ref()?.name.as_str(), it.nodes.as_slice())))
        .collect();
    let mut names: Vec<&str> = outputs.map(node_of).collect();
    let mut calls: Vec<&str> = Vec::new();
    let (mut seen, mut called) = (HashSet::new(), HashSet::new());
    while let Some(name) = names.pop() {
        let Some(node) = nodes.get(name).filter(|_| seen.insert(name)) else { continue };
        if is_writer(&node.op) {
            return true;
        }
        names.extend(node.inputs.iter().map(|it| node_of(it)));
        calls.extend(called_by(node, &functions));
    }
    // All of a function is run, whatever of it is asked for.
    while let Some(name) = calls.pop() {
        let Some(nodes) = functions.get(name).filter(|_| called.insert(name)) else { continue };
        if nodes.iter().any(|it| is_writer(&it.op)) {
            return true;
        }
        calls.extend(nodes.iter().flat_map(|it| called_by(it, &functions)));
    }
    false
}

fn is_writer(op: &str) -> bool {
    op != CALL && WRITERS.iter().any(|it| op.starts_with(it))
}

/// Functions that a node calls: named in its attributes, or by its operation itself.
fn called_by<'a>(
    node: &'a Node,
    functions: &HashMap<&'a str, &'a [Node]>,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let own = functions.contains_key(node.op.as_str()).then_some(node.op.as_str());
    own.into_iter().chain(node.attributes.values().flat_map(named))
}

fn named(attribute: &Attribute) -> impl Iterator<Item = &str> {
    let list = attribute.list.iter().flat_map(|it| &it.functions);
    attribute.function.iter().chain(list).map(|it| it.name.as_str())
}

/// The node of `^node`, `node:1` or `node`.
fn node_of(name: &str) -> &str {
    let name = name.strip_prefix('^').unwrap_or(name);
    name.split_once(':').map_or(name, |(node, _)| node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_model::proto::{Function, FunctionName, Library};

    fn node(name: &str, op: &str, inputs: &[&str], function: &str) -> Node {
        let inputs = inputs.iter().map(|it| (*it).to_owned()).collect();
        let mut node = Node { name: name.into(), op: op.into(), inputs, ..Node::default() };
        if !function.is_empty() {
            let function = Some(FunctionName { name: function.into() });
            node.attributes.insert("f".into(), Attribute { list: None, function });
        }
        node
    }

    fn function(name: &str, nodes: Vec<Node>) -> Function {
        Function { signature: Some(FunctionName { name: name.into() }), nodes }
    }

    #[test]
    fn what_an_output_does_not_reach_does_not_count() {
        let graph = Graph {
            nodes: vec![
                node("x", "Placeholder", &[], ""),
                node("y", "Add", &["x:0", "^z"], ""),
                node("z", "NoOp", &[], ""),
                node("restore", "AssignVariableOp", &["x"], ""),
            ],
            library: None,
        };
        assert!(!changes_state(&graph, ["y:0"].into_iter()));
        assert!(changes_state(&graph, ["y:0", "restore"].into_iter()));
    }

    #[test]
    fn functions_are_looked_into_however_deep_and_cycles_end() {
        let functions = vec![
            function("outer", vec![node("a", "PartitionedCall", &[], "inner")]),
            function(
                "inner",
                vec![node("b", "AssignAddVariableOp", &[], ""), node("c", "While", &[], "outer")],
            ),
            function("pure", vec![node("d", "If", &[], "pure")]),
        ];
        let nodes = vec![
            node("counts", "StatefulPartitionedCall", &["counts"], "outer"),
            node("adds", "StatefulPartitionedCall", &[], "pure"),
        ];
        let graph = Graph { nodes, library: Some(Library { functions }) };
        assert!(changes_state(&graph, ["counts:0"].into_iter()));
        assert!(!changes_state(&graph, ["adds:0"].into_iter()));
    }
}
