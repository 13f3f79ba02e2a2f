//! Which operations stand behind the outputs of a signature. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::proto::{Attribute, Graph, Node};

/// The operations that a run executes which gives those outputs, each once: functions that are called are looked into,
/// and are none themselves. `outputs` are names as signatures write them.
pub(super) fn operations<'a>(
    graph: &'a Graph,
    outputs: impl Iterator<Item = &'a str>,
) -> BTreeSet<String> {
    let functions = functions_of(graph);
    let reached = reached(graph, outputs, Vec::new()).into_iter();
    let reached = reached.filter(|it| !functions.contains_key(it.op.as_str()));
    reached.map(|it| it.op.clone()).collect()
}

/// The nodes that are run for those outputs and by calls of those functions, of the graph and of all functions that are
/// called.
pub(super) fn reached<'a>(
    graph: &'a Graph,
    outputs: impl Iterator<Item = &'a str>,
    mut calls: Vec<&'a str>,
) -> Vec<&'a Node> {
    let nodes: HashMap<&str, &Node> = graph.nodes.iter().map(|it| (it.name.as_str(), it)).collect();
    let functions = functions_of(graph);
    let mut names: Vec<&str> = outputs.map(node_of).collect();
    let (mut seen, mut called) = (HashSet::new(), HashSet::new());
    let mut reached = Vec::new();
    while let Some(name) = names.pop() {
        let Some(node) = nodes.get(name).filter(|_| seen.insert(name)) else { continue };
        names.extend(node.inputs.iter().map(|it| node_of(it)));
        calls.extend(called_by(node, &functions));
        reached.push(*node);
    }
    // All of a function is run, whatever of it is asked for.
    while let Some(name) = calls.pop() {
        let Some(nodes) = functions.get(name).filter(|_| called.insert(name)) else { continue };
        for node in *nodes {
            calls.extend(called_by(node, &functions));
            reached.push(node);
        }
    }
    reached
}

pub(super) fn functions_of(graph: &Graph) -> HashMap<&str, &[Node]> {
    let library = graph.library.iter().flat_map(|it| &it.functions);
    library
        .filter_map(|it| Some((it.signature.as_ref()?.name.as_str(), it.nodes.as_slice())))
        .collect()
}

/// The functions that the node calls: named in its attributes, or by its operation itself.
pub(super) fn called_by<'a>(
    node: &'a Node,
    functions: &HashMap<&'a str, &'a [Node]>,
) -> impl Iterator<Item = &'a str> {
    let itself = Some(node.op.as_str()).filter(|it| functions.contains_key(it));
    itself.into_iter().chain(node.attributes.values().flat_map(named))
}

fn named(attribute: &Attribute) -> impl Iterator<Item = &str> {
    let list = attribute.list.iter().flat_map(|it| &it.functions);
    attribute.function.iter().chain(list).map(|it| it.name.as_str())
}

/// The node of `^node`, `node:1` or `node`.
pub(super) fn node_of(name: &str) -> &str {
    let name = name.strip_prefix('^').unwrap_or(name);
    name.split_once(':').map_or(name, |(node, _)| node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_model::proto::{Function, FunctionName, FunctionSignature, Library};

    fn node(name: &str, op: &str, inputs: &[&str], function: &str) -> Node {
        let inputs = inputs.iter().map(|it| (*it).to_owned()).collect();
        let mut node = Node { name: name.into(), op: op.into(), inputs, ..Node::default() };
        if !function.is_empty() {
            let function = Some(FunctionName { name: function.into() });
            node.attributes.insert("f".into(), Attribute { function, ..Attribute::default() });
        }
        node
    }

    fn function(name: &str, nodes: Vec<Node>) -> Function {
        let signature = FunctionSignature { name: name.into(), ..FunctionSignature::default() };
        Function { signature: Some(signature), nodes, ..Function::default() }
    }

    #[track_caller]
    fn check(graph: &Graph, outputs: &[&str], expected: &[&str]) {
        let found = operations(graph, outputs.iter().copied());
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
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
        check(&graph, &["y:0"], &["Add", "NoOp", "Placeholder"]);
        check(&graph, &["restore"], &["AssignVariableOp", "Placeholder"]);
    }

    #[test]
    fn functions_are_looked_into_however_deep_and_cycles_end() {
        let functions = vec![
            function("outer", vec![node("a", "PartitionedCall", &[], "inner")]),
            function(
                "inner",
                vec![node("b", "AssignAddVariableOp", &[], ""), node("c", "While", &[], "outer")],
            ),
        ];
        let nodes = vec![
            node("counts", "StatefulPartitionedCall", &["counts"], "outer"),
            node("calls", "inner", &[], ""),
        ];
        let graph = Graph { nodes, library: Some(Library { functions, ..Library::default() }) };
        let call = "StatefulPartitionedCall";
        let counts = ["AssignAddVariableOp", "PartitionedCall", call, "While"];
        check(&graph, &["counts:0"], &counts);
        check(&graph, &["calls"], &["AssignAddVariableOp", "PartitionedCall", "While"]);
    }
}
