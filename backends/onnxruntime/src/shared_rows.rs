//! Operators by which rows of a run share something, whatever is sent: a scale of quantisation that is computed from
//! all of them, or a sequence of random numbers. Pure.

use std::collections::HashSet;

/// Operators whose answer for a row is made with the other rows of the run. Trial values need not show it: where a row
/// has the largest number of all, its company changes nothing.
const OF_ALL_ROWS: [&str; 9] = [
    "Bernoulli",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeLinear",
    "DynamicQuantizeMatMul",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
];

/// Names of these operators, and of the one below, are at most so long.
pub(crate) const LONGEST: u64 = 21;

/// It does the same where its scale is computed.
pub(crate) const QUANTIZE: &[u8] = b"QuantizeLinear";

/// The place of the scale among its inputs.
const SCALE: usize = 1;

/// That operator, if it makes rows share something.
pub(crate) fn shared_by(operator: &[u8]) -> Option<&'static str> {
    OF_ALL_ROWS.into_iter().find(|it| it.as_bytes() == operator)
}

/// The names of a graph's values, and where they come from. Names of inner graphs are among them.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Those that are in the file.
    constants: HashSet<Vec<u8>>,
    nodes: Vec<Node>,
    /// Places of the nodes that are being read, the innermost last.
    open: Vec<usize>,
}

#[derive(Debug, Default)]
struct Node {
    is_quantize: bool,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl Values {
    /// A node begins.
    pub(crate) fn begin_node(&mut self) {
        self.open.push(self.nodes.len());
        self.nodes.push(Node::default());
    }

    /// The innermost node that has begun has ended.
    pub(crate) fn end_node(&mut self) {
        self.open.pop();
    }

    /// The file holds a tensor of that name.
    pub(crate) fn constant(&mut self, name: Vec<u8>) {
        self.constants.insert(name);
    }

    pub(crate) fn operator(&mut self, name: &[u8]) {
        if let Some(it) = self.node() {
            it.is_quantize = name == QUANTIZE;
        }
    }

    pub(crate) fn input(&mut self, name: Vec<u8>) {
        if let Some(it) = self.node() {
            it.inputs.push(name);
        }
    }

    pub(crate) fn output(&mut self, name: Vec<u8>) {
        if let Some(it) = self.node() {
            it.outputs.push(name);
        }
    }

    fn node(&mut self) -> Option<&mut Node> {
        self.nodes.get_mut(*self.open.last()?)
    }

    /// Does a scale of quantisation depend on what is sent? What is made of constants alone is one.
    pub(crate) fn has_computed_scale(mut self) -> bool {
        loop {
            let before = self.constants.len();
            for node in &mut self.nodes {
                let mut inputs = node.inputs.iter().filter(|it| !it.is_empty());
                if inputs.all(|it| self.constants.contains(it)) {
                    self.constants.extend(node.outputs.drain(..));
                }
            }
            if self.constants.len() == before {
                break;
            }
        }
        let scales = self.nodes.iter().filter(|it| it.is_quantize);
        let mut scales = scales.filter_map(|it| it.inputs.get(SCALE));
        scales.any(|it| !self.constants.contains(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph of these nodes: operator, inputs and output, and the constant `c`.
    fn computes(nodes: &[(&str, &[&str], &str)]) -> bool {
        let mut values = Values::default();
        values.constant(b"c".to_vec());
        for (operator, inputs, output) in nodes {
            values.begin_node();
            inputs.iter().for_each(|it| values.input(it.as_bytes().to_vec()));
            values.output(output.as_bytes().to_vec());
            values.operator(operator.as_bytes());
            values.end_node();
        }
        values.has_computed_scale()
    }

    #[test]
    fn a_scale_is_computed_where_an_input_of_the_graph_has_a_part_in_it() {
        assert!(!computes(&[("QuantizeLinear", &["x", "c", ""], "y")]));
        let of_constants = ("Sqrt", ["c"].as_slice(), "s");
        assert!(!computes(&[of_constants, ("QuantizeLinear", &["x", "s"], "y")]));
        assert!(!computes(&[("Constant", &[], "s"), ("QuantizeLinear", &["x", "s"], "y")]));
        let of_input = ("ReduceMax", ["x"].as_slice(), "m");
        assert!(computes(&[
            of_input,
            ("Div", &["m", "c"], "s"),
            ("QuantizeLinear", &["x", "s"], "y")
        ]));
        assert!(!computes(&[of_input, ("Div", &["x", "m"], "y")]));
    }

    #[test]
    fn every_operator_is_read() {
        assert!(OF_ALL_ROWS.iter().all(|it| it.len() as u64 <= LONGEST));
        assert_eq!(shared_by(b"DynamicQuantizeLinear"), Some("DynamicQuantizeLinear"));
        assert_eq!(shared_by(b"MatMulInteger"), None);
    }
}
