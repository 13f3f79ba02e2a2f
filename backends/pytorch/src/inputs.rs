//! Which argument of `forward` each configured input is. Pure.

use std::sync::Arc;

use backend::{DataType, TensorHint};

use crate::{
    error::ModuleError,
    interface::{Interface, Parameter, ParameterKind},
};

/// One input, as clients name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) name: Arc<str>,
    pub(crate) place: ArgumentPlace,
    /// What `forward` makes of it.
    pub(crate) kind: ParameterKind,
    /// Does `forward` have a default for it?
    pub(crate) optional: bool,
}

/// Where an input goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgumentPlace {
    /// The argument of that number.
    Argument(usize),
    /// The entry of the dictionary under the input's name.
    Entry,
}

/// The inputs in the order of `hints`, or of `forward` where those are empty.
///
/// # Errors
/// Text about numbers, names and types that do not fit.
pub(crate) fn assign(
    interface: &Interface,
    hints: &[TensorHint],
) -> Result<Vec<Input>, ModuleError> {
    if interface.takes_dict() {
        return entries(interface, hints);
    }
    let parameters = &interface.parameters;
    let unservable = parameters.iter().find(|it| {
        !it.has_default && matches!(it.kind, ParameterKind::Dict | ParameterKind::Other)
    });
    if let Some(it) = unservable {
        return Err(ModuleError::new(format_args!(
            "argument '{}' of forward is of type {}, for which no client can send a value; served are \
             Tensor, Optional[Tensor], List[str], int, float and bool, or a single Dict[str, Tensor]",
            it.name, it.type_name
        )));
    }
    let needed: Vec<usize> =
        parameters.iter().enumerate().filter(|(_, it)| !it.has_default).map(|(i, _)| i).collect();
    if hints.is_empty() {
        let named = needed.iter().map(|&it| input(&parameters[it].name, it, &parameters[it]));
        return match needed.is_empty() {
            true if parameters.is_empty() => Err(ModuleError::new("forward takes no inputs")),
            true => Err(ModuleError::new(format_args!(
                "every argument of forward has a default ({}); configure those that clients send",
                interface.parameter_names()
            ))),
            false => Ok(named.collect()),
        };
    }
    let places = places(parameters, hints)?;
    let inputs = hints
        .iter()
        .zip(&places)
        .filter_map(|(hint, &place)| parameters.get(place).map(|it| input(&hint.name, place, it)));
    let inputs: Vec<Input> = inputs.collect();
    let is_given = |place: &usize| places.contains(place);
    if inputs.len() < hints.len() || !needed.iter().all(is_given) {
        let names: Vec<&str> = hints.iter().map(|it| &*it.name).collect();
        let least = match needed.len() == parameters.len() {
            true => String::new(),
            false => format!(", {} of them without a default", needed.len()),
        };
        return Err(ModuleError::new(format_args!(
            "{} inputs are configured ({}), but forward takes {} ({}){least}",
            hints.len(),
            names.join(", "),
            parameters.len(),
            interface.parameter_names()
        )));
    }
    let other = places.iter().find_map(|&it| {
        let it = &parameters[it];
        matches!(it.kind, ParameterKind::Dict | ParameterKind::Other).then_some(it)
    });
    match other {
        None => Ok(inputs),
        Some(it) => Err(ModuleError::new(format_args!(
            "argument '{}' of forward is of type {}, for which no client can send a value; it has a \
             default: leave it out of the configuration",
            it.name, it.type_name
        ))),
    }
}

fn entries(interface: &Interface, hints: &[TensorHint]) -> Result<Vec<Input>, ModuleError> {
    if hints.is_empty() {
        return Err(ModuleError::new(format_args!(
            "argument '{}' of forward is a Dict[str, Tensor], whose keys stand nowhere in the model; \
             configure an input under the name of each key",
            interface.parameter_names()
        )));
    }
    if let Some(hint) = hints.iter().find(|it| it.dtype == Some(DataType::Bytes)) {
        return Err(ModuleError::new(format_args!(
            "input '{}' is configured as strings; it is an entry of argument '{}' of forward, a Dict[str, Tensor], and \
             takes a tensor of numbers",
            hint.name,
            interface.parameter_names()
        )));
    }
    let entry = |hint: &TensorHint| Input {
        name: hint.name.clone(),
        place: ArgumentPlace::Entry,
        kind: ParameterKind::Tensor,
        optional: false,
    };
    Ok(hints.iter().map(entry).collect())
}

