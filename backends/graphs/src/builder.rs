//! A graph while it is made: nodes one after the other, each with the names of what it takes and gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use crate::{
    error::GraphError,
    late::{Form, Late, Layout, Out},
    onnx::{Attribute, Dim, ElementType, Graph, MICROSOFT, Node, Tensor, ValueInfo},
    place::{Plain, TensorLocation},
    precision::{Ends, Precision},
    weights::Weights,
};

/// A tensor of the graph, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Value(String);

impl Value {
    /// Nothing, in the place of an input that may be left out.
    pub(crate) fn none() -> Value {
        Value(String::new())
    }
}

/// Rows of codes. A number is its row's scale times the distance of its code from the middle, and its row's
/// shift, if rows have one.
#[derive(Debug, Clone)]
pub(crate) struct Codes {
    pub(crate) codes: Value,
    pub(crate) scales: Value,
    pub(crate) shifts: Option<Value>,
}

/// A graph while it is made.
pub(crate) struct Builder {
    weights: Weights,
    graph: Graph,
    /// Where the bytes of weights are read, if they are to be in the graph.
    inside: Option<PathBuf>,
    /// Of products from here on.
    precision: Precision,
    /// What has no bytes yet.
    late: Vec<Late>,
    /// What is quantised already, by what it was made of.
    codes: BTreeMap<(Value, Ends), Codes>,
}

impl Builder {
    /// A graph whose weights stay in their files.
    pub(crate) fn new(weights: Weights) -> Builder {
        Builder {
            weights,
            graph: Graph::default(),
            inside: None,
            precision: Precision::Fp32,
            late: Vec::new(),
            codes: BTreeMap::new(),
        }
    }

    /// The same with products of that precision.
    pub(crate) fn of(self, precision: Precision) -> Builder {
        Builder { precision, ..self }
    }

    /// The precision of products from here on.
    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// Makes a part of the graph whose products are of floats: heads, whose numbers clients see.
    pub(crate) fn in_floats<T>(&mut self, part: impl FnOnce(&mut Builder) -> T) -> T {
        let precision = std::mem::take(&mut self.precision);
        let made = part(self);
        self.precision = precision;
        made
    }

    /// A graph that has its weights inside. They are files of that folder.
    pub(crate) fn with_bytes(weights: Weights, folder: PathBuf) -> Builder {
        Builder { inside: Some(folder), ..Builder::new(weights) }
    }

    /// The graph under that name, the weights that it was made of, and those that it lacks.
    pub(crate) fn finish(self, name: &str) -> (Graph, Weights, Vec<Late>) {
        (Graph { name: name.to_owned(), ..self.graph }, self.weights, self.late)
    }

    /// Is anything quantised?
    pub(crate) fn has_codes(&self) -> bool {
        !self.late.is_empty()
    }

    /// Gives the graph at load whatever its runtime would look for in files, but for those floats.
    pub(crate) fn read_at_load(&mut self, but: &[Plain]) {
        for tensor in &self.graph.initializer {
            let name = tensor.name();
            let is_made = self.late.iter().any(|it| it.makes(name));
            let is_plain = but.iter().any(|it| it.name == name);
            let is_late = self.inside.is_none() && !is_made && !is_plain;
            let weight = self.weights.get(name).filter(|_| is_late);
            if let Some(weight) = weight {
                let form = Form::AsItLies(name.to_owned());
                self.late.push(Late { weight: weight.clone(), form });
            }
        }
    }

    /// Tensors of codes for the weight of that name and shape. Until they are made, they stand where the weight lies.
    pub(crate) fn quantised<const N: usize>(
        &mut self,
        name: &str,
        dims: [usize; 2],
        (layout, outs): (Layout, [Out; N]),
    ) -> Result<[Value; N], GraphError> {
        let weight = self.weights.take(name, &dims)?.clone();
        let values = std::array::from_fn(|at| Value(outs[at].name.clone()));
        if self.late.iter().any(|late| outs.iter().any(|it| late.makes(&it.name))) {
            return Ok(values);
        }
        for out in &outs {
            let place = TensorLocation { length: out.bytes(), ..weight.place.clone() };
            let tensor = Tensor::outside(&out.name, out.element, &out.dims, &place);
            self.graph.initializer.push(tensor);
        }
        self.late.push(Late { weight, form: Form::Codes { layout, outs: outs.into() } });
        Ok(values)
    }

    /// What was made of that value, if something was.
    pub(crate) fn codes_of(&self, x: &Value, ends: Ends) -> Option<Codes> {
        self.codes.get(&(x.clone(), ends)).cloned()
    }

    /// Keeps what was made of that value: several matrices are multiplied with one.
    pub(crate) fn keep_codes(&mut self, x: &Value, ends: Ends, codes: Codes) -> Codes {
        self.codes.insert((x.clone(), ends), codes.clone());
        codes
    }

