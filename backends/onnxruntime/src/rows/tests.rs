//! Small graphs, and what is said of their rows.

use super::{
    shared_by,
    structure::{Constant, Node, Structure},
};

/// A node: its operator, inputs, and attributes of numbers.
type Made<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, i64)]);

/// A graph of these nodes, the last of which makes its output. `x` is sent, of
/// three dimensions. A name that begins with `=` is a constant of these numbers.
fn graph(nodes: &[Made<'_>]) -> Structure {
    let mut structure = Structure { opset: 17, ..Structure::default() };
    structure.inputs.push(("x".to_owned(), Some(3)));
    for (at, (operator, inputs, attributes)) in nodes.iter().enumerate() {
        for name in inputs.iter().filter(|it| it.starts_with('=')) {
            let numbers: Vec<i64> = name[1..].split(',').map(|it| it.parse().unwrap()).collect();
            let dims = if name.contains(',') { vec![numbers.len() as i64] } else { vec![1] };
            let constant = Constant { dims, integers: Some(numbers) };
            structure.constants.insert((*name).to_owned(), constant);
        }
        let inputs = inputs.iter().map(|it| (*it).to_owned()).collect();
        structure.nodes.push(Node::new(operator, inputs, vec![format!("{at}")], attributes));
    }
    structure.outputs.push(format!("{}", nodes.len() - 1));
    structure
}

fn by(nodes: &[Made<'_>]) -> Option<String> {
    shared_by(&graph(nodes)).map(str::to_owned)
}

#[test]
fn a_row_at_a_constant_place_is_told_apart_however_rare_its_difference_is() {
    // Above fifty, which no trial sends, the first row is changed.
    let rare = |changed: (&'static str, &'static [&'static str])| {
        by(&[
            (changed.0, changed.1, &[]),
            ("Greater", &["x", "=50"], &[]),
            ("Where", &["1", "0", "x"], &[]),
        ])
    };
    for changed in [
        ("ScatterND", ["x", "=0", "x"].as_slice()),
        ("ScatterElements", &["x", "=0", "=7"]),
        ("Gather", &["x", "=0"]),
        ("GatherND", &["x", "=0"]),
        ("Slice", &["x", "=0", "=1", "=0"]),
    ] {
        assert_eq!(rare(changed).as_deref(), Some(changed.0));
    }
    assert_eq!(rare(("Gather", &["x", "indices"])), None);
}

#[test]
fn what_sums_sorts_or_normalises_along_the_rows_shares_them_and_along_other_axes_it_does_not() {
    for operator in ["ReduceMax", "ReduceSum", "ReduceMean"] {
        assert_eq!(by(&[(operator, &["x", "=0"], &[])]).as_deref(), Some(operator));
        assert_eq!(by(&[(operator, &["x", "=-3"], &[])]).as_deref(), Some(operator));
        assert_eq!(by(&[(operator, &["x"], &[])]).as_deref(), Some(operator));
        assert_eq!(by(&[(operator, &["x", "=1,2"], &[])]), None);
    }
    for operator in ["Softmax", "TopK", "LpNormalization", "ArgMax"] {
        assert_eq!(by(&[(operator, &["x"], &[("axis", 0)])]).as_deref(), Some(operator));
        assert_eq!(by(&[(operator, &["x"], &[("axis", 2)])]), None);
    }
    assert_eq!(
        by(&[("LayerNormalization", &["x"], &[("axis", 0)])]).as_deref(),
        Some("LayerNormalization")
    );
    assert_eq!(by(&[("LayerNormalization", &["x"], &[])]), None);
    assert_eq!(by(&[("CumSum", &["x", "=0"], &[])]).as_deref(), Some("CumSum"));
    assert_eq!(by(&[("CumSum", &["x", "=1"], &[])]), None);
    let trained = [("training_mode", 1)];
    assert_eq!(
        by(&[("BatchNormalization", &["x"], &trained)]).as_deref(),
        Some("BatchNormalization")
    );
    assert_eq!(by(&[("BatchNormalization", &["x"], &[])]), None);
    // Before version 13 all axes from one on are one.
    let mut old = graph(&[("Transpose", &["x"], &[]), ("Softmax", &["0"], &[("axis", 1)])]);
    assert_eq!(shared_by(&old), None);
    old.opset = 12;
    assert_eq!(shared_by(&old), Some("Softmax"));
}

#[test]
fn rows_are_followed_to_another_axis_and_back() {
    let turned = [("Transpose", ["x"].as_slice(), [].as_slice())];
    let with = |node| [turned.as_slice(), &[node]].concat();
    assert_eq!(by(&with(("Softmax", &["0"], &[]))).as_deref(), Some("Softmax"));
    assert_eq!(by(&with(("Softmax", &["0"], &[("axis", 0)]))), None);
    assert_eq!(by(&with(("MatMul", &["0", "=1,2"], &[]))).as_deref(), Some("MatMul"));
    assert_eq!(by(&[("MatMul", &["x", "x"], &[])]), None);
    assert_eq!(by(&[("LSTM", &["x"], &[])]).as_deref(), Some("LSTM"));
    assert_eq!(by(&[("LSTM", &["x"], &[("layout", 1)])]), None);
    // Rows in one axis with others, and apart again.
    let shape: &[Made<'_>] = &[
        ("Shape", &["x"], &[]),
        ("Gather", &["0", "=0"], &[]),
        ("Concat", &["1", "=-1"], &[("axis", 0)]),
        ("Reshape", &["x", "=-1,4"], &[]),
        ("Reshape", &["3", "2"], &[]),
    ];
    let then = |node| [shape, &[node]].concat();
    assert_eq!(by(&then(("Softmax", &["4"], &[("axis", 0)]))).as_deref(), Some("Softmax"));
    assert_eq!(by(&then(("Softmax", &["4"], &[("axis", 1)]))), None);
    assert_eq!(by(&then(("ReduceMax", &["3"], &[]))).as_deref(), Some("ReduceMax"));
}

#[test]
fn what_is_as_long_as_the_longest_row_is_not_made_of_all_rows() {
    let longest = ("ReduceMax", ["x"].as_slice(), [("keepdims", 0)].as_slice());
    let masked: &[Made<'_>] =
        &[longest, ("Range", &["=0", "0", "=1"], &[]), ("Less", &["1", "x"], &[])];
    assert_eq!(by(masked), None);
    assert_eq!(by(&[longest, ("Div", &["x", "0"], &[])]).as_deref(), Some("ReduceMax"));
    assert_eq!(by(&[longest, ("Shape", &["0"], &[])]), None);
    assert_eq!(
        by(&[longest, ("Greater", &["0", "=5"], &[]), ("If", &["1"], &[])]).as_deref(),
        Some("ReduceMax")
    );
    // Nobody asks for it.
    assert_eq!(by(&[longest, ("Neg", &["x"], &[])]), None);
}

#[test]
fn nothing_is_said_of_what_an_unknown_operator_makes() {
    assert_eq!(by(&[("", &["x"], &[]), ("ReduceMax", &["0"], &[])]), None);
    assert_eq!(by(&[("Compress", &["x"], &[]), ("ReduceMax", &["0"], &[])]), None);
    assert_eq!(by(&[("ReduceMax", &["missing"], &[])]), None);
}

#[test]
fn what_is_said_of_a_place_among_the_rows_is_no_part_of_an_answer() {
    let first: &[Made<'_>] = &[
        ("Shape", &["x"], &[]),
        ("Gather", &["0", "=0"], &[]),
        ("Squeeze", &["1", "=0"], &[]),
        ("Range", &["=0", "2", "=1"], &[]),
        ("Unsqueeze", &["3", "=1,2"], &[]),
    ];
    let with = |nodes| [first, nodes].concat();
    let is_first: &[Made<'_>] = &[("Equal", &["4", "=0"], &[]), ("Where", &["5", "=7", "x"], &[])];
    assert_eq!(by(&with(is_first)).as_deref(), Some("Where"));
    // An index into the rows of a run, one behind the other.
    let index: &[Made<'_>] = &[
        ("Mul", &["4", "=9"], &[]),
        ("ArgMax", &["x"], &[("axis", 2)]),
        ("Add", &["5", "6"], &[]),
        ("Reshape", &["x", "=-1,4"], &[]),
        ("Gather", &["8", "7"], &[]),
    ];
    assert_eq!(by(&with(index)), None);
    assert_eq!(by(&with(&[("Neg", &["x"], &[])])), None);
}
