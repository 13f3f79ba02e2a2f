//! The values of a graph by their names: where they come from, and what takes them. Pure.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use crate::operators::QUANTIZE;

/// The place of the scale among the inputs of an operator that quantises.
const SCALE: usize = 1;

/// Operators that look at shapes, and at no value.
const OF_SHAPES: [&[u8]; 2] = [b"Shape", b"Size"];

/// Operators whose output is as large as some of their inputs say, and the places of these.
const SIZED: [(&str, Range<usize>); 14] = [
    ("AffineGrid", 1..2),
    ("CenterCropPad", 1..2),
    ("Col2Im", 1..2),
    ("ConstantOfShape", 0..1),
    ("DFT", 1..2),
    ("Expand", 1..2),
    ("HannWindow", 0..1),
    ("MaxUnpool", 2..3),
    ("OneHot", 1..2),
    ("Pad", 1..2),
    ("Range", 0..3),
    ("Resize", 2..4),
    ("Tile", 1..2),
    ("Upsample", 1..2),
];

/// Is that operator's output as large as an input says?
pub(crate) fn is_sized(operator: &[u8]) -> bool {
    SIZED.iter().any(|it| it.0.as_bytes() == operator)
}

/// The inputs of an operator that say how large its output is.
pub(crate) fn sizes(operator: &[u8]) -> Range<usize> {
    SIZED.iter().find(|it| it.0.as_bytes() == operator).map_or(0..0, |it| it.1.clone())
}

/// Operators that read a few rows of their first input.
const GATHERS: [&[u8]; 4] = [b"Gather", b"GatherElements", b"GatherND", b"GatherBlockQuantized"];

/// One that reads rows of its tables: the inputs from the third to the fifth.
const EMBED: &[u8] = b"EmbedLayerNormalization";
const TABLES_OF_EMBED: Range<usize> = 2..5;

/// The names of a graph's values, and where they come from. Names of inner graphs are among them.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Those that are in the file or beside it, and their bytes.
    constants: HashMap<Vec<u8>, u64>,
    /// The one that is being read.
    constant: (Vec<u8>, u64),
    nodes: Vec<Node>,
    /// Places of the nodes that are being read, the innermost last.
    open: Vec<usize>,
}

