//! What a graph consists of, without its weights: nodes, inputs, outputs, and the numbers of small constants. Messages
//! of `onnx.proto`; whatever is large is passed over.

use std::{collections::HashMap, io, sync::Arc};

use backend::PortNames;

use crate::{
    graph::Graph,
    protobuf::{Field, fields, number_of, numbers_of, packed, text_of, texts_of},
    reader::{Held, Reader, malformed},
};

/// A message that is read as a whole is at most so long. Nodes with larger constants within are of no known kind.
const LONGEST: u64 = 1 << 20;

/// Of constants with more elements only the shape is kept.
const MOST_ELEMENTS: usize = 256;

const INT32: u64 = 6;
const INT64: u64 = 7;

/// A graph, and the constants of its nodes beside those that are tensors of their own.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    /// The version of the operators of ONNX itself.
    pub(crate) opset: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) constants: HashMap<String, Constant>,
    /// What is sent, and of how many dimensions it is, where that is said.
    pub(crate) inputs: Vec<(String, Option<usize>)>,
    pub(crate) outputs: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Node {
    /// Empty where it is of no known kind: an operator of other makers, one that has graphs of its own, a huge one.
    pub(crate) operator: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    attributes: HashMap<String, Attribute>,
}

#[derive(Debug, Default)]
struct Attribute {
    number: Option<i64>,
    numbers: Vec<i64>,
    text: String,
    tensor: Option<Constant>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Constant {
    pub(crate) dims: Vec<i64>,
    /// Its elements, if they are a few integers.
    pub(crate) integers: Option<Vec<i64>>,
}

impl Node {
    #[cfg(test)]
    pub(super) fn new(
        operator: &str,
        inputs: Vec<String>,
        outputs: Vec<String>,
        attributes: &[(&str, i64)],
    ) -> Node {
        let of = |(name, number): &(&str, i64)| {
            ((*name).to_owned(), Attribute { number: Some(*number), ..Attribute::default() })
        };
        let attributes = attributes.iter().map(of).collect();
        Node { operator: operator.to_owned(), inputs, outputs, attributes }
    }

    pub(crate) fn number(&self, attribute: &str) -> Option<i64> {
        self.attributes.get(attribute)?.number
    }

    pub(crate) fn numbers(&self, attribute: &str) -> Option<&[i64]> {
        self.attributes.get(attribute).map(|it| &*it.numbers)
    }

    pub(crate) fn text(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", |it| &*it.text)
    }

    /// What an operator `Constant` is.
    pub(crate) fn constant(&self) -> Constant {
        let of = |name| self.attributes.get(name);
        let tensor = of("value").and_then(|it| it.tensor.clone());
        let number = || of("value_int").and_then(|it| it.number);
        let numbers = || of("value_ints").map(|it| it.numbers.clone());
        tensor
            .or_else(|| number().map(|it| Constant { dims: vec![], integers: Some(vec![it]) }))
            .or_else(|| {
                numbers().map(|it| Constant { dims: vec![it.len() as i64], integers: Some(it) })
            })
            .unwrap_or_default()
    }
}

impl Structure {
    /// That of a graph.
    ///
    /// # Errors
    /// A file that cannot be read, or is no ONNX model.
    pub(crate) fn of(graph: Graph<'_>) -> io::Result<Structure> {
        let (content, length) = graph.open()?;
        let mut reader = Reader::new(content);
        let mut structure = Structure::default();
        // Graphs are short and stand behind each other in no file that is known, but the format allows it.
        while reader.at < length {
            match reader.field(length)? {
                (7, Held::Bytes(end)) => structure.graph(&mut reader, end)?,
                (8, Held::Bytes(end)) => structure.opset_of(&reader.bytes(end, LONGEST)?),
                (_, Held::Bytes(end)) => reader.skip(end)?,
                (_, Held::Number(_) | Held::Fixed) => {}
            }
        }
        Ok(structure)
    }

    /// The names of its inputs and outputs.
    pub(crate) fn ports(self) -> PortNames {
        let inputs = self.inputs.into_iter().map(|it| it.0.into()).collect();
        PortNames { inputs, outputs: self.outputs.into_iter().map(Arc::from).collect() }
    }

    fn opset_of(&mut self, message: &[u8]) {
        let Some(message) = fields(message) else { return };
        if matches!(text_of(&message, 1), b"" | b"ai.onnx") {
            self.opset = number_of(&message, 2).unwrap_or_default();
        }
    }

