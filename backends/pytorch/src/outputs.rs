//! Which of the values that `forward` returns each configured output is. Pure.

use std::sync::Arc;

use backend::{DataType, TensorHint};

use crate::{
    error::ModuleError,
    inputs::{distinct, index_of},
    interface::Returns,
};

/// One output, as clients name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) name: Arc<str>,
    pub(crate) source: Source,
}

/// Where an output comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The value of that number, nested ones counted one by one.
    Value(usize),
    /// The value under that key.
    Entry(Box<str>),
}

/// A value that a trial gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// Its key in the returned dictionary.
    pub(crate) key: Option<Box<str>>,
    /// Its type; or what it is, where that cannot be served.
    pub(crate) dtype: Result<DataType, Box<str>>,
    pub(crate) dims: Vec<usize>,
}

/// The outputs in the order of `hints`; where those are empty all that there are. `facts` are the values of
/// a run, if there was one.
///
/// # Errors
/// Text about numbers and keys that do not fit.
pub(crate) fn assign(
    returns: &Returns,
    hints: &[TensorHint],
    facts: Option<&[Fact]>,
) -> Result<Vec<Output>, ModuleError> {
    if hints.is_empty() {
        return all(returns, facts);
    }
    let outputs = hints.iter().map(|it| it.name.clone());
    if returns.dict {
        let entry = |name: Arc<str>| Output { source: Source::Entry((*name).into()), name };
        let outputs: Vec<Output> = outputs.map(entry).collect();
        return match facts {
            Some(facts) => known(outputs, facts),
            None => Ok(outputs),
        };
    }
    let field = |it: &TensorHint| returns.fields.iter().position(|field| **field == *it.name);
    let places = distinct(hints.iter().map(field))
        .or_else(|| distinct(hints.iter().map(|it| index_of(&it.name))))
        .unwrap_or_else(|| (0..hints.len()).collect());
    let count = facts.map(<[Fact]>::len).or(returns.count);
    // Numbers that no value has are no numbers: then the order counts.
    let in_range = count.is_none_or(|count| places.iter().all(|&it| it < count));
    let places = if in_range { places } else { (0..hints.len()).collect() };
    match count {
        Some(count) if hints.len() > count => {
            let names: Vec<&str> = hints.iter().map(|it| &*it.name).collect();
            Err(ModuleError::new(format_args!(
                "{} outputs are configured ({}), but forward returns {count} (its type is {})",
                hints.len(),
                names.join(", "),
                returns.type_name
            )))
        }
        _ => {
            let value = |(name, place)| Output { name, source: Source::Value(place) };
            Ok(outputs.zip(places).map(value).collect())
        }
    }
}

/// All of them, under the names of their keys or fields, else `OUTPUT__0` and so on.
fn all(returns: &Returns, facts: Option<&[Fact]>) -> Result<Vec<Output>, ModuleError> {
    let Some(facts) = facts else {
        return Err(ModuleError::new("what forward returns is not known; configure its outputs"));
    };
    let named = !returns.fields.is_empty() && returns.fields.len() == facts.len();
    let output = |(place, fact): (usize, &Fact)| match &fact.key {
        Some(key) => Output { name: (**key).into(), source: Source::Entry(key.clone()) },
        None if named => {
            Output { name: returns.fields[place].as_str().into(), source: Source::Value(place) }
        }
        None => Output { name: format!("OUTPUT__{place}").into(), source: Source::Value(place) },
    };
    match facts.is_empty() {
        true => Err(ModuleError::new("forward returns nothing")),
        false => Ok(facts.iter().enumerate().map(output).collect()),
    }
}

/// The outputs, if there is a value under each one's key.
fn known(outputs: Vec<Output>, facts: &[Fact]) -> Result<Vec<Output>, ModuleError> {
    let missing = outputs.iter().find(|it| !facts.iter().any(|fact| it.is(fact)));
    match missing {
        None => Ok(outputs),
        Some(it) => Err(ModuleError::new(format_args!(
            "output '{}' is no key of what forward returns: {}",
            it.name,
            keys(facts)
        ))),
    }
}

