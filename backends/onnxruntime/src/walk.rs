//! What a model's file says of itself beside its weights: its protobuf is walked, past whatever is large.

use std::{collections::BTreeSet, io};

use crate::{
    graph::Graph,
    operators::{LENGTHS, OF_ANY_TIME, OF_VALUES, QUANTIZE, shared_by},
    protobuf::{fields, text_of},
    reader::{Held, Reader, malformed},
    rows::{self, Structure},
    values::{Values, is_sized},
    zipmap,
};

/// What was found on the way.
pub(crate) struct FoundFiles {
    /// Bytes of the file.
    pub(crate) length: u64,
    /// Has the model a graph?
    pub(crate) has_graph: bool,
    /// Names of files of weights, relative to it.
    pub(crate) weights: BTreeSet<String>,
    /// Bytes of the weights in files of their own, where all of them say how long they are.
    pub(crate) weight_bytes: Option<u64>,
    /// Is there an operator that makes maps of a classifier's probabilities?
    pub(crate) has_zipmap: bool,
    /// Do shapes follow from those of the inputs, and not from what is in them?
    pub(crate) has_plain_shapes: bool,
    /// The operator by which the rows of a run share something, whatever is sent.
    pub(crate) shares_rows: Option<String>,
    /// Does the time of a run follow from what is in the inputs?
    pub(crate) time_follows_values: bool,
}

impl FoundFiles {
    /// Walks a graph.
    ///
    /// # Errors
    /// A file that cannot be read, or is no ONNX model.
    pub(crate) fn of(graph: Graph<'_>) -> io::Result<FoundFiles> {
        let (mut walk, length) = Walk::begin(graph)?;
        walk.message(Kind::Model, length)?;
        if walk.quantizes && walk.shares_rows.is_none() && Values::of(graph)?.has_computed_scale() {
            walk.shares_rows = Some("QuantizeLinear");
        }
        if walk.has_sizes && !walk.time_follows_values {
            walk.time_follows_values = Values::of(graph).is_ok_and(Values::has_computed_size);
        }
        let mut shares_rows = walk.shares_rows.map(str::to_owned);
        if shares_rows.is_none() && !graph.is_made() {
            // Of what cannot be read, ONNX Runtime says what is wrong.
            let structure = Structure::of(graph).ok();
            shares_rows = structure.as_ref().and_then(rows::shared_by).map(str::to_owned);
        }
        Ok(FoundFiles {
            length,
            has_graph: walk.has_graph,
            weight_bytes: (walk.locations == walk.lengths).then_some(walk.length),
            weights: walk.weights,
            has_zipmap: walk.has_zipmap,
            has_plain_shapes: walk.has_plain_shapes,
            shares_rows,
            time_follows_values: walk.time_follows_values,
        })
    }
}

impl Values {
    /// Those of a graph.
    ///
    /// # Errors
    /// A file that cannot be read, or is no ONNX model.
    pub(crate) fn of(graph: Graph<'_>) -> io::Result<Values> {
        let (mut walk, length) = Walk::begin(graph)?;
        walk.values = Some(Values::default());
        walk.message(Kind::Model, length)?;
        Ok(walk.values.unwrap_or_default())
    }
}

/// A message type of `onnx.proto` that leads to the name of a file or of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Function,
    Graph,
    Node,
    Attribute,
    SparseTensor,
    Tensor,
    /// An entry of a tensor's `external_data`: its key `location` has the name of a file.
    External,
    /// The name of a node's operator.
    Operator,
    /// Names of what a node takes and gives, and of a tensor.
    Input,
    Output,
    Name,
}

impl Kind {
    /// What is in the field of that number. `None` where nothing is that is looked for.
    fn field(self, number: u64) -> Option<Kind> {
        match (self, number) {
            (Kind::Model, 7) => Some(Kind::Graph),
            (Kind::Model, 25) => Some(Kind::Function),
            (Kind::Function, 7) | (Kind::Graph, 1) => Some(Kind::Node),
            (Kind::Node, 1) => Some(Kind::Input),
            (Kind::Node, 2) => Some(Kind::Output),
            (Kind::Node, 4) => Some(Kind::Operator),
            (Kind::Node, 5) => Some(Kind::Attribute),
            (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) => Some(Kind::Tensor),
            (Kind::Graph, 15) | (Kind::Attribute, 22 | 23) => Some(Kind::SparseTensor),
            (Kind::SparseTensor, 1 | 2) => Some(Kind::Tensor),
            (Kind::Attribute, 6 | 11) => Some(Kind::Graph),
            (Kind::Tensor, 8) => Some(Kind::Name),
            (Kind::Tensor, 13) => Some(Kind::External),
            _ => None,
        }
    }
}

