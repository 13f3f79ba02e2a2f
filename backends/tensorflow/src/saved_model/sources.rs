//! Where an input of a node comes from: through functions, and a variable that is written once and for all. Pure.

use std::collections::{HashMap, HashSet};

use super::{
    proto::{Graph, Node},
    reach::{called_by, functions_of, node_of},
};

/// Operations that call the function in their attribute `f` with their inputs in order.
const CALLS: [&str; 2] = ["PartitionedCall", "StatefulPartitionedCall"];

/// The attribute by which TensorFlow may put a function in place of another.
const IMPLEMENTS: &str = "api_implements";

/// A call of a function.
struct Call<'a> {
    /// The function that the node is in; empty for the graph.
    within: &'a str,
    node: &'a Node,
    /// Are the arguments of the function the inputs of the node?
    is_plain: bool,
}

/// The graph, as seen from the inputs of its nodes.
pub(super) struct Sources<'a> {
    graph: &'a Graph,
    /// By the function that they are in and their names.
    nodes: HashMap<(&'a str, &'a str), &'a Node>,
    calls: HashMap<&'a str, Vec<Call<'a>>>,
}

/// All nodes, each with the function that it is in; an empty name for the graph.
pub(super) fn all(graph: &Graph) -> impl Iterator<Item = (&str, &Node)> {
    let functions = graph.library.iter().flat_map(|it| &it.functions).flat_map(|function| {
        let name = function.signature.as_ref().map_or("", |it| it.name.as_str());
        function.nodes.iter().map(move |it| (name, it))
    });
    graph.nodes.iter().map(|it| ("", it)).chain(functions)
}

/// Functions that TensorFlow may run though no node names them.
pub(super) fn unnamed(graph: &Graph) -> impl Iterator<Item = &str> {
    let library = graph.library.iter();
    let gradients = library.clone().flat_map(|it| &it.gradients).map(|it| it.function.as_str());
    let others = library.flat_map(|it| &it.functions);
    let others = others.filter(|it| it.attributes.contains_key(IMPLEMENTS));
    gradients.chain(others.filter_map(|it| Some(it.signature.as_ref()?.name.as_str())))
}

impl<'a> Sources<'a> {
    pub(super) fn of(graph: &'a Graph) -> Sources<'a> {
        let functions = functions_of(graph);
        let mut calls: HashMap<&str, Vec<Call<'_>>> = HashMap::new();
        for (within, node) in all(graph) {
            let plain = match CALLS.contains(&node.op.as_str()) {
                true => node.attributes.get("f").and_then(|it| it.function.as_ref()),
                false => None,
            };
            let plain = plain.map_or(node.op.as_str(), |it| it.name.as_str());
            for name in called_by(node, &functions) {
                let call = Call { within, node, is_plain: name == plain };
                calls.entry(name).or_default().push(call);
            }
        }
        let nodes = all(graph).map(|(function, it)| ((function, it.name.as_str()), it)).collect();
        Sources { graph, nodes, calls }
    }

    /// Is this input of a node in that function always one of those tensors of the graph?
    pub(super) fn is_one_of(&self, function: &'a str, input: &'a str, tensors: &[&str]) -> bool {
        let mut open = vec![(function, input)];
        let mut seen = HashSet::new();
        while let Some((function, input)) = open.pop() {
            if !seen.insert((function, input))
                || (function.is_empty() && tensors.contains(&tensor_of(input)))
            {
                continue;
            }
            match self.before(function, input) {
                Some(before) => open.extend(before),
                None => return false,
            }
        }
        true
    }

    /// The inputs whose values an input has, each with its function. `None` where it has one of its own.
    fn before(&self, function: &'a str, input: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
        if input.starts_with('^') {
            return None;
        }
        let Some(node) = self.nodes.get(&(function, node_of(input))) else {
            return self.given(function, input);
        };
        let first = node.inputs.first()?;
        match node.op.as_str() {
            "Identity" => Some(vec![(function, first)]),
            "ReadVariableOp" if function.is_empty() => {
                Some(self.assigned(first)?.into_iter().map(|it| ("", it)).collect())
            }
            _ => None,
        }
    }

    /// What calls of the function give for that argument.
    fn given(&self, function: &'a str, argument: &str) -> Option<Vec<(&'a str, &'a str)>> {
        let mut functions = self.graph.library.iter().flat_map(|it| &it.functions);
        let signatures =
            functions.find_map(|it| it.signature.as_ref().filter(|it| it.name == function));
        let arguments = &signatures?.arguments;
        let at = arguments.iter().position(|it| it.name == argument)?;
        let is_list = arguments.iter().any(|it| !it.count.is_empty() || !it.types.is_empty());
        if is_list || unnamed(self.graph).any(|it| it == function) {
            return None;
        }
        let calls = self.calls.get(function).into_iter().flatten();
        let input = |it: &Call<'a>| {
            let input = it.node.inputs.get(at).filter(|_| it.is_plain)?;
            Some((it.within, input.as_str()))
        };
        calls.map(input).collect()
    }

    /// All that a variable of the graph is ever set to; `None` where that cannot be seen.
    fn assigned(&self, handle: &str) -> Option<Vec<&'a str>> {
        let variable = self.nodes.get(&("", handle)).filter(|it| it.op == "VarHandleOp")?;
        let name = shared_name(variable).filter(|it| !it.is_empty())?;
        // Handles of one name are of one variable.
        let is_other = |it: &Node| {
            let of = shared_name(it).filter(|it| !it.is_empty()).unwrap_or(it.name.as_bytes());
            !std::ptr::eq(it, *variable) && (it.op != "VarHandleOp" || of == name)
        };
        let is_handle = |it: &Node| it.op.contains("VarHandle");
        if all(self.graph).any(|(_, it)| is_handle(it) && is_other(it)) {
            return None;
        }
        let takes = |it: &&Node| it.inputs.iter().any(|it| tensor_of(it) == handle);
        let mut values = Vec::new();
        for node in self.graph.nodes.iter().filter(takes) {
            match (node.op.as_str(), node.inputs.as_slice()) {
                ("ReadVariableOp" | "VarIsInitializedOp", _) => {}
                ("AssignVariableOp", [_, value, ..]) => values.push(value.as_str()),
                _ => return None,
            }
        }
        Some(values)
    }
}

fn shared_name(node: &Node) -> Option<&[u8]> {
    node.attributes.get("shared_name").map(|it| it.text.as_slice())
}

/// The first output of a node has two names.
pub(super) fn tensor_of(name: &str) -> &str {
    name.strip_suffix(":0").unwrap_or(name)
}
