//! Operations by which rows of a run share something, whatever is sent: chance, a scale of quantisation that is
//! computed from all rows, or statistics of the run. Pure.

use std::collections::{HashMap, HashSet};

use super::{
    proto::{Graph, Node},
    reach,
};

/// Beginnings of the names of operations that draw lots.
const CHANCE: [&str; 10] = [
    "Random",
    "StatelessRandom",
    "StatelessTruncatedNormal",
    "StatelessParameterizedTruncatedNormal",
    "StatelessMultinomial",
    "StatefulUniform",
    "StatefulStandardNormal",
    "StatefulTruncatedNormal",
    "StatefulRandom",
    "TruncatedNormal",
];

/// The whole names of others, and of those that compute a scale from all that they are given.
const NAMES: [&str; 5] = [
    "Multinomial",
    "ParameterizedTruncatedNormal",
    "QuantizeAndDequantize",
    "RequantizationRange",
    "RequantizationRangePerChannel",
];

/// Operations that begin like those and draw none.
const NO_CHANCE: [&str; 4] = [
    "RandomDataset",
    "RandomDatasetV2",
    "StatelessRandomGetAlg",
    "StatelessRandomGetKeyCounterAlg",
];

/// Operations with a switch, what it says where they share something, and what it is where it is not written.
const SWITCHED: [(&str, &str, bool, bool); 6] = [
    ("QuantizeAndDequantizeV2", "range_given", false, false),
    ("QuantizeAndDequantizeV3", "range_given", false, true),
    ("QuantizeAndDequantizeV4", "range_given", false, false),
    ("FusedBatchNorm", "is_training", true, true),
    ("FusedBatchNormV2", "is_training", true, true),
    ("FusedBatchNormV3", "is_training", true, true),
];

/// Operations with a range, and the places of its ends among their inputs.
const WITH_RANGE: [(&str, [usize; 2]); 4] = [
    ("FakeQuantWithMinMaxVars", [1, 2]),
    ("FakeQuantWithMinMaxVarsPerChannel", [1, 2]),
    ("QuantizeV2", [1, 2]),
    ("QuantizeAndDequantizeV2", [1, 2]),
];

/// Operations that make one number of many.
const REDUCTIONS: [&str; 6] = ["Max", "Min", "Mean", "Sum", "Prod", "EuclideanNorm"];

/// The first such operation that a run executes which gives those outputs.
pub(super) fn shared_by<'a>(
    graph: &'a Graph,
    outputs: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let reached = reach::reached(graph, outputs, Vec::new());
    let shared = reached.iter().find(|it| is_shared(it)).copied();
    // Names are of a function, or of the graph itself.
    let functions = reach::functions_of(graph);
    let computed = || {
        let used: HashSet<*const Node> = reached.iter().map(|it| std::ptr::from_ref(*it)).collect();
        let bodies = functions.values().copied().chain([graph.nodes.as_slice()]);
        let is_used = |it: &&Node| used.contains(&std::ptr::from_ref(*it));
        bodies.into_iter().find_map(|body| FunctionBody::of(body).computed_range(is_used))
    };
    shared.or_else(computed).map(|it| it.op.as_str())
}

fn is_shared(node: &Node) -> bool {
    let operation = node.op.as_str();
    let draws =
        CHANCE.iter().any(|it| operation.starts_with(it)) && !NO_CHANCE.contains(&operation);
    let is_switched = SWITCHED.iter().any(|(name, key, shares, usual)| {
        let switch = || node.attributes.get(*key).and_then(|it| it.switch).unwrap_or(*usual);
        *name == operation && switch() == *shares
    });
    draws || is_switched || NAMES.contains(&operation)
}

/// The nodes of a function, or of the graph outside of functions.
struct FunctionBody<'a> {
    all: &'a [Node],
    by_name: HashMap<&'a str, &'a Node>,
}