#[derive(Debug, Default)]
struct Node {
    operator: Vec<u8>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl Node {
    /// Does it read rows of that input, and not all of it?
    fn gathers(&self, input: usize) -> bool {
        match &*self.operator {
            EMBED => TABLES_OF_EMBED.contains(&input),
            operator => input == 0 && GATHERS.contains(&operator),
        }
    }
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

    /// A tensor of so many bytes begins.
    pub(crate) fn begin_constant(&mut self, bytes: u64) {
        self.constant = (Vec::new(), bytes);
    }

    /// That is its name.
    pub(crate) fn constant(&mut self, name: Vec<u8>) {
        self.constant.0 = name;
    }

    /// It has so many bytes in a file of its own.
    pub(crate) fn constant_beside(&mut self, bytes: u64) {
        self.constant.1 = self.constant.1.saturating_add(bytes);
    }

    /// The tensor that has begun has ended.
    pub(crate) fn end_constant(&mut self) {
        let (name, bytes) = std::mem::take(&mut self.constant);
        self.constants.insert(name, bytes);
    }

    pub(crate) fn operator(&mut self, name: Vec<u8>) {
        if let Some(it) = self.node() {
            it.operator = name;
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

    /// Bytes of constants of which runs read single rows, and never all of them.
    pub(crate) fn table_bytes(&self) -> u64 {
        let (mut tables, mut whole) = (HashSet::new(), HashSet::new());
        for node in &self.nodes {
            for (at, name) in node.inputs.iter().enumerate() {
                if node.gathers(at) { &mut tables } else { &mut whole }.insert(&**name);
            }
        }
        let tables = tables.difference(&whole).filter_map(|it| self.constants.get(*it));
        tables.fold(0, |sum, it| sum.saturating_add(*it))
    }

    /// Does a scale of quantisation depend on what is sent?
    pub(crate) fn has_computed_scale(mut self) -> bool {
        self.spread(&[]);
        let scales = self.nodes.iter().filter(|it| it.operator == QUANTIZE);
        let mut scales = scales.filter_map(|it| it.inputs.get(SCALE));
        scales.any(|it| !self.constants.contains_key(it))
    }

    /// Is something as large as the values say that are sent? What follows from shapes alone is not.
    pub(crate) fn has_computed_size(mut self) -> bool {
        self.spread(&OF_SHAPES);
        let is_computed = |it: &Vec<u8>| !it.is_empty() && !self.constants.contains_key(it);
        self.nodes.iter().any(|node| {
            let sizes = sizes(&node.operator);
            node.inputs.iter().take(sizes.end).skip(sizes.start).any(is_computed)
        })
    }

    /// What is made of constants alone is one, and what these operators make of anything.
    fn spread(&mut self, operators: &[&[u8]]) {
        loop {
            let before = self.constants.len();
            for node in &mut self.nodes {
                let mut inputs = node.inputs.iter().filter(|it| !it.is_empty());
                if operators.contains(&&*node.operator)
                    || inputs.all(|it| self.constants.contains_key(it))
                {
                    self.constants.extend(node.outputs.drain(..).map(|it| (it, 0)));
                }
            }
            if self.constants.len() == before {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::LENGTHS;

    fn constant(values: &mut Values, name: &str, bytes: u64) {
        values.begin_constant(bytes);
        values.constant(name.as_bytes().to_vec());
        values.end_constant();
    }

    /// A graph of these nodes: operator, inputs and output.
    fn graph(nodes: &[(&str, &[&str], &str)]) -> Values {
        let mut values = Values::default();
        for (operator, inputs, output) in nodes {
            values.begin_node();
            inputs.iter().for_each(|it| values.input(it.as_bytes().to_vec()));
            values.output(output.as_bytes().to_vec());
            values.operator(operator.as_bytes().to_vec());
            values.end_node();
        }
        values
    }

    /// With the constant `c`.
    fn computes(nodes: &[(&str, &[&str], &str)]) -> bool {
        let mut values = graph(nodes);
        constant(&mut values, "c", 4);
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
    fn a_size_is_computed_where_values_have_a_part_in_it_and_shapes_are_none() {
        let computes = |nodes: &[(&str, &[&str], &str)]| {
            let mut values = graph(nodes);
            constant(&mut values, "c", 4);
            values.has_computed_size()
        };
        let most = ("ReduceMax", ["x"].as_slice(), "n");
        assert!(computes(&[most, ("Range", &["c", "n", "c"], "y")]));
        assert!(computes(&[most, ("Unsqueeze", &["n", "c"], "s"), ("Expand", &["c", "s"], "y")]));
        assert!(computes(&[("Resize", &["x", "", "", "sizes"], "y")]));
        assert!(!computes(&[("Resize", &["x", "", "c"], "y")]));
        let shape = ("Shape", ["x"].as_slice(), "s");
        assert!(!computes(&[
            shape,
            ("Gather", &["s", "c"], "n"),
            ("Range", &["c", "n", "c"], "y")
        ]));
        assert!(!computes(&[most, ("Expand", &["n", "c"], "y")]));
        assert!(!computes(&[most, ("Add", &["x", "n"], "y")]));
        assert!(
            SIZED
                .iter()
                .all(|it| LENGTHS.contains(&(it.0.len() as u64)) && is_sized(it.0.as_bytes()))
        );
    }

    #[test]
    fn a_table_is_what_rows_are_gathered_from_and_nothing_else_reads() {
        let tables = |nodes: &[(&str, &[&str], &str)]| {
            let mut values = graph(nodes);
            for (name, bytes) in [("words", 1000), ("places", 100), ("ids", 10)] {
                constant(&mut values, name, bytes);
            }
            values.table_bytes()
        };
        let gather = ("Gather", ["words", "ids"].as_slice(), "x");
        assert_eq!(tables(&[gather]), 1000);
        // As where the head of a language model has the weights of its embedding.
        assert_eq!(tables(&[gather, ("MatMul", &["x", "words"], "y")]), 0);
        assert_eq!(tables(&[("MatMul", &["ids", "words"], "y")]), 0);
        let embed = ["a", "b", "words", "places", "", "ids"];
        assert_eq!(tables(&[("EmbedLayerNormalization", &embed, "x")]), 1100);
        assert_eq!(tables(&[("Gather", &["unknown", "ids"], "x")]), 0);
        let mut read = GATHERS.iter().chain([&EMBED]);
        assert!(read.all(|it| LENGTHS.contains(&(it.len() as u64))));
    }
}