    fn graph(&mut self, reader: &mut Reader<'_>, end: u64) -> io::Result<()> {
        while reader.at < end {
            let (number, Held::Bytes(inner)) = reader.field(end)? else { continue };
            match number {
                1 if inner - reader.at <= LONGEST => {
                    self.nodes.push(node(&reader.bytes(inner, LONGEST)?).ok_or_else(malformed)?);
                }
                // What its names are is not known: whatever is made of them has come from nowhere.
                1 => reader.skip(inner)?,
                5 => {
                    let (name, constant) = tensor(reader, inner)?;
                    self.constants.insert(name, constant);
                }
                11 => {
                    self.inputs.push(value(&reader.bytes(inner, LONGEST)?).ok_or_else(malformed)?)
                }
                12 => self
                    .outputs
                    .push(value(&reader.bytes(inner, LONGEST)?).ok_or_else(malformed)?.0),
                _ => reader.skip(inner)?,
            }
        }
        Ok(())
    }
}

fn node(message: &[u8]) -> Option<Node> {
    let message = fields(message)?;
    let names = |number| texts_of(&message, number).map(text).collect();
    let mut node = Node { inputs: names(1), outputs: names(2), ..Node::default() };
    let mut is_known = matches!(text_of(&message, 7), b"" | b"ai.onnx");
    for attribute in texts_of(&message, 5) {
        let attribute = fields(attribute)?;
        is_known &= !attribute.iter().any(|it| matches!(it.number, 6 | 11));
        let tensor = texts_of(&attribute, 5).next().map(|it| constant(&fields(it)?));
        let held = Attribute {
            number: number_of(&attribute, 3).map(u64::cast_signed),
            numbers: numbers_of(&attribute, 8)?,
            text: text(text_of(&attribute, 4)),
            tensor: tensor.flatten(),
        };
        node.attributes.insert(text(text_of(&attribute, 1)), held);
    }
    // What it chooses between is not followed, but by what it chooses.
    if is_known || text_of(&message, 4) == b"If" {
        node.operator = text(text_of(&message, 4));
    }
    Some(node)
}

/// The name of an input or output, and how many dimensions it has.
fn value(message: &[u8]) -> Option<(String, Option<usize>)> {
    let message = fields(message)?;
    let tensor = fields(text_of(&message, 2))?;
    let tensor = fields(text_of(&tensor, 1))?;
    let shape = texts_of(&tensor, 2).next();
    let rank = shape.map(|it| Some(texts_of(&fields(it)?, 1).count()));
    Some((text(text_of(&message, 1)), rank.flatten()))
}

fn constant(tensor: &[Field<'_>]) -> Option<Constant> {
    let dims = numbers_of(tensor, 1)?;
    let count = dims
        .iter()
        .try_fold(1usize, |product, dim| product.checked_mul(usize::try_from(*dim).ok()?));
    let raw = text_of(tensor, 9);
    let integers = match number_of(tensor, 2) {
        Some(INT64) if raw.is_empty() => numbers_of(tensor, 7),
        Some(INT64) => Some(raw.as_chunks().0.iter().map(|it| i64::from_le_bytes(*it)).collect()),
        Some(INT32) if raw.is_empty() => numbers_of(tensor, 5),
        Some(INT32) => {
            Some(raw.as_chunks().0.iter().map(|it| i32::from_le_bytes(*it).into()).collect())
        }
        _ => None,
    };
    let integers = integers.filter(|it| it.len() <= MOST_ELEMENTS && Some(it.len()) == count);
    Some(Constant { dims, integers })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The name of a tensor that ends there, and what is known of it. Its elements are read if they are few.
fn tensor(reader: &mut Reader<'_>, end: u64) -> io::Result<(String, Constant)> {
    if end - reader.at <= LONGEST {
        let message = reader.bytes(end, LONGEST)?;
        let message = fields(&message).ok_or_else(malformed)?;
        let constant = constant(&message).ok_or_else(malformed)?;
        return Ok((text(text_of(&message, 8)), constant));
    }
    let (mut name, mut dims) = (String::new(), Vec::new());
    while reader.at < end {
        match reader.field(end)? {
            (1, Held::Number(dim)) => dims.push(dim.cast_signed()),
            (1, Held::Bytes(inner)) => {
                dims.extend(packed(&reader.bytes(inner, LONGEST)?).ok_or_else(malformed)?)
            }
            (8, Held::Bytes(inner)) => name = text(&reader.bytes(inner, LONGEST)?),
            (_, Held::Bytes(inner)) => reader.skip(inner)?,
            (_, Held::Number(_) | Held::Fixed) => {}
        }
    }
    Ok((name, Constant { dims, integers: None }))
}
