//! Objects in a pickle.

use std::borrow::Cow;

use crate::{
    error::FormatError,
    ndarray::Array,
    pickle::{
        array::{self, array, objects},
        value::{Pickle, Value},
    },
    sklearn::objects::Objects,
};

/// The objects of a pickle.
pub(super) struct Pickled<'a>(pub(super) &'a Pickle<'a>);

impl Objects for Pickled<'_> {
    type Ref = Value;

    fn root(&self) -> Value {
        self.0.root()
    }

    fn bytes(&self) -> usize {
        self.0.file_bytes()
    }

    fn class(&self, of: Value) -> Option<(&str, &str)> {
        self.0.class(of)
    }

    fn attribute(&self, of: Value, name: &str) -> Option<Value> {
        self.0.attribute(of, name)
    }

    fn members(&self, of: Value) -> Option<Vec<Value>> {
        self.0.sequence(of).or_else(|| objects(self.0, of)).map(<[_]>::to_vec)
    }

    fn text(&self, of: Value) -> Option<String> {
        self.0.text(of).map(str::to_owned)
    }

    fn number(&self, of: Value) -> Option<f64> {
        array::number(self.0, of)
    }

    fn is_none(&self, of: Value) -> bool {
        of == Value::None
    }

    fn bytes_of(&self, of: Value) -> Option<Cow<'_, [u8]>> {
        let text = || self.0.text(of).map(|it| Cow::Borrowed(it.as_bytes()));
        self.0.bytes(of).or_else(text)
    }

    fn array(&self, of: Value) -> Result<Option<Array<'_>>, FormatError> {
        array(self.0, of)
    }
}
