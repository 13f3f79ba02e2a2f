//! What a TorchScript module says about itself: the arguments of `forward`, what it returns, its weights.

use backend::DataType;

/// Read from the module once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Interface {
    /// The arguments of `forward`, `self` left out.
    pub(crate) parameters: Vec<Parameter>,
    /// Parameters and buffers, in the order of the module's attributes.
    pub(crate) weights: Vec<Weight>,
    pub(crate) returns: Returns,
    /// Was it saved in training mode?
    pub(crate) training: bool,
    /// Can a run change it?
    pub(crate) stateful: bool,
    /// May a run repeat parts of the graph as often as values say?
    pub(crate) loops: bool,
}

/// An argument of `forward`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// As TorchScript writes it.
    pub(crate) type_name: String,
    pub(crate) kind: ParameterKind,
    pub(crate) has_default: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// `Tensor` or `Optional[Tensor]`.
    Tensor,
    /// `List[str]`
    Strings,
    /// `Dict[str, Tensor]`
    Dict,
    /// `int`
    Int,
    /// `float`
    Float,
    /// `bool`
    Bool,
    /// What no client can send.
    Other,
}

impl ParameterKind {
    /// The types of which a number can be, the usual one first; empty for what is no number.
    pub(crate) fn number_types(self) -> &'static [DataType] {
        match self {
            ParameterKind::Int => &[DataType::Int64],
            ParameterKind::Float => &[DataType::Fp64, DataType::Fp32],
            ParameterKind::Bool => &[DataType::Bool],
            _ => &[],
        }
    }

    /// Is it a single number, and no tensor?
    pub(crate) fn is_number(self) -> bool {
        !self.number_types().is_empty()
    }
}

/// A parameter or buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weight {
    /// For example `weight`.
    pub(crate) name: String,
    /// The class of the module that holds it, for example `Linear`.
    pub(crate) class: String,
    /// `None` for a type that cannot be served.
    pub(crate) dtype: Option<DataType>,
    pub(crate) dims: Vec<usize>,
}

/// What `forward` returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Returns {
    /// As TorchScript writes it.
    pub(crate) type_name: String,
    /// Is it a dictionary?
    pub(crate) dict: bool,
    /// How many values, nested ones counted one by one; `None` where the type does not tell.
    pub(crate) count: Option<usize>,
    /// The names of a `NamedTuple`'s values, else empty.
    pub(crate) fields: Vec<String>,
}

impl Interface {
    /// Is the only argument a dictionary, whose entries are the inputs?
    pub(crate) fn takes_dict(&self) -> bool {
        matches!(self.parameters.as_slice(), [only] if only.kind == ParameterKind::Dict)
    }

    /// The arguments' names, for error texts.
    pub(crate) fn parameter_names(&self) -> String {
        let names: Vec<&str> = self.parameters.iter().map(|it| it.name.as_str()).collect();
        names.join(", ")
    }
}
