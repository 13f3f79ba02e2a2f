//! Steps of texts and the arithmetic ones: each on small tensors, and what is wrong with one that does not load.

use backend::{Backend, DataType, Hints, NamedTensor, TensorHint};
use backend_steps::Steps;

use crate::fixture::{Repository, floats, integers, numbers, refused, run, spec, strings, texts};

#[test]
fn what_is_wrong_has_its_line_its_key_and_the_nearest_name() {
    let tokenize = ("step", "tokenize");
    refused(
        &[("step", "tokenise")],
        "config.pbtxt:2: parameter 'step': there is no step 'tokenise'; the nearest is 'tokenize'",
    );
    refused(
        &[tokenize, ("file", "sst2/tokenizer.json"), ("max_lenght", "3")],
        "config.pbtxt:4: parameter 'max_lenght': the step 'tokenize' has no such parameter; the nearest is 'max_length'",
    );
    refused(
        &[tokenize, ("file", "sst2/tokenizer.json"), ("truncation", "only_frist")],
        "parameter 'truncation': 'only_frist' is none of longest_first, only_first, only_second, none; did you mean \
         'only_first'?",
    );
    for name in ["max_length", "pad_to_multiple_of"] {
        // Rows of such a length would take all memory there is.
        let expected = format!("parameter '{name}': 1000000000 is more than a row may have");
        refused(&[tokenize, ("file", "sst2/tokenizer.json"), (name, "1000000000")], &expected);
    }
    refused(&[tokenize], "parameter 'file' is missing");
    refused(
        &[tokenize, ("file", "sst2/config.json")],
        "parameter 'file': config.json: it is no tokenizer",
    );
    refused(&[tokenize, ("file", "none/tokenizer.json")], "parameter 'file': there is no ");
    for outside in ["../sst2/tokenizer.json", "/etc/passwd", "sst2/../../x", ""] {
        refused(&[tokenize, ("file", outside)], "is no file in the model's directory");
    }
    refused(
        &[tokenize, ("file", "sst2/tokenizer.json"), ("stride", "2")],
        "windows are several rows of one text; write max_batch_size: 0",
    );
    refused(&[("step", "classify"), ("labels", "two.txt"), ("top_k", "0")], "parameter 'top_k'");
    refused(&[("step", "top_k"), ("axis", "3")], "a row has 1 dimensions");
}

#[test]
fn a_link_out_of_the_repository_is_not_followed() {
    let (repository, other) = (Repository::new(&[]), Repository::new(&[("two.txt", "A\nB\n")]));
    let secret = other.0.join("m/two.txt");
    let (own, linked) = (repository.0.join("m/two.txt"), repository.0.join("linked"));
    std::os::unix::fs::symlink(&secret, own).unwrap();
    let loaded = |labels: &str| {
        let source = repository.source(&[("step", "classify"), ("labels", labels)]);
        Steps::default().load(&source).map(|_| ()).map_err(|it| it.to_string())
    };
    let error = loaded("two.txt").unwrap_err();
    assert!(error.contains("parameter 'labels': two.txt: its link leads to "), "{error}");
    std::os::unix::fs::symlink(other.0.join("m"), repository.0.join("m/sub")).unwrap();
    assert!(loaded("sub/two.txt").unwrap_err().contains("its link leads to "));
    // The directory of another model may lie elsewhere.
    std::os::unix::fs::symlink(other.0.join("m"), linked).unwrap();
    assert_eq!(loaded("linked/two.txt"), Ok(()));
}

#[test]
fn labels_are_as_many_as_the_classes() {
    let repository = Repository::new(&[("three.txt", "A\nB\nC\n"), ("gap.txt", "A\n\nB\n")]);
    let hint = TensorHint {
        name: "logits".into(),
        dtype: Some(DataType::Fp32),
        dims: Some(vec![None, Some(2)]),
    };
    let mut source = repository.source(&[("step", "classify"), ("labels", "three.txt")]);
    assert_eq!(spec(&source).inputs[0].dims, [None, Some(3)]);
    source.hints = Hints { inputs: vec![hint], ..Hints::default() };
    let error = Steps::default().load(&source).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("three.txt has 3 labels, and the input 'logits' 2 classes"), "{error}");
    let source = repository.source(&[("step", "classify"), ("labels", "gap.txt")]);
    let error = Steps::default().load(&source).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("gap.txt: line 2 is empty"), "{error}");
}

