//! Which outputs a reply has: those that `Accept` names by the parameter `output`, else all of them; but as CSV or as a
//! NumPy array a classifier answers what `predict` of the library that trained it gives, the label.

use std::sync::Arc;

use backend::DataType;

use super::invocation::{Invocation, Options, ReplyFormat};
use formats::negotiate::{self, Media};
use inference::signature::{Port, Signature};

/// The outputs that the client names, in its order; empty where it names none.
pub(super) fn named(invocation: &Invocation, options: &Options) -> Vec<Arc<str>> {
    let (accept, default) = (invocation.accept.as_deref(), options.default_accept.as_deref());
    negotiate::outputs(accept, default).into_iter().map(Arc::from).collect()
}

/// Can the reply be one NumPy array? It holds one output, of numbers.
pub(super) fn fit_npy(signature: &Signature, named: &[Arc<str>]) -> bool {
    let only = match (named, signature.outputs.as_slice()) {
        ([only], _) => signature.output(only),
        ([], [only]) => Some(only),
        ([], _) => predicted(signature),
        _ => None,
    };
    only.is_some_and(|it| it.dtype != DataType::Bytes)
}

/// The outputs of a reply in that format; empty for all of them.
pub(super) fn of_reply(
    signature: &Signature,
    named: Vec<Arc<str>>,
    format: &ReplyFormat,
) -> Vec<Arc<str>> {
    match format {
        ReplyFormat::Csv | ReplyFormat::Npy | ReplyFormat::Objects(Media::Csv)
            if named.is_empty() =>
        {
            predicted(signature).map(|it| it.name.clone()).into_iter().collect()
        }
        _ => named,
    }
}

/// The label of a classifier that gives a label and a probability for each class.
fn predicted(signature: &Signature) -> Option<&Port> {
    let [first, second] = signature.outputs.as_slice() else { return None };
    let (label, scores) = if is_float(first.dtype) { (second, first) } else { (first, second) };
    let one = |it: &Option<usize>| it.is_none_or(|size| size == 1);
    let is_label = match signature.batches() {
        true => label.dims.iter().all(|&it| it == Some(1)),
        // The first dimension counts rows.
        false => label.dims.len() <= 2 && label.dims.iter().all(one),
    };
    let has_classes = matches!(scores.dims.last(), Some(Some(2..)));
    let is_said = !scores.labels.is_empty() || label.name.ends_with("label");
    let fits = !is_float(label.dtype) && is_float(scores.dtype) && is_label && has_classes;
    (fits && is_said).then_some(label)
}

fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, dtype: DataType, dims: &[Option<usize>]) -> Port {
        Port {
            name: name.into(),
            dtype,
            dims: dims.to_vec(),
            any_rank: false,
            scalar: false,
            optional: false,
            labels: Arc::default(),
            text_codes: Default::default(),
        }
    }

    #[track_caller]
    fn check(max_batch_size: usize, outputs: [Port; 2], expected: Option<&str>) {
        let signature = Signature {
            named: None,
            graph_checks_shapes: false,
            takes_missing: false,
            model: "m".into(),
            version: 1,
            max_batch_size,
            most_rows: None,
            inputs: Vec::new(),
            outputs: outputs.into(),
            on_request: Vec::new(),
            pipeline: None,
        };
        assert_eq!(predicted(&signature).map(|it| &*it.name), expected);
    }

    #[test]
    fn a_label_beside_probabilities_is_what_a_library_predicts() {
        let label = || port("label", DataType::Int64, &[Some(1)]);
        let scores = || port("probabilities", DataType::Fp32, &[Some(3)]);
        check(8, [label(), scores()], Some("label"));
        check(8, [scores(), port("output_label", DataType::Bytes, &[])], Some("output_label"));
        let rows = port("label", DataType::Int64, &[None]);
        check(0, [rows, port("p", DataType::Fp32, &[None, Some(2)])], Some("label"));
        check(8, [label(), label()], None);
        check(8, [scores(), scores()], None);
        check(8, [label(), port("score", DataType::Fp32, &[Some(1)])], None);
        check(8, [port("label", DataType::Int64, &[Some(3)]), scores()], None);
    }

    #[test]
    fn another_number_beside_floats_is_a_label_only_where_there_are_names_of_classes() {
        let count = || port("count", DataType::Int64, &[Some(1)]);
        let scores = || port("values", DataType::Fp32, &[Some(3)]);
        check(8, [count(), scores()], None);
        let labels = ["a", "b", "c"].map(str::to_owned).into();
        check(8, [count(), Port { labels, ..scores() }], Some("count"));
    }
}