fn input(name: &str, place: usize, parameter: &Parameter) -> Input {
    Input {
        name: name.into(),
        place: ArgumentPlace::Argument(place),
        kind: parameter.kind,
        optional: parameter.has_default,
    }
}

/// The argument of each: by name if all are names of arguments, else by `NAME__INDEX` if all end so, else by
/// order. A number may be too large.
///
/// # Errors
/// Where the order gives an input to another argument than the one of its name: some name is mistyped.
fn places(parameters: &[Parameter], hints: &[TensorHint]) -> Result<Vec<usize>, ModuleError> {
    let named = |name: &str| parameters.iter().position(|it| *it.name == *name);
    if let Some(places) = distinct(hints.iter().map(|it| named(&it.name))) {
        return Ok(places);
    }
    let by_index = hints.iter().map(|it| index_of(&it.name).filter(|&it| it < parameters.len()));
    if let Some(places) = distinct(by_index) {
        return Ok(places);
    }
    let elsewhere =
        |(place, hint): &(usize, &TensorHint)| named(&hint.name).is_some_and(|it| it != *place);
    let moved = hints.iter().enumerate().take(parameters.len()).find(elsewhere);
    let stranger = hints.iter().find(|it| named(&it.name).is_none());
    // With another number of inputs the order does not help: the error has both numbers.
    let (Some((place, moved)), Some(stranger), true) =
        (moved, stranger, hints.len() <= parameters.len())
    else {
        return Ok((0..hints.len()).collect());
    };
    let free = parameters.iter().filter(|it| !hints.iter().any(|hint| *hint.name == *it.name));
    let nearest = free.min_by_key(|it| distance(&it.name, &stranger.name));
    let meant = nearest.map_or(String::new(), |it| format!("; did you mean '{}'?", it.name));
    let given: Vec<&str> = hints.iter().map(|it| &*it.name).collect();
    let arguments: Vec<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
    Err(ModuleError::new(format_args!(
        "input '{}' is the name of no argument of forward ({}), and by the order of the configuration ({}) \
         input '{}' would be given to argument '{}'{meant}",
        stranger.name,
        arguments.join(", "),
        given.join(", "),
        moved.name,
        parameters[place].name
    )))
}

/// The number of characters to insert, take away or replace that makes one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, right) in b.chars().enumerate() {
            let cost = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// All of them, if each is there and no two are equal.
pub(crate) fn distinct(places: impl Iterator<Item = Option<usize>>) -> Option<Vec<usize>> {
    let places: Vec<usize> = places.collect::<Option<_>>()?;
    let unique = places.iter().enumerate().all(|(i, it)| !places[..i].contains(it));
    unique.then_some(places)
}