/// A longer name than this is none.
const LONGEST_ENTRY: u64 = 64 << 10;

struct Walk<'a> {
    file: Reader<'a>,
    weights: BTreeSet<String>,
    /// Tensors that say in which file they are, and those that say how long they are there.
    locations: usize,
    lengths: usize,
    /// Bytes of the latter.
    length: u64,
    has_graph: bool,
    has_zipmap: bool,
    has_plain_shapes: bool,
    shares_rows: Option<&'static str>,
    /// Is there an operator that quantises with a scale that it is given?
    quantizes: bool,
    /// Where it matters where values come from, they are noted, and nothing else is.
    values: Option<Values>,
    time_follows_values: bool,
    /// Is there an operator whose output is as large as an input says?
    has_sizes: bool,
}

impl<'a> Walk<'a> {
    /// At the beginning of a graph, and how long that is.
    fn begin(graph: Graph<'a>) -> io::Result<(Walk<'a>, u64)> {
        let (file, length) = graph.open()?;
        let walk = Walk {
            file: Reader::new(file),
            weights: BTreeSet::new(),
            locations: 0,
            lengths: 0,
            length: 0,
            has_graph: false,
            has_zipmap: false,
            has_plain_shapes: true,
            shares_rows: None,
            quantizes: false,
            values: None,
            time_follows_values: false,
            has_sizes: false,
        };
        Ok((walk, length))
    }

    /// Reads a message that ends at that byte. Messages lie within each other, and the loop keeps their
    /// ends in a list, so that no file can make it recurse.
    fn message(&mut self, kind: Kind, end: u64) -> io::Result<()> {
        let mut open = vec![(kind, end)];
        while let Some(&(kind, end)) = open.last() {
            if self.file.at == end {
                open.pop();
                match (kind, &mut self.values) {
                    (Kind::Node, Some(values)) => values.end_node(),
                    (Kind::Tensor, Some(values)) => values.end_constant(),
                    _ => {}
                }
                continue;
            }
            let (number, Held::Bytes(inner_end)) = self.file.field(end)? else { continue };
            let length = inner_end - self.file.at;
            match kind.field(number) {
                Some(Kind::External) => self.external(inner_end)?,
                Some(name @ (Kind::Input | Kind::Output | Kind::Name)) => {
                    self.name(name, inner_end)?;
                }
                Some(Kind::Operator) if LENGTHS.contains(&length) => self.operator(inner_end)?,
                Some(Kind::Operator) => self.file.skip(inner_end)?,
                Some(inner) => {
                    self.has_graph |= kind == Kind::Model && inner == Kind::Graph;
                    match (inner, &mut self.values) {
                        (Kind::Node, Some(values)) => values.begin_node(),
                        (Kind::Tensor, Some(values)) => values.begin_constant(length),
                        _ => {}
                    }
                    open.push((inner, inner_end));
                }
                None => self.file.skip(inner_end)?,
            }
        }
        Ok(())
    }

    /// Reads an operator's name, which may be one that matters.
    fn operator(&mut self, end: u64) -> io::Result<()> {
        let name = self.file.bytes(end, LONGEST_ENTRY)?;
        if let Some(values) = &mut self.values {
            values.operator(name);
            return Ok(());
        }
        self.has_zipmap |= name == zipmap::OPERATOR;
        self.quantizes |= name == QUANTIZE;
        self.shares_rows = self.shares_rows.or_else(|| shared_by(&name));
        let is_among = |names: &[&str]| names.iter().any(|it| it.as_bytes() == name);
        self.has_plain_shapes &= !is_among(&OF_VALUES);
        self.time_follows_values |= is_among(&OF_ANY_TIME);
        self.has_sizes |= is_sized(&name);
        Ok(())
    }

    /// Reads the name of a value, if values are noted.
    fn name(&mut self, kind: Kind, end: u64) -> io::Result<()> {
        let Some(values) = &mut self.values else { return self.file.skip(end) };
        let name = self.file.bytes(end, LONGEST_ENTRY)?;
        match kind {
            Kind::Input => values.input(name),
            Kind::Output => values.output(name),
            _ => values.constant(name),
        }
        Ok(())
    }