#[test]
fn texts_of_a_batch_are_padded_to_the_longest() {
    let repository = Repository::new(&[]);
    let parameters = [("step", "tokenize"), ("file", "sst2/tokenizer.json")];
    let source = repository.source(&parameters);
    let text = texts("text", &[2, 1], &["a film", "a film was good"]);
    let wanted = ["input_ids", "attention_mask", "special_tokens_mask", "word_ids", "offsets"];
    let made = run(&source, std::slice::from_ref(&text), &wanted).unwrap();
    let length = made[0].shape().dims()[1];
    assert_eq!(made[0].shape().dims(), [2, length]);
    assert_eq!(made[4].shape().dims(), [2, length, 2]);
    let kept = integers(&made[1])[..length].iter().filter(|it| **it == 1).count();
    assert!(kept < length, "the first text is not shorter");
    let pad = integers(&made[0])[length - 1];
    assert_eq!((pad, integers(&made[1])[length - 1]), (0, 0));
    assert_eq!((integers(&made[2])[length - 1], integers(&made[3])[length - 1]), (1, -1));
    // Alone it is what it is among others.
    let alone = run(&source, &[texts("text", &[1, 1], &["a film"])], &["input_ids"]).unwrap();
    assert_eq!(integers(&alone[0]), &integers(&made[0])[..kept]);
    // And other ways to pad.
    let with = |more: &[(&str, &str)]| repository.source(&[&parameters[..], more].concat());
    let error = run(&with(&[("padding", "none")]), std::slice::from_ref(&text), &["input_ids"]);
    assert!(error.unwrap_err().contains("and are not padded"));
    let long =
        run(&with(&[("padding", "max_length"), ("max_length", "12")]), &[text], &["input_ids"]);
    assert_eq!(long.unwrap()[0].shape().dims(), [2, 12]);
}

#[test]
fn a_text_that_is_too_long_is_cut_or_refused() {
    let repository = Repository::new(&[]);
    let source = |truncation| {
        repository.source(&[
            ("step", "tokenize"),
            ("file", "sst2/tokenizer.json"),
            ("max_length", "4"),
            ("truncation", truncation),
        ])
    };
    let text = [texts("text", &[1, 1], &["a film was good and bad"])];
    let cut = run(&source("longest_first"), &text, &["input_ids"]).unwrap();
    assert_eq!(cut[0].shape().dims(), [1, 4]);
    let error = run(&source("none"), &text, &["input_ids"]).unwrap_err();
    assert!(error.contains("the model takes 4"), "{error}");
}

#[test]
fn without_a_batch_a_text_makes_windows_or_pairs() {
    let repository = Repository::new(&[]);
    let mut source = repository.source(&[
        ("step", "tokenize"),
        ("file", "sst2/tokenizer.json"),
        ("max_length", "6"),
        ("stride", "1"),
    ]);
    source.hints.is_unbatched = true;
    let text = [texts("text", &[1], &["a film was good and a film was bad"])];
    let windows = run(&source, &text, &["input_ids"]).unwrap();
    assert!(windows[0].shape().dims()[0] > 1);
    source.options.remove("stride");
    source.options.insert("template".to_owned(), "about {}".to_owned());
    let pair = [text[0].clone(), texts("text_pair", &[3], &["a", "b", "c"])];
    let pairs = run(&source, &pair, &["input_ids"]).unwrap();
    assert_eq!(pairs[0].shape().dims(), [3, 6]);
}

#[test]
fn ids_become_text_again() {
    let repository = Repository::new(&[]);
    let file = ("file", "sst2/tokenizer.json");
    let tokens = repository.source(&[("step", "tokenize"), file]);
    let ids =
        run(&tokens, &[texts("text", &[1, 1], &["a film was good"])], &["input_ids"]).unwrap();
    let given = [NamedTensor { name: "input_ids".into(), tensor: ids[0].clone() }];
    let back = repository.source(&[("step", "detokenize"), file]);
    assert_eq!(strings(&run(&back, &given, &["text"]).unwrap()[0]), ["a film was good"]);
}

#[test]
fn vectors_of_tokens_are_pooled_without_padding() {
    let repository = Repository::new(&[]);
    let source = repository.source(&[("step", "pool"), ("mode", "mean"), ("normalize", "true")]);
    let states = numbers("last_hidden_state", &[1, 3, 2], vec![2.0f32, 5.0, 4.0, 3.0, 9.0, 9.0]);
    let mask = numbers("attention_mask", &[1, 3], vec![1i64, 1, 0]);
    let made = run(&source, &[states.clone(), mask], &["embedding", "result"]).unwrap();
    assert_eq!(floats(&made[0]), [0.6, 0.8]);
    assert_eq!(strings(&made[1]), ["[0.6000000238418579,0.800000011920929]"]);
    // A mask with a hole counts as it is, and none is all of them.
    let mask = numbers("attention_mask", &[1, 3], vec![1i64, 0, 1]);
    let source = repository.source(&[("step", "pool"), ("mode", "max+cls")]);
    let made = run(&source, &[states.clone(), mask], &["embedding"]).unwrap();
    assert_eq!(floats(&made[0]), [9.0, 9.0, 2.0, 5.0]);
    let made = run(&source, std::slice::from_ref(&states), &["embedding"]).unwrap();
    assert_eq!(floats(&made[0]), [9.0, 9.0, 2.0, 5.0]);
    let mask = numbers("attention_mask", &[1, 2], vec![1i64, 1]);
    let error = run(&source, &[states, mask], &["embedding"]).unwrap_err();
    assert!(error.contains("input 'attention_mask': its shape is [1, 2]"), "{error}");
}

