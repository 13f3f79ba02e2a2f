//! What is to be told of a model's runs by its file, before it is loaded.

use backend::Foresight;

use crate::{files::ModelFiles, graph::Graph, values::Values};

/// What the graph of a model tells of its runs. A file that is none tells nothing that is to be relied on.
pub(crate) fn foresee(model: Graph<'_>) -> Foresight {
    let unknown = |why: &str| Foresight::Unknown(why.to_owned());
    let Ok(files) = ModelFiles::of(model) else {
        return unknown("its file, or what it names, cannot be read as an ONNX model");
    };
    if files.is_tiny() {
        return Foresight::Weights(files.bytes);
    }
    if files.time_follows_values {
        return unknown(
            "its graph has loops or branches: how long a run takes is up to its inputs",
        );
    }
    // Tables of few bytes decide nothing.
    let tables = files.is_large().then(|| Values::of(model).map(|it| it.table_bytes()));
    let tables = tables.and_then(Result::ok).unwrap_or(0);
    Foresight::Weights(files.bytes.saturating_sub(tables))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    use super::*;
    use crate::protobuf::put_bytes;

    const MIB: usize = 1 << 20;

    /// A file with that content, gone at the end.
    struct Model(PathBuf);

    impl Model {
        fn new(name: &str, content: &[u8]) -> Model {
            let file = format!("muster-foresight-{name}-{}.onnx", std::process::id());
            let path = std::env::temp_dir().join(file);
            fs::write(&path, content).unwrap();
            Model(path)
        }
    }

    impl Drop for Model {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    /// One of the models of the tests, with so many bytes of what no operator reads.
    fn padded(name: &str, bytes: usize) -> Foresight {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
        let mut content = fs::read(models.join(name)).unwrap();
        // A text about the model.
        put_bytes(&mut content, 6, &vec![b' '; bytes]);
        foresee(Model::new(name, &content).0.as_path().into())
    }

    fn weights(foresight: Foresight) -> u64 {
        match foresight {
            Foresight::Weights(bytes) => bytes,
            Foresight::Unknown(why) => panic!("{why}"),
        }
    }

    #[test]
    fn the_bytes_of_a_plain_graph_are_its_weights() {
        assert!((1..MIB as u64).contains(&weights(padded("mlp.onnx", 0))));
        assert!(40 * MIB as u64 <= weights(padded("mlp.onnx", 40 * MIB)));
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/external");
        let file = fs::metadata(beside.join("model.onnx")).unwrap().len();
        assert!(file < weights(foresee(beside.join("model.onnx").as_path().into())));
    }

    #[test]
    fn a_loop_says_nothing_of_time_unless_it_is_tiny() {
        assert!(weights(padded("long.onnx", 0)) < MIB as u64);
        let Foresight::Unknown(why) = padded("long.onnx", 3 * MIB) else { panic!("it has a loop") };
        assert!(why.contains("loops"), "{why}");
    }

    #[test]
    fn what_is_no_model_is_not_relied_on() {
        let cut = &fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/mlp.onnx"));
        let cut = &cut.as_ref().unwrap()[..100];
        for content in [b"no model at all".as_slice(), cut] {
            let foresight = foresee(Model::new("broken", content).0.as_path().into());
            assert!(matches!(foresight, Foresight::Unknown(_)), "{foresight:?}");
        }
    }

    #[test]
    fn a_table_of_which_runs_read_rows_is_left_out() {
        let graph = |operator: &str| {
            let [mut node, mut tensor, mut graph, mut model] = <[Vec<u8>; 4]>::default();
            for input in ["table", "ids"] {
                put_bytes(&mut node, 1, input.as_bytes());
            }
            put_bytes(&mut node, 4, operator.as_bytes());
            put_bytes(&mut tensor, 8, b"table");
            put_bytes(&mut tensor, 9, &vec![0; 40 * MIB]);
            put_bytes(&mut graph, 1, &node);
            put_bytes(&mut graph, 5, &tensor);
            put_bytes(&mut model, 7, &graph);
            weights(foresee(Model::new(operator, &model).0.as_path().into()))
        };
        assert!(graph("Gather") < 1000);
        assert!(40 * MIB as u64 <= graph("MatMul"));
    }
}
