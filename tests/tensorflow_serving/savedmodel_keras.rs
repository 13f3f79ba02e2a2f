//! Models as Keras 3 exports them answer as its `predict` does; and the script that fetches the library takes no other.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::{
    Client, Form, Repository, Tensor, root,
    savedmodels::{FIXTURES, serve},
    skip,
};

/// What Keras's `predict` has said of that model: shape and values of its input, and answers.
struct Expected {
    shape: Vec<usize>,
    rows: Vec<Value>,
    answers: Vec<f64>,
}

fn expected(model: &str) -> Expected {
    let text = fs::read_to_string(root(&format!("{FIXTURES}/keras_predict.json"))).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let part = |key: &str| all[model][key].clone();
    Expected {
        shape: serde_json::from_value(part("shape")).unwrap(),
        rows: serde_json::from_value(part("rows")).unwrap(),
        answers: serde_json::from_value(part("answers")).unwrap(),
    }
}

/// Some rows of it as the model's only input.
fn input(client: &mut Client, model: &str, rows: std::ops::Range<usize>) -> Tensor {
    let described = client.get(&format!("/v2/models/{model}")).expect(200).json();
    let input = &described["inputs"][0];
    let (name, datatype) = (input["name"].as_str().unwrap(), input["datatype"].as_str().unwrap());
    let it = expected(model);
    let each: usize = it.shape[1..].iter().product();
    let values = &it.rows[rows.start * each..rows.end * each];
    let shape = [&[rows.len()], &it.shape[1..]].concat();
    match datatype {
        "FP32" => {
            let values: Vec<f32> = values.iter().map(|it| it.as_f64().unwrap() as f32).collect();
            Tensor::fp32(name, &shape, &values)
        }
        "INT32" => {
            let values = values.iter().map(|it| i32::try_from(it.as_i64().unwrap()).unwrap());
            let bytes: Vec<u8> = values.flat_map(i32::to_le_bytes).collect();
            Tensor::new(name, datatype, &shape, bytes)
        }
        "BYTES" => {
            let values: Vec<&[u8]> =
                values.iter().map(|it| it.as_str().unwrap().as_bytes()).collect();
            Tensor::strings(name, &shape, &values)
        }
        other => panic!("{other}"),
    }
}

fn answers(client: &mut Client, model: &str, rows: std::ops::Range<usize>) -> Vec<f64> {
    let input = input(client, model, rows);
    client.infer(model, &[input], Form::Binary, "").expect(200).output().numbers()
}

#[test]
fn networks_of_keras_answer_as_its_predict_does_and_without_onednn_with_the_same_bits_each_time() {
    let models = ["convnet", "encoder"];
    let flags = ["--tensorflow-onednn=off"];
    let Some((mut process, _repository)) = serve(&models, &flags) else { return };
    let mut client = process.client();
    for model in models {
        let it = expected(model);
        let (count, each) = (it.shape[0], it.answers.len() / it.shape[0]);
        let first = answers(&mut client, model, 0..count);
        assert_eq!(first.len(), it.answers.len(), "{model}");
        for (found, expected) in first.iter().zip(&it.answers) {
            let most = 1e-6 * expected.abs().max(1.0);
            assert!((found - expected).abs() <= most, "{model}: {found} for {expected}");
        }
        for _ in 0..20 {
            assert_eq!(answers(&mut client, model, 0..count), first, "{model}");
        }
        let alone = answers(&mut client, model, 1..2);
        for (found, expected) in alone.iter().zip(&it.answers[each..2 * each]) {
            assert!((found - expected).abs() < 2e-6, "{model}: {found} for {expected}");
        }
    }
}

#[test]
fn a_layer_that_makes_numbers_of_texts_gives_the_numbers_of_keras() {
    let Some((mut process, _repository)) = serve(&["vectorization"], &[]) else { return };
    let mut client = process.client();
    let count = expected("vectorization").shape[0];
    let found = answers(&mut client, "vectorization", 0..count);
    assert_eq!(found, expected("vectorization").answers);
}

/// The script that fetches TensorFlow, over that target folder, with a pip that leaves another wheel and notes it in
/// `fetched`; `None` where there is no Python.
fn prepare(folder: &Path) -> Option<Output> {
    let pip = "import pathlib, sys\n\
               if '--version' in sys.argv:\n    print('pip 20.0')\n\
               else:\n    place = pathlib.Path(sys.argv[sys.argv.index('--dest') + 1])\n    \
               (place / 'other.whl').write_bytes(b'other')\n    \
               (pathlib.Path(__file__).parents[1] / 'fetched').touch()\n";
    fs::create_dir_all(folder.join("pip")).unwrap();
    fs::write(folder.join("pip/__init__.py"), "").unwrap();
    fs::write(folder.join("pip/__main__.py"), pip).unwrap();
    let output = Command::new("python3")
        .arg(root("backends/tensorflow/prepare.py"))
        .env("PYTHONPATH", folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output();
    output.ok()
}

#[test]
fn the_library_is_fetched_once_and_a_wheel_with_another_digest_is_refused() {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return skip("TensorFlow's library: the script knows the one for Linux on x86-64 alone");
    }
    let folder = Repository::new();
    let Some(output) = prepare(folder.path()) else {
        return skip("TensorFlow's library: python3 is not installed");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("SHA-256"), "{said}");
    assert!(said.contains("other.whl") && said.contains("refused"), "{said}");
    assert!(folder.path().join("fetched").is_file());
    assert!(!folder.path().join("target/tensorflow").exists());

    fs::remove_file(folder.path().join("fetched")).unwrap();
    let script = fs::read_to_string(root("backends/tensorflow/prepare.py")).unwrap();
    let version = script.lines().find_map(|it| it.strip_prefix("VERSION = "));
    let version = version.unwrap().trim_matches('"').to_owned();
    let folder = folder.file("target/tensorflow/version", version);
    let output = prepare(folder.path()).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("is in"), "{said}");
    assert!(!folder.path().join("fetched").exists());
}