#[test]
fn logits_become_classes() {
    let repository = Repository::new(&[("two.txt", "NO\nYES\n")]);
    let logits = [numbers("logits", &[2, 2], vec![0.0f32, 0.0, 1.0, 2.0])];
    let usual = [("step", "classify"), ("labels", "two.txt")];
    let with = |more: &[(&str, &str)]| repository.source(&[&usual[..], more].concat());
    let wanted = ["label", "score", "result"];
    let made = run(&with(&[]), &logits, &wanted).unwrap();
    assert_eq!(made[0].shape().dims(), [2, 1]);
    assert_eq!(strings(&made[0]), ["NO", "YES"]);
    assert_eq!(floats(&made[1])[0], 0.5);
    assert_eq!(strings(&made[2])[0], r#"{"label":"NO","score":0.5}"#);
    let made = run(&with(&[("top_k", "all"), ("function", "none")]), &logits, &wanted).unwrap();
    assert_eq!(made[0].shape().dims(), [2, 2]);
    assert_eq!(floats(&made[1]), [0.0, 0.0, 2.0, 1.0]);
    let nan = [numbers("logits", &[1, 2], vec![f32::NAN, 0.0])];
    assert!(run(&with(&[]), &nan, &wanted).unwrap_err().contains("is not a number"));
}

#[test]
fn rows_of_one_text_say_which_labels_it_has() {
    let repository = Repository::new(&[("nli.txt", "contradiction\nneutral\nentailment\n")]);
    let mut source = repository.source(&[("step", "entail"), ("labels", "nli.txt")]);
    source.hints.is_unbatched = true;
    let logits = numbers("logits", &[2, 3], vec![0.0f32, 0.0, 1.0, 0.0, 0.0, 3.0]);
    let labels = texts("candidate_labels", &[2], &["a", "b"]);
    let made = run(&source, &[logits.clone(), labels], &["label", "score"]).unwrap();
    assert_eq!(strings(&made[0]), ["b", "a"]);
    assert!(floats(&made[1])[0] > 0.8);
    let labels = texts("candidate_labels", &[3], &["a", "b", "c"]);
    assert!(
        run(&source, &[logits, labels], &["label"]).unwrap_err().contains("3 labels for 2 rows")
    );
}

#[test]
fn sparse_rows_that_are_shorter_end_with_minus_one() {
    let repository = Repository::new(&[]);
    let source = repository.source(&[("step", "splade"), ("pooling", "max")]);
    let logits = [numbers("logits", &[2, 1, 3], vec![1.0f32, -1.0, 3.0, 0.0, 2.0, -1.0])];
    let made = run(&source, &logits, &["indices", "values", "result"]).unwrap();
    assert_eq!(integers(&made[0]), [0, 2, 1, -1]);
    assert_eq!(floats(&made[1])[3], 0.0);
    assert!(strings(&made[2])[1].starts_with(r#"[{"index":1,"value":1.09"#));
}

#[test]
fn a_vector_is_compared_with_others() {
    let repository = Repository::new(&[]);
    let mut source = repository.source(&[("step", "similarity"), ("function", "dot")]);
    source.hints.is_unbatched = true;
    let vectors = numbers("embedding", &[3, 2], vec![1.0f32, 2.0, 3.0, 4.0, 0.0, 1.0]);
    let made = run(&source, &[vectors], &["score"]).unwrap();
    assert_eq!((made[0].shape().dims(), floats(&made[0])), (&[2][..], &[11.0, 2.0][..]));
}

#[test]
fn tensors_are_normalized_ranked_and_scaled_along_an_axis() {
    let repository = Repository::new(&[]);
    let run_step = |parameters: &[(&str, &str)], output: &str| {
        let input = [numbers("input", &[2, 2], vec![3.0f32, 4.0, 1.0, 1.0])];
        run(&repository.source(parameters), &input, &[output]).unwrap().remove(0)
    };
    assert_eq!(floats(&run_step(&[("step", "normalize")], "output"))[..2], [0.6, 0.8]);
    assert_eq!(floats(&run_step(&[("step", "softmax")], "output"))[2..], [0.5, 0.5]);
    assert_eq!(integers(&run_step(&[("step", "argmax")], "output")), [1, 0]);
    let top = [("step", "top_k"), ("k", "1")];
    assert_eq!(floats(&run_step(&top, "output")), [4.0, 1.0]);
    assert_eq!(integers(&run_step(&top, "indices")), [1, 0]);
    let scale = [("step", "scale"), ("mean", "1, 2"), ("std", "2")];
    assert_eq!(floats(&run_step(&scale, "output")), [1.0, 1.0, 0.0, -0.5]);
    let cast = run_step(&[("step", "cast"), ("data_type", "TYPE_INT32")], "output");
    assert_eq!(cast.as_slice_of::<i32>().unwrap(), [3, 4, 1, 1]);
}

#[test]
fn ports_have_the_type_that_the_configuration_says() {
    let repository = Repository::new(&[]);
    let mut source = repository.source(&[("step", "tokenize"), ("file", "sst2/tokenizer.json")]);
    let ids = TensorHint { name: "input_ids".into(), dtype: Some(DataType::Int32), dims: None };
    source.hints.outputs = vec![ids];
    let made = run(&source, &[texts("text", &[1, 1], &["a film"])], &["input_ids"]).unwrap();
    assert_eq!(made[0].dtype(), DataType::Int32);
    assert!(made[0].as_slice_of::<i32>().unwrap().len() > 2);
}

#[test]
fn places_past_a_text_are_refused_by_row() {
    let repository = Repository::new(&[("two.txt", "O\nX\n")]);
    let text = texts("text", &[2, 1], &["four", "four"]);
    let usual = [("step", "entities"), ("labels", "two.txt"), ("file", "ner/tokenizer.json")];
    let entities = |offsets: [i64; 4]| {
        let inputs = [
            numbers("logits", &[2, 1, 2], vec![0.0f32, 1.0, 0.0, 1.0]),
            numbers("offsets", &[2, 1, 2], offsets.to_vec()),
            numbers("input_ids", &[2, 1], vec![5i64, 5]),
            numbers("special_tokens_mask", &[2, 1], vec![0i64, 0]),
            text.clone(),
        ];
        run(&repository.source(&usual), &inputs, &["result"]).map(|it| strings(&it[0]))
    };
    assert!(entities([0, 4, 1, 2]).unwrap()[1].contains(r#""start":1,"end":2"#));
    for (places, shown) in
        [([0, 4, 1, 5], "1..5"), ([0, 4, 3, 2], "3..2"), ([0, 4, -1, 2], "-1..2")]
    {
        let error = entities(places).unwrap_err();
        let expected =
            format!("'offsets': row 1: token 0 is at {shown}, and the text has 4 characters");
        assert!(error.contains(&expected), "{error}");
    }
    let answer = |last: i64| {
        let inputs = [
            numbers("start_logits", &[1, 3], vec![0.0f32, 0.0, 9.0]),
            numbers("end_logits", &[1, 3], vec![0.0f32, 0.0, 9.0]),
            // The second token is one of a question, which is longer.
            numbers("offsets", &[1, 3, 2], vec![0i64, 0, 70, 80, 0, last]),
            numbers("word_ids", &[1, 3], vec![-1i64, -1, 0]),
            texts("text_pair", &[1, 1], &["four"]),
        ];
        run(&repository.source(&[("step", "answer")]), &inputs, &["result"])
    };
    assert!(strings(&answer(4).unwrap()[0])[0].contains(r#""answer":"four""#));
    let error = answer(5).unwrap_err();
    assert!(error.contains("row 0: token 2 is at 0..5, and the text has 4 characters"), "{error}");
}

#[test]
fn lengths_that_leave_no_room_for_a_text_keep_a_step_from_loading() {
    let tokenize = [("step", "tokenize"), ("file", "sst2/tokenizer.json")];
    refused(
        &[tokenize[0], tokenize[1], ("max_length", "2")],
        "parameter 'max_length': 2 leaves no room for a text: the tokenizer adds 2 tokens of its own; it is 3 or more",
    );
    let repository = Repository::new(&[]);
    let loaded = |parameters: &[(&str, &str)]| {
        let mut source = repository.source(&[&tokenize[..], parameters].concat());
        source.hints.is_unbatched = true;
        Steps::default().load(&source).map(|_| ()).map_err(|it| it.to_string())
    };
    let error = loaded(&[("max_length", "64"), ("stride", "64")]).unwrap_err();
    assert!(error.contains("cannot share 64; it is at most 61"), "{error}");
    assert!(loaded(&[("max_length", "64"), ("stride", "62")]).is_err());
    assert_eq!(loaded(&[("max_length", "64"), ("stride", "61")]), Ok(()));
    assert_eq!(loaded(&[("max_length", "1"), ("add_special_tokens", "false")]), Ok(()));
}