    /// Reads an entry of `external_data`, which is a key (field 1) and a value (2).
    fn external(&mut self, end: u64) -> io::Result<()> {
        let entry = self.file.bytes(end, LONGEST_ENTRY)?;
        let entry = fields(&entry).ok_or_else(malformed)?;
        let (key, value) = (text_of(&entry, 1), text_of(&entry, 2));
        match key {
            b"location" => {
                self.locations += 1;
                self.weights.insert(String::from_utf8(value.to_vec()).map_err(|_| malformed())?);
            }
            b"length" => {
                let text = str::from_utf8(value).map_err(|_| malformed())?;
                let length: u64 = text.trim().parse().map_err(|_| malformed())?;
                self.lengths += 1;
                self.length = self.length.saturating_add(length);
                if let Some(values) = &mut self.values {
                    values.constant_beside(length);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
pub(crate) mod tests {
    use super::*;
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    fn model(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(name)
    }

    /// The field of that number with this content.
    pub(crate) fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    #[test]
    fn operators_whose_outputs_have_shapes_that_follow_from_values_are_found() {
        let is_plain =
            |name| FoundFiles::of(model(name).as_path().into()).unwrap().has_plain_shapes;
        assert!(is_plain("mlp.onnx") && is_plain("matmul.onnx"));
        assert!(!is_plain("long.onnx"), "it has a loop");
    }

    #[test]
    fn operators_by_which_rows_share_a_scale_are_found() {
        let folder = std::env::temp_dir().join(format!("muster-shared-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let shared = |nodes: &[(&str, &[&str])]| {
            let mut graph = field(5, &field(8, b"constant"));
            for (operator, inputs) in nodes {
                let mut node: Vec<u8> =
                    inputs.iter().flat_map(|it| field(1, it.as_bytes())).collect();
                node.extend([field(2, b"scale"), field(4, operator.as_bytes())].concat());
                graph.extend(field(1, &node));
            }
            fs::write(folder.join("model.onnx"), field(7, &graph)).unwrap();
            FoundFiles::of(folder.join("model.onnx").as_path().into()).unwrap().shares_rows
        };
        let of_scale = shared(&[("DynamicQuantizeLinear", &["x"])]);
        assert_eq!(of_scale.as_deref(), Some("DynamicQuantizeLinear"));
        assert_eq!(shared(&[("QuantizeLinear", &["x", "constant"])]), None);
        let computed = [("ReduceMax", ["x"].as_slice()), ("QuantizeLinear", &["x", "scale"])];
        assert_eq!(shared(&computed).as_deref(), Some("QuantizeLinear"));
        assert_eq!(shared(&computed[..1]), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_time_of_a_graph_that_holds_a_loop_follows_values_also_where_it_stands_in_a_branch_or_a_function()
     {
        let follows =
            |name| FoundFiles::of(model(name).as_path().into()).unwrap().time_follows_values;
        assert!(follows("long.onnx"), "it has a loop");
        assert!(!follows("mlp.onnx") && !follows("matmul.onnx"));
        let folder = std::env::temp_dir().join(format!("muster-loops-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let follows = |bytes: &[u8]| {
            let path = folder.join("model.onnx");
            fs::write(&path, bytes).unwrap();
            FoundFiles::of(path.as_path().into()).unwrap().time_follows_values
        };
        let node = |operator: &[u8]| field(4, operator);
        let part = |node: &[u8]| {
            field(1, &[field(4, b"Scan"), field(5, &field(6, &field(1, node)))].concat())
        };
        for (operator, expected) in
            [(&b"Loop"[..], true), (b"If", true), (b"Scan", false), (b"Add", false)]
        {
            let node = node(operator);
            let in_graph = field(7, &field(1, &node));
            let in_part = field(7, &part(&node));
            // The tag of field 25 has two bytes.
            let function = field(7, &node);
            let in_function =
                [&[0xCA, 1, u8::try_from(function.len()).unwrap()], &*function].concat();
            for model in [in_graph, in_part, in_function] {
                assert_eq!(follows(&model), expected, "{operator:?}");
            }
        }
        // As often as `n` says, which is no constant.
        let tile = [field(1, b"x"), field(1, b"n"), field(4, b"Tile")].concat();
        assert!(follows(&field(7, &field(1, &tile))));
        fs::remove_dir_all(&folder).unwrap();
    }
}