fn keys(facts: &[Fact]) -> String {
    let keys = facts.iter().filter_map(|it| it.key.as_ref()).map(|it| format!("'{it}'"));
    keys.collect::<Vec<_>>().join(", ")
}

impl Output {
    fn is(&self, fact: &Fact) -> bool {
        matches!((&self.source, &fact.key), (Source::Entry(name), Some(key)) if name == key)
    }

    /// Where its value is among those of a run.
    pub(crate) fn find(&self, facts: &[Fact]) -> Option<usize> {
        match &self.source {
            Source::Value(place) => Some(*place).filter(|&it| it < facts.len()),
            Source::Entry(_) => facts.iter().position(|it| self.is(it)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(names: &[&str]) -> Vec<TensorHint> {
        let hint = |&name: &&str| TensorHint { name: name.into(), dtype: None, dims: None };
        names.iter().map(hint).collect()
    }

    fn facts(keys: &[Option<&str>]) -> Vec<Fact> {
        let fact = |key: &Option<&str>| Fact {
            key: key.map(Into::into),
            dtype: Ok(DataType::Fp32),
            dims: vec![2],
        };
        keys.iter().map(fact).collect()
    }

    fn places(returns: &Returns, names: &[&str], count: usize) -> Result<Vec<usize>, ModuleError> {
        let outputs = assign(returns, &hints(names), Some(&facts(&vec![None; count])))?;
        let place = |it: &Output| match &it.source {
            Source::Value(place) => *place,
            Source::Entry(key) => panic!("an entry: {key}"),
        };
        Ok(outputs.iter().map(place).collect())
    }

    #[test]
    fn numbers_in_the_names_count_and_else_the_order() {
        let tuple = Returns::default();
        assert_eq!(places(&tuple, &["y__1", "y__0"], 2).unwrap(), [1, 0]);
        assert_eq!(places(&tuple, &["z", "y__0"], 2).unwrap(), [0, 1]);
        assert_eq!(places(&tuple, &["y__1"], 1).unwrap(), [0]);
        assert_eq!(places(&tuple, &["y__1"], 3).unwrap(), [1]);
    }

    #[test]
    fn the_fields_of_a_named_tuple_are_names() {
        let named = Returns { fields: vec!["low".into(), "high".into()], ..Returns::default() };
        assert_eq!(places(&named, &["high", "low"], 2).unwrap(), [1, 0]);
        assert_eq!(places(&named, &["p", "q"], 2).unwrap(), [0, 1]);
        let outputs = assign(&named, &[], Some(&facts(&[None, None]))).unwrap();
        assert_eq!([&*outputs[0].name, &*outputs[1].name], ["low", "high"]);
    }

    #[test]
    fn fewer_values_than_outputs_are_refused_with_both_numbers() {
        let returns = Returns { type_name: "Tensor".to_owned(), ..Returns::default() };
        assert_eq!(
            places(&returns, &["y", "z"], 1).unwrap_err().to_string(),
            "2 outputs are configured (y, z), but forward returns 1 (its type is Tensor)"
        );
    }

    #[test]
    fn entries_are_found_by_their_keys_and_an_unknown_one_names_those_there_are() {
        let dict = Returns { dict: true, ..Returns::default() };
        let facts = facts(&[Some("a"), Some("b")]);
        let outputs = assign(&dict, &hints(&["b"]), Some(&facts)).unwrap();
        assert_eq!(outputs[0].find(&facts), Some(1));
        assert_eq!(
            assign(&dict, &hints(&["c"]), Some(&facts)).unwrap_err().to_string(),
            "output 'c' is no key of what forward returns: 'a', 'b'"
        );
        assert_eq!(assign(&dict, &[], Some(&facts)).unwrap().len(), 2);
    }

    #[test]
    fn without_a_configuration_values_are_numbered() {
        let outputs = assign(&Returns::default(), &[], Some(&facts(&[None, None]))).unwrap();
        assert_eq!([&*outputs[0].name, &*outputs[1].name], ["OUTPUT__0", "OUTPUT__1"]);
    }
}