    /// The weights that stay as they are: all but matrices that something is multiplied with, which runtimes lay out
    /// anew, and those that are cast at load.
    pub(crate) fn plain(&self) -> Vec<Plain> {
        let mut read = BTreeSet::new();
        for node in &self.graph.node {
            let is_matrix = |at| at == 1 && ["Gemm", "MatMul"].contains(&node.op_type.as_str());
            let others = node.input.iter().enumerate().filter(|(at, _)| !is_matrix(*at));
            read.extend(others.map(|(_, name)| name.as_str()));
        }
        let initializers = self.graph.initializer.iter().map(Tensor::name);
        let found = initializers.filter(|it| read.contains(it)).filter_map(|name| {
            let weight = self.weights.get(name).filter(|it| it.element == ElementType::Float)?;
            Some(Plain {
                name: name.to_owned(),
                dims: weight.dims.iter().map(|it| *it as i64).collect(),
                file: weight.place.file.clone(),
                offset: weight.place.offset,
                length: weight.place.length,
            })
        });
        found.collect()
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// An input of the model.
    pub(crate) fn input(&mut self, name: &str, element: ElementType, dims: &[Dim<'_>]) -> Value {
        self.graph.input.push(ValueInfo::new(name, element, dims));
        Value(name.to_owned())
    }

    /// Makes a tensor of floats an output of the model.
    pub(crate) fn output(&mut self, name: &str, value: &Value, dims: &[Dim<'_>]) {
        self.graph.node.push(Node {
            input: vec![value.0.clone()],
            output: vec![name.to_owned()],
            name: format!("output_{name}"),
            op_type: "Identity".to_owned(),
            ..Node::default()
        });
        self.graph.output.push(ValueInfo::new(name, ElementType::Float, dims));
    }

    /// The output of one more node.
    pub(crate) fn op(&mut self, op: &str, inputs: &[&Value], attributes: Vec<Attribute>) -> Value {
        self.node("", op, inputs, attributes)
    }

    /// The same of a node that takes so many positions as the configuration says. A run of more tokens fails in it, and
    /// ONNX Runtime's error has its name.
    pub(crate) fn op_of_positions(
        &mut self,
        op: &str,
        inputs: &[&Value],
        (key, most): (&str, usize),
    ) -> Value {
        let value = self.op(op, inputs, Vec::new());
        if let Some(node) = self.graph.node.last_mut() {
            node.name = format!("positions: {key} of config.json is {most}");
        }
        value
    }

    /// The same of an operator of ONNX Runtime's own.
    pub(crate) fn own_op(
        &mut self,
        op: &str,
        inputs: &[&Value],
        attributes: Vec<Attribute>,
    ) -> Value {
        self.node(MICROSOFT, op, inputs, attributes)
    }

    /// Equal parts of the last dimension.
    pub(crate) fn split<const N: usize>(&mut self, value: &Value) -> [Value; N] {
        let at = self.graph.node.len();
        let names: [String; N] = std::array::from_fn(|part| format!("Split_{at}_{part}"));
        self.graph.node.push(Node {
            input: vec![value.0.clone()],
            output: names.to_vec(),
            name: format!("Split_{at}"),
            op_type: "Split".to_owned(),
            attribute: vec![Attribute::int("axis", -1), Attribute::int("num_outputs", N as i64)],
            ..Node::default()
        });
        names.map(Value)
    }

    fn node(
        &mut self,
        domain: &str,
        op: &str,
        inputs: &[&Value],
        attribute: Vec<Attribute>,
    ) -> Value {
        let name = format!("{op}_{}", self.graph.node.len());
        self.graph.node.push(Node {
            input: inputs.iter().map(|it| it.0.clone()).collect(),
            output: vec![name.clone()],
            name: name.clone(),
            op_type: op.to_owned(),
            attribute,
            domain: domain.to_owned(),
        });
        Value(name)
    }

    /// The weight of that name and shape as floats. Its bytes stay in their file.
    ///
    /// # Errors
    /// Where it is missing or has another shape.
    pub(crate) fn weight(&mut self, name: &str, dims: &[usize]) -> Result<Value, GraphError> {
        let weight = self.weights.take(name, dims)?;
        let (element, place) = (weight.element, weight.place.clone());
        let dims: Vec<i64> = dims.iter().map(|it| *it as i64).collect();
        // Tied weights are there once.
        if self.graph.initializer.iter().all(|it| it.name() != name) {
            self.graph.initializer.push(match &self.inside {
                Some(folder) => Tensor::inside(name, element, &dims, place.bytes(folder)?),
                None => Tensor::outside(name, element, &dims, &place),
            });
        }
        let value = Value(name.to_owned());
        Ok(match element {
            ElementType::Float => value,
            _ => self.cast(&value, ElementType::Float),
        })
    }

    /// A list of whole numbers.
    pub(crate) fn whole_numbers(&mut self, values: &[i64]) -> Value {
        self.constant(
            ElementType::Int64,
            &[values.len() as i64],
            values.iter().map(|it| it.to_le_bytes()),
        )
    }

    /// One whole number.
    pub(crate) fn whole_number(&mut self, value: i64) -> Value {
        self.constant(ElementType::Int64, &[], [value.to_le_bytes()].into_iter())
    }

    /// One number.
    pub(crate) fn number(&mut self, value: f32) -> Value {
        self.constant(ElementType::Float, &[], [value.to_le_bytes()].into_iter())
    }

    /// One byte without a sign.
    pub(crate) fn byte(&mut self, value: u8) -> Value {
        self.constant(ElementType::Uint8, &[], [[value]].into_iter())
    }

    /// A list of numbers.
    pub(crate) fn numbers(&mut self, values: &[f32]) -> Value {
        self.constant(
            ElementType::Float,
            &[values.len() as i64],
            values.iter().map(|it| it.to_le_bytes()),
        )
    }

    fn constant<const N: usize>(
        &mut self,
        element: ElementType,
        dims: &[i64],
        bytes: impl Iterator<Item = [u8; N]>,
    ) -> Value {
        let data: Vec<u8> = bytes.flatten().collect();
        let name = format!("constant_{}", self.graph.initializer.len());
        self.graph.initializer.push(Tensor::inside(&name, element, dims, data));
        Value(name)
    }

    pub(crate) fn cast(&mut self, value: &Value, to: ElementType) -> Value {
        self.op("Cast", &[value], vec![Attribute::int("to", to as i64)])
    }
}
