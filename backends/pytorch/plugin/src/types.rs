//! Types of TorchScript: what an argument can be, and how many values a result has.

use std::ffi::CStr;

use pytorch_abi::kind;

use crate::{
    lacking::{self, CType},
    problem::TorchProblem,
};

/// A type, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Type {
    /// libtorch's name of its kind, for example `ListType`.
    kind: String,
    /// What it is made of: a list's elements, a dictionary's keys and values.
    parts: Vec<Type>,
    /// As TorchScript writes it.
    pub(crate) text: String,
    /// The names of a NamedTuple's fields.
    fields: Vec<String>,
}

impl Type {
    /// The type there and all that it is made of.
    ///
    /// # Safety
    /// It is there now.
    pub(crate) unsafe fn new(it: *const CType) -> Result<Type, TorchProblem> {
        // SAFETY: the caller says that the type is there; names of kinds are constants.
        let (kind, (text, fields)) =
            unsafe { (CStr::from_ptr(lacking::muster_type_kind(it)), lacking::type_texts(it)?) };
        let kind = kind.to_string_lossy().into_owned();
        // A class is made of its attributes, among which it may be itself.
        let is_open =
            ["TupleType", "ListType", "DictType", "OptionalType"].contains(&kind.as_str());
        // SAFETY: the type is there.
        let part = |index| unsafe { lacking::muster_type_part(it, index) };
        let parts = (0..).map(part).take_while(|it| is_open && !it.is_null());
        // SAFETY: its parts are there as long as it is.
        let parts = parts.map(|it| unsafe { Type::new(it) }).collect::<Result<_, _>>()?;
        Ok(Type { kind, parts, text, fields })
    }

    /// What an argument of this type can be; one of [`kind`].
    pub(crate) fn argument_kind(&self) -> u32 {
        let parts: Vec<&str> = self.parts.iter().map(|it| it.kind.as_str()).collect();
        match (self.kind.as_str(), &parts[..]) {
            ("TensorType", _) => kind::TENSOR,
            ("OptionalType", ["TensorType"]) => kind::OPTIONAL_TENSOR,
            ("IntType", _) => kind::INT,
            ("FloatType", _) => kind::FLOAT,
            ("BoolType", _) => kind::BOOL,
            ("ListType", ["StringType"]) => kind::STRINGS,
            ("DictType", ["StringType", "TensorType"]) => kind::DICT,
            _ => kind::OTHER,
        }
    }

    /// Number of values in a result of this type, nested ones counted one by one; `None` where it does not tell.
    pub(crate) fn count(&self) -> Option<usize> {
        match self.kind.as_str() {
            "TupleType" => self.parts.iter().map(Type::count).sum(),
            "ListType" if self.argument_kind() == kind::STRINGS => Some(1),
            "ListType" | "DictType" | "AnyType" | "UnionType" => None,
            _ => Some(1),
        }
    }

    /// The names of a NamedTuple's fields, where each is one value.
    pub(crate) fn fields(self) -> Vec<String> {
        match self.count() == Some(self.fields.len()) {
            true => self.fields,
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, parts: &[Type]) -> Type {
        Type { kind: kind.into(), parts: parts.to_vec(), text: String::new(), fields: Vec::new() }
    }

    fn names(kind: &str) -> Type {
        of(kind, &[])
    }

    #[test]
    fn values_of_nested_tuples_are_counted_one_by_one_and_those_of_lists_are_not_known() {
        let tensor = || names("TensorType");
        let strings = of("ListType", &[names("StringType")]);
        let inner = of("TupleType", &[tensor(), names("IntType")]);
        assert_eq!(of("TupleType", &[tensor(), inner, strings]).count(), Some(4));
        let list = of("ListType", &[tensor()]);
        assert_eq!(of("TupleType", &[tensor(), list]).count(), None);
        assert_eq!(names("NoneType").count(), Some(1));
    }

    #[test]
    fn fields_that_are_several_values_have_no_names() {
        let tensor = || names("TensorType");
        let pair = of("TupleType", &[tensor(), tensor()]);
        let fields = || vec!["a".to_owned(), "b".to_owned()];
        let flat = Type { fields: fields(), ..pair.clone() };
        assert_eq!(flat.fields(), fields());
        let nested = Type { fields: fields(), ..of("TupleType", &[tensor(), pair]) };
        assert!(nested.fields().is_empty());
    }

    #[test]
    fn a_dictionary_of_tensors_by_strings_is_an_argument_and_no_other_is() {
        let dict = |key, value| of("DictType", &[names(key), names(value)]).argument_kind();
        assert_eq!(dict("StringType", "TensorType"), kind::DICT);
        assert_eq!(dict("IntType", "TensorType"), kind::OTHER);
        assert_eq!(of("OptionalType", &[names("IntType")]).argument_kind(), kind::OTHER);
    }
}