impl<'a> FunctionBody<'a> {
    fn of(nodes: &'a [Node]) -> FunctionBody<'a> {
        let by_name = nodes.iter().map(|it| (it.name.as_str(), it)).collect();
        FunctionBody { all: nodes, by_name }
    }

    /// The first node whose range is computed from what is sent: an end of it is made of a reduction of that.
    fn computed_range(&self, is_used: impl Fn(&&Node) -> bool) -> Option<&'a Node> {
        let of_range = |node: &'a Node| {
            let (_, ends) = WITH_RANGE.iter().find(|it| it.0 == node.op)?;
            Some(ends.iter().filter_map(|it| node.inputs.get(*it)).collect::<Vec<_>>())
        };
        let is_computed = |node: &&'a Node| {
            let ends = of_range(node).unwrap_or_default();
            ends.into_iter().any(|end| {
                let made_of = self.made_of(end).0;
                let mut reductions =
                    made_of.iter().filter(|it| REDUCTIONS.contains(&it.op.as_str()));
                reductions.any(|it| it.inputs.first().is_some_and(|it| self.made_of(it).1))
            })
        };
        self.all.iter().filter(|it| is_used(it)).find(is_computed)
    }

    /// The nodes that a value is made of, and whether what is sent is among them. Variables and constants are not sent.
    fn made_of(&self, value: &'a str) -> (Vec<&'a Node>, bool) {
        let (mut names, mut seen) = (vec![value], HashSet::new());
        let (mut nodes, mut is_sent) = (Vec::new(), false);
        while let Some(name) = names.pop() {
            if name.starts_with('^') || !seen.insert(reach::node_of(name)) {
                continue;
            }
            match self.by_name.get(reach::node_of(name)) {
                // An argument of the function.
                None => is_sent = true,
                Some(node) if node.op == "Placeholder" => is_sent = true,
                Some(node) if node.op == "ReadVariableOp" => {}
                Some(node) => {
                    nodes.push(*node);
                    names.extend(node.inputs.iter().map(String::as_str));
                }
            }
        }
        (nodes, is_sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_model::proto::{
        Attribute, Function, FunctionName, FunctionSignature, Library,
    };

    fn node(name: &str, op: &str, inputs: &[&str]) -> Node {
        let inputs = inputs.iter().map(|it| (*it).to_owned()).collect();
        Node { name: name.into(), op: op.into(), inputs, ..Node::default() }
    }

    fn with_switch(mut node: Node, key: &str, switch: bool) -> Node {
        let attribute = Attribute { switch: Some(switch), ..Attribute::default() };
        node.attributes.insert(key.into(), attribute);
        node
    }

    /// The nodes of a function of the argument `x` that gives `y`, and of a graph that calls it.
    #[track_caller]
    fn check(nodes: Vec<Node>, expected: Option<&str>) {
        let signature = FunctionSignature { name: "traced".into(), ..FunctionSignature::default() };
        let function = Function { signature: Some(signature), nodes, ..Function::default() };
        let library = Library { functions: vec![function], ..Library::default() };
        let mut call = node("y", "StatefulPartitionedCall", &["x"]);
        let of = FunctionName { name: "traced".into() };
        call.attributes
            .insert("f".into(), Attribute { function: Some(of), ..Attribute::default() });
        let unused = node("unused", "RandomUniform", &[]);
        let nodes = vec![node("x", "Placeholder", &[]), call, unused];
        let graph = Graph { nodes, library: Some(library) };
        assert_eq!(shared_by(&graph, ["y:0"].into_iter()), expected);
    }

    #[test]
    fn chance_counts_where_a_run_executes_it() {
        check(vec![node("y", "MatMul", &["x", "w"])], None);
        for operation in [
            "RandomUniform",
            "RandomStandardNormal",
            "StatelessRandomUniformV2",
            "TruncatedNormal",
            "Multinomial",
            "StatefulUniformFullInt",
        ] {
            check(vec![node("r", operation, &[])], Some(operation));
        }
        check(vec![node("d", "RandomDatasetV2", &[])], None);
    }

    #[test]
    fn a_switch_that_is_not_written_has_its_usual_value() {
        let norm = || node("n", "FusedBatchNormV3", &["x"]);
        check(vec![norm()], Some("FusedBatchNormV3"));
        check(vec![with_switch(norm(), "is_training", false)], None);
        let scaled = || node("q", "QuantizeAndDequantizeV2", &["x", "a", "b"]);
        check(vec![scaled()], Some("QuantizeAndDequantizeV2"));
        check(vec![with_switch(scaled(), "range_given", true)], None);
        check(vec![node("q", "QuantizeAndDequantizeV3", &["x", "a", "b"])], None);
    }

    #[test]
    fn a_range_is_computed_where_it_is_made_of_a_reduction_of_what_is_sent() {
        let quantise =
            |least: &str, most: &str| node("q", "FakeQuantWithMinMaxVars", &["x", least, most]);
        let variable = node("v", "ReadVariableOp", &["resource"]);
        check(vec![variable.clone(), quantise("v:value:0", "v:value:0")], None);
        // A range that is given as an argument is no reduction, and that of the weights is not sent.
        check(vec![quantise("least", "most")], None);
        let of_weights = node("m", "Max", &["v:value:0", "axes"]);
        check(vec![variable, of_weights, quantise("v:value:0", "m:output:0")], None);
        let of_input = node("m", "Max", &["x", "axes"]);
        let scaled = node("s", "Mul", &["m:output:0", "c:output:0"]);
        let constant = node("c", "Const", &[]);
        check(
            vec![constant.clone(), of_input.clone(), scaled, quantise("c:output:0", "s:z:0")],
            Some("FakeQuantWithMinMaxVars"),
        );
        check(vec![constant, of_input, quantise("c:output:0", "c:output:0")], None);
    }
}
