//! Which operations stand behind the outputs of a signature. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::proto::{Attribute, Graph, Node};

/// The operations that a run executes which gives those outputs, each once: functions that are called are looked into,
/// and are none themselves. `outputs` are names as signatures write them.
pub(super) fn operations<'a>(
    graph: &'a Graph,
    outputs: impl Iterator<Item = &'a str>,
) -> BTreeSet<String> {
    let nodes: HashMap<&str, &Node> = graph.nodes.iter().map(|it| (it.name.as_str(), it)).collect();
    let library = graph.library.iter().flat_map(|it| &it.functions);
    let functions: HashMap<&str, &[Node]> = library
        .filter_map(|it| Some((it.signature.as_ref()?.name.as_str(), it.nodes.as_slice())))
        .collect();
    let mut names: Vec<&str> = outputs.map(node_of).collect();
    let mut calls: Vec<&str> = Vec::new();
    let (mut seen, mut called) = (HashSet::new(), HashSet::new());
    let mut operations = BTreeSet::new();
    while let Some(name) = names.pop() {
        let Some(node) = nodes.get(name).filter(|_| seen.insert(name)) else { continue };
        names.extend(node.inputs.iter().map(|it| node_of(it)));
        look_at(node, &functions, &mut operations, &mut calls);
    }
    // All of a function is run, whatever of it is asked for.
    while let Some(name) = calls.pop() {
        let Some(nodes) = functions.get(name).filter(|_| called.insert(name)) else { continue };
        nodes.iter().for_each(|it| look_at(it, &functions, &mut operations, &mut calls));
    }
    operations
}

/// Notes the node's operation, and the functions that it calls: named in its attributes, or by its operation itself.
fn look_at<'a>(
    node: &'a Node,
    functions: &HashMap<&'a str, &'a [Node]>,
    operations: &mut BTreeSet<String>,
    calls: &mut Vec<&'a str>,
) {
    match functions.contains_key(node.op.as_str()) {
        true => calls.push(&node.op),
        false => {
            operations.insert(node.op.clone());
        }
    }
    calls.extend(node.attributes.values().flat_map(named));
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
        let graph = Graph { nodes, library: Some(Library { functions }) };
        let call = "StatefulPartitionedCall";
        let counts = ["AssignAddVariableOp", "PartitionedCall", call, "While"];
        check(&graph, &["counts:0"], &counts);
        check(&graph, &["calls"], &["AssignAddVariableOp", "PartitionedCall", "While"]);
    }
}
