//! Inputs without elements: what their other dimensions say costs nothing.

use backend::Shape;

use super::fixture::{Repository, floats, integers, numbers, run, strings, texts};

/// More than can be held of anything.
const HUGE: usize = 1_000_000_000_000_000;

/// A tensor without elements.
fn none(dims: &[usize]) -> Vec<f32> {
    assert_eq!(Shape::new(dims).elements(), Some(0));
    Vec::new()
}

#[test]
fn tokens_of_no_width_take_no_memory() {
    let repository = Repository::new(&[]);
    for (step, input) in [("pool", "last_hidden_state"), ("splade", "logits")] {
        let source = repository.source(&[("step", step)]);
        let made = |dims: &[usize]| run(&source, &[numbers(input, dims, none(dims))], &["result"]);
        // Whether it is an error is for the step to say.
        let _ = made(&[1, HUGE, 0]);
        assert_eq!(made(&[0, HUGE, 4]).unwrap()[0].shape().dims(), [0, 1], "{step}");
        let error = made(&[3, 0, 4]).unwrap_err();
        assert!(error.contains(&format!("'{input}': its 3 rows have no tokens")), "{error}");
    }
}

#[test]
fn texts_without_rows_have_no_tokens() {
    let repository = Repository::new(&[("two.txt", "O\nX\n")]);
    let ids = |name, dims: &[usize]| numbers(name, dims, Vec::<i64>::new());
    let no_texts = |name| texts(name, &[0, 1], &[]);
    let entities = [("step", "entities"), ("labels", "two.txt"), ("file", "ner/tokenizer.json")];
    let inputs = [
        numbers("logits", &[0, HUGE, 2], none(&[0, HUGE, 2])),
        ids("offsets", &[0, HUGE, 2]),
        ids("input_ids", &[0, HUGE]),
        ids("special_tokens_mask", &[0, HUGE]),
        no_texts("text"),
    ];
    let made = run(&repository.source(&entities), &inputs, &["result"]).unwrap();
    assert!(strings(&made[0]).is_empty());
    let mask = [("step", "mask"), ("file", "fill-mask/tokenizer.json")];
    let inputs =
        [numbers("logits", &[0, HUGE, 9], none(&[0, HUGE, 9])), ids("input_ids", &[0, HUGE])];
    assert!(strings(&run(&repository.source(&mask), &inputs, &["result"]).unwrap()[0]).is_empty());
    let inputs = [
        numbers("start_logits", &[0, HUGE], none(&[0, HUGE])),
        numbers("end_logits", &[0, HUGE], none(&[0, HUGE])),
        ids("offsets", &[0, HUGE, 2]),
        ids("word_ids", &[0, HUGE]),
        no_texts("text_pair"),
    ];
    let answer = repository.source(&[("step", "answer")]);
    assert!(strings(&run(&answer, &inputs, &["result"]).unwrap()[0]).is_empty());
}

#[test]
fn an_axis_without_values_is_gone_through_once() {
    let repository = Repository::new(&[]);
    let made = |parameters: &[(&str, &str)], output: &str, dims: &[usize]| {
        run(&repository.source(parameters), &[numbers("input", dims, none(dims))], &[output])
    };
    let axis = |step| [("step", step), ("axis", "-1")];
    for step in ["normalize", "softmax", "scale"] {
        assert_eq!(made(&axis(step), "output", &[HUGE, 0]).unwrap()[0].shape().dims(), [HUGE, 0]);
        assert_eq!(made(&axis(step), "output", &[0, 5]).unwrap_or_default().len(), 1, "{step}");
    }
    let error = made(&axis("argmax"), "output", &[HUGE, 0]).unwrap_err();
    assert!(error.contains("it has no values"), "{error}");
    assert_eq!(made(&axis("argmax"), "output", &[0, 5]).unwrap()[0].shape().dims(), [0, 1]);
    let top = [("step", "top_k"), ("k", "2")];
    assert!(made(&top, "output", &[HUGE, 0]).unwrap_err().contains("k is 2"));
    for output in ["output", "indices"] {
        assert_eq!(made(&top, output, &[0, 5]).unwrap()[0].shape().dims(), [0, 2]);
    }
    let mut source = repository.source(&[("step", "softmax"), ("axis", "0")]);
    let dims = vec![None; 3];
    let hint = backend::TensorHint { name: "input".into(), dtype: None, dims: Some(dims) };
    source.hints.inputs = vec![hint];
    let input = numbers("input", &[1, HUGE, 0], none(&[1, HUGE, 0]));
    assert_eq!(run(&source, &[input], &["output"]).unwrap()[0].shape().dims(), [1, HUGE, 0]);
}

#[test]
fn lines_along_any_axis_come_back_in_their_places() {
    let repository = Repository::new(&[]);
    let input = [numbers("input", &[2, 3, 2], (0..12).map(|it| (it % 7) as f32).collect())];
    let made = |step: &str, output: &str| {
        let mut source = repository.source(&[("step", step), ("axis", "0"), ("k", "2")][..]);
        if step != "top_k" {
            source.options.remove("k");
        }
        let dims = vec![None; 3];
        source.hints.inputs =
            vec![backend::TensorHint { name: "input".into(), dtype: None, dims: Some(dims) }];
        run(&source, &input, &[output]).unwrap().remove(0)
    };
    // Rows: [[0, 1], [2, 3], [4, 5]] and [[6, 0], [1, 2], [3, 4]].
    let values = made("top_k", "output");
    assert_eq!(values.shape().dims(), [2, 2, 2]);
    assert_eq!(floats(&values), [4.0, 5.0, 2.0, 3.0, 6.0, 4.0, 3.0, 2.0]);
    assert_eq!(integers(&made("top_k", "indices")), [2, 2, 1, 1, 0, 2, 2, 1]);
    let best = made("argmax", "output");
    assert_eq!((best.shape().dims(), integers(&best)), (&[2, 1, 2][..], &[2, 2, 0, 2][..]));
    let sums: Vec<f32> = {
        let all = made("softmax", "output");
        let all = floats(&all);
        [0, 1, 6, 7].map(|it| all[it] + all[it + 2] + all[it + 4]).to_vec()
    };
    assert!(sums.iter().all(|it| (it - 1.0).abs() < 1e-6), "{sums:?}");
}