/// The number in `NAME__NUMBER`.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    let (_, number) = name.rsplit_once("__")?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(parameters: &[(&str, ParameterKind, bool)]) -> Interface {
        let parameter = |&(name, kind, has_default): &(&str, _, _)| Parameter {
            name: name.to_owned(),
            type_name: format!("{kind:?}"),
            kind,
            has_default,
        };
        Interface { parameters: parameters.iter().map(parameter).collect(), ..Interface::default() }
    }

    fn hints(names: &[&str]) -> Vec<TensorHint> {
        let hint = |&name: &&str| TensorHint { name: name.into(), dtype: None, dims: None };
        names.iter().map(hint).collect()
    }

    const TENSOR: ParameterKind = ParameterKind::Tensor;

    #[track_caller]
    fn goes(names: &[&str], expected: &[usize]) {
        let two = interface(&[("a", TENSOR, false), ("b", TENSOR, false)]);
        let inputs = assign(&two, &hints(names)).unwrap();
        let places: Vec<usize> = inputs
            .iter()
            .map(|it| match it.place {
                ArgumentPlace::Argument(place) => place,
                ArgumentPlace::Entry => panic!("no dictionary"),
            })
            .collect();
        assert_eq!(places, expected);
    }

    #[test]
    fn names_go_first_then_numbers_then_the_order() {
        goes(&["b", "a"], &[1, 0]);
        goes(&["INPUT__1", "INPUT__0"], &[1, 0]);
        goes(&["a", "INPUT__0"], &[0, 1]);
        goes(&["left", "right"], &[0, 1]);
        // The numbers say nothing where one is given twice or too large.
        goes(&["x__1", "y__1"], &[0, 1]);
        goes(&["x__1", "y__2"], &[0, 1]);
    }

    #[test]
    fn the_order_does_not_give_an_input_to_another_argument_than_that_of_its_name() {
        let two = interface(&[("a", TENSOR, false), ("b", TENSOR, false)]);
        assert_eq!(
            assign(&two, &hints(&["b", "aa"])).unwrap_err().to_string(),
            "input 'aa' is the name of no argument of forward (a, b), and by the order of the configuration \
             (b, aa) input 'b' would be given to argument 'a'; did you mean 'a'?"
        );
        assert!(assign(&two, &hints(&["b", "INPUT__0"])).is_err());
        let three = [("ids", TENSOR, false), ("mask", TENSOR, false), ("segments", TENSOR, false)];
        let text = assign(&interface(&three), &hints(&["mask", "ids", "segmnts"]))
            .unwrap_err()
            .to_string();
        assert!(text.contains("'segmnts'") && text.ends_with("did you mean 'segments'?"), "{text}");
    }

    #[test]
    fn without_a_configuration_the_inputs_are_the_arguments_without_a_default() {
        let some = interface(&[("a", TENSOR, false), ("mask", TENSOR, true)]);
        let names: Vec<_> =
            assign(&some, &[]).unwrap().into_iter().map(|it| (it.name, it.optional)).collect();
        assert_eq!(names, [("a".into(), false)]);
        let inputs = assign(&some, &hints(&["a", "mask"])).unwrap();
        assert!(inputs[1].optional && !inputs[0].optional);
    }

    #[test]
    fn another_number_of_inputs_is_refused_with_both_numbers_and_the_names() {
        let two = interface(&[("a", TENSOR, false), ("b", TENSOR, false), ("c", TENSOR, true)]);
        assert_eq!(
            assign(&two, &hints(&["a"])).unwrap_err().to_string(),
            "1 inputs are configured (a), but forward takes 3 (a, b, c), 2 of them without a default"
        );
        let text = assign(&two, &hints(&["p", "q", "r", "s"])).unwrap_err().to_string();
        assert!(text.contains("4 inputs are configured (p, q, r, s), but forward takes 3"));
    }

    #[test]
    fn the_entries_of_a_dictionary_have_the_configured_names() {
        let dict = interface(&[("batch", ParameterKind::Dict, false)]);
        let inputs = assign(&dict, &hints(&["left", "right"])).unwrap();
        assert!(inputs.iter().all(|it| it.place == ArgumentPlace::Entry));
        assert!(assign(&dict, &[]).unwrap_err().to_string().contains("keys stand nowhere"));
        let mut strings = hints(&["left", "right"]);
        strings[1].dtype = Some(DataType::Bytes);
        assert!(
            assign(&dict, &strings)
                .unwrap_err()
                .to_string()
                .contains("input 'right' is configured as strings")
        );
    }

    #[test]
    fn numbers_are_inputs_and_may_have_a_default() {
        let numbers = [
            ("x", TENSOR, false),
            ("count", ParameterKind::Int, false),
            ("flag", ParameterKind::Bool, true),
        ];
        let kinds = |names: &[&str]| -> Vec<(ParameterKind, bool)> {
            let inputs = assign(&interface(&numbers), &hints(names)).unwrap();
            inputs.iter().map(|it| (it.kind, it.optional)).collect()
        };
        assert_eq!(kinds(&[]), [(TENSOR, false), (ParameterKind::Int, false)]);
        assert_eq!(kinds(&["x", "count", "flag"])[2], (ParameterKind::Bool, true));
    }

    #[test]
    fn what_no_client_can_send_must_have_a_default_and_is_left_out() {
        let number = interface(&[("a", TENSOR, false), ("k", ParameterKind::Other, false)]);
        assert!(
            assign(&number, &[])
                .unwrap_err()
                .to_string()
                .contains("argument 'k' of forward is of type Other")
        );
        let with_default = interface(&[("a", TENSOR, false), ("k", ParameterKind::Other, true)]);
        assert_eq!(assign(&with_default, &hints(&["a"])).unwrap().len(), 1);
        assert!(
            assign(&with_default, &hints(&["a", "k"]))
                .unwrap_err()
                .to_string()
                .contains("leave it out")
        );
    }
}
