//! What each kind of file is called, and what to do where it lies in the place of a model.

use std::{borrow::Cow, path::Path};

use super::Content;

const OPTIMUM: &str =
    "optimum-cli export onnx --model <its directory or its name on the hub> <new directory>";
const WEIGHTS_OF_A_WRITER: &str = "the weights of a language model, and muster serves no models that write a text \
                                   token by token";
const EXPORT: &str = "load it into its model in Python, then torch.onnx.export(model, (example,), \"model.onnx\", \
                      dynamo=True), or save torch.jit.script(model) or torch.jit.trace(model, example) with \
                      .save(\"model.pt\")";
const KERAS: &str = "python -c \"import keras; keras.saving.load_model('<file>').export('<model>/1')\" makes a SavedModel, \
                     which is served";
const SKLEARN: &str = "trees and forests are served under the name model.pkl or model.joblib; convert others in Python with \
                       skl2onnx.to_onnx(model, X[:1].astype('float32')), and write .SerializeToString() to model.onnx";
const SKOPS: &str = "trees and forests are served under the name model.skops; convert others in Python with \
                     skl2onnx.to_onnx(model, X[:1].astype('float32')), and write .SerializeToString() to model.onnx";
const XGBOOST: &str = "give it the name xgboost-model";
const LIGHTGBM: &str = "give it the name model.txt";
const LIGHTGBM_PICKLE: &str = "save it in Python with its booster_.save_model('model.txt')";
const AGAIN: &str = "copy or download it again";

/// Files of XGBoost have the right name if it ends so, too.
const ENDINGS_OF_XGBOOST: [&str; 2] = [".ubj", ".json"];

/// A name is to be given, or one that ends so.
const NAME: &str = "give it the name ";
const ENDING: &str = "give it a name that ends in ";

/// Has the file the name that it should have? Then what is wrong is where it lies, and this is its usual name. Of a
/// link its own name counts, not that of where it leads to.
fn has_name<'a>(path: &Path, help: &'a str) -> Option<Cow<'a, str>> {
    let own = path.file_name()?.to_str()?;
    let ending = ENDINGS_OF_XGBOOST.into_iter().find(|it| own.ends_with(it));
    if let Some(ending) = ending.filter(|_| help == XGBOOST) {
        return Some(format!("model{ending}").into());
    }
    match (help.strip_prefix(NAME), help.strip_prefix(ENDING)) {
        (Some(name), _) => (own == name).then_some(name.into()),
        (_, Some(ending)) => own.ends_with(ending).then(|| format!("model{ending}").into()),
        (None, None) => None,
    }
}

/// Is the model whose weights these are one that writes texts, by the configuration beside them?
fn writes_texts(weights: &Path) -> bool {
    let text = backend::read_text(&weights.with_file_name("config.json")).unwrap_or_default();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let classes = config["architectures"].as_array().into_iter().flatten();
    let ends = |it: &str| it.ends_with("ForCausalLM") || it.ends_with("LMHeadModel");
    classes.filter_map(serde_json::Value::as_str).any(ends)
}

/// What to do with weights, by the files beside them.
fn help_for_weights(path: &Path) -> String {
    let directory = directory_of(path);
    if steps::is_pipeline(directory, None) {
        return format!(
            "with the files beside it this is a model: serve it by itself with 'muster serve {}', or put its whole \
             folder into a repository as <repository>/<name>",
            directory.display()
        );
    }
    match path.with_file_name("config.json").exists() {
        true => OPTIMUM.to_owned(),
        false => format!(
            "put beside it the files of its folder on the hub (config.json, and tokenizer.json or \
             preprocessor_config.json), and serve the folder; where no graph is made for its kind: {OPTIMUM}"
        ),
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside_a_repository(path: &Path, usual: Cow<'_, str>) -> String {
    let directory = directory_of(path).display();
    format!(
        "a repository has a directory for each model: serve this one by itself with 'muster serve {directory}', or put \
         it into a repository as <repository>/<name>/1/{usual}"
    )
}

impl Content {
    /// The `platform` of a configuration by which such a file is served, if one is.
    pub(crate) fn platform(self) -> Option<&'static str> {
        match self {
            Content::Onnx => Some("onnxruntime_onnx"),
            Content::TorchScript => Some("pytorch_libtorch"),
            Content::SavedModel => Some("tensorflow_savedmodel"),
            _ => None,
        }
    }

    /// Is it a model by itself, in one file?
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Content::Onnx | Content::TorchScript)
    }

    /// Is it what the engine of trees may read, by more than the container that it came in? Pickles of any object, and
    /// what is only known to be compressed, are not.
    pub(crate) fn is_of_trees(self) -> bool {
        matches!(
            self,
            Content::Xgboost
                | Content::Lightgbm
                | Content::Skops
                | Content::SklearnPickle
                | Content::XgboostPickle
                | Content::LightgbmPickle
        )
    }

    /// What the file is and what to do, as the rest of a sentence that begins with its path.
    pub(crate) fn sentence(self, path: &Path) -> String {
        let (what, help) = match self {
            Content::Safetensors if writes_texts(path) => {
                (WEIGHTS_OF_A_WRITER.to_owned(), "vLLM and llama.cpp serve such models".to_owned())
            }
            Content::Safetensors => (self.what_and_help().0, help_for_weights(path)),
            _ => self.what_and_help(),
        };
        let help = match has_name(path, &help) {
            Some(usual) => beside_a_repository(path, usual),
            None => help.replace("<file>", &path.display().to_string()),
        };
        format!("this is {what}; {help}")
    }

    fn what_and_help(self) -> (String, String) {
        let (what, help) = match self {
            Content::Truncated { what, length, needs } => {
                let of = needs.map_or(String::new(), |it| format!(" of at least {it}"));
                let what = format!("{what} that is cut short: it has {length} bytes{of}");
                return (what, AGAIN.to_owned());
            }
            Content::Empty => ("an empty file", AGAIN),
            Content::Zeros => ("a file of zeros, as an interrupted copy leaves it", AGAIN),
            Content::LfsPointer => (
                "a Git LFS pointer in the place of the file",
                "run in its repository: git lfs install && git lfs pull",
            ),
            Content::Page => (
                "an HTML page, as a download gives it that needs a login or another address",
                "open it to see what it says, and download the file itself",
            ),
            Content::XmlError => (
                "XML text, as an object store answers with an error",
                "open it to see what it says, and download the file itself",
            ),
            Content::Pmml => (
                "a PMML document, which is not served",
                "save the model in the format of its own library, or as ONNX",
            ),
            Content::OpenVino => (
                "an OpenVINO model (.xml), which is not served",
                "serve the ONNX file or the SavedModel that it was converted from",
            ),
            Content::Xml => ("XML text, which is no model", "look into it to see where it is from"),
            Content::Onnx => ("an ONNX model", "give it a name that ends in .onnx"),
            Content::TorchScript => ("a TorchScript model", "give it a name that ends in .pt"),
            Content::StateDict => {
                ("a state dict or a pickled module of PyTorch, without the model's code", EXPORT)
            }
            Content::TorchExport => (
                "a torch.export archive (.pt2)",
                "export the model with torch.jit.trace(model, example).save(\"model.pt\"), or \
                 torch.onnx.export(model, (example,), \"model.onnx\", dynamo=True)",
            ),
            Content::TorchServe => (
                "an archive of TorchServe",
                "give it a name that ends in .mar, or serve the TorchScript file that is in it",
            ),
            Content::Safetensors => ("a safetensors file: weights without a model's code", OPTIMUM),
            Content::Keras => ("a Keras model (.keras)", KERAS),
            Content::Hdf5 => ("an HDF5 file (.h5), as Keras writes them", KERAS),
            Content::Tflite => (
                "a TensorFlow Lite model (.tflite)",
                "python -m tf2onnx.convert --tflite <file> --output model.onnx",
            ),
            Content::Gguf => (
                "a GGUF file, a language model for llama.cpp",
                "serve it with llama.cpp; muster serves no models that write texts",
            ),
            Content::SavedModel => (
                "the graph of a SavedModel of TensorFlow, under a name that is not its own",
                "keep it as saved_model.pb, with its variables/ beside it, in the version's directory",
            ),
            Content::SavedModelText => (
                "the graph of a SavedModel of TensorFlow as text, which is served in binary",
                "write it so: python -c \"from google.protobuf import text_format; from \
                 tensorflow.core.protobuf.saved_model_pb2 import SavedModel; open('saved_model.pb', \
                 'wb').write(text_format.Parse(open('<file>').read(), SavedModel()).SerializeToString())\", and keep \
                 it as saved_model.pb in the place of the text",
            ),
            Content::FrozenGraph => (
                "a frozen graph of TensorFlow",
                "python -m tf2onnx.convert --graphdef <file> --output model.onnx --inputs <name>:0 --outputs <name>:0",
            ),
            Content::SklearnPickle => ("a pickle (joblib) of scikit-learn", SKLEARN),
            Content::XgboostPickle => ("a pickle of an XGBoost model", XGBOOST),
            Content::LightgbmPickle => ("a pickle of a LightGBM model", LIGHTGBM_PICKLE),
            Content::TorchPickle => (
                "a state dict or a pickled module of PyTorch as torch.save wrote it, without the model's code",
                EXPORT,
            ),
            Content::Pickle => (
                "a pickle, which only Python can read",
                "load it there, and export the model as ONNX",
            ),
            Content::CompressedPickle => {
                ("a compressed file, as joblib.dump(compress=..) writes them", SKLEARN)
            }
            Content::Skops => ("a skops file of scikit-learn", SKOPS),
            Content::Xgboost => ("a model of XGBoost", XGBOOST),
            Content::Lightgbm => ("a model of LightGBM", LIGHTGBM),
            Content::LightgbmDump => (
                "JSON of LightGBM's dump_model, which is for reading",
                "save the model in Python with its save_model('model.txt')",
            ),
            Content::Catboost => (
                "a CatBoost model (.cbm)",
                "model.save_model(\"model.onnx\", format=\"onnx\") in Python",
            ),
            Content::TensorRt => (
                "a TensorRT engine",
                "serve the ONNX file that it was built from, with the accelerator 'tensorrt' on a GPU",
            ),
            Content::Numpy => (
                "a file of NumPy arrays",
                "put the model itself here: these are its inputs or weights",
            ),
            Content::Gzip => ("a gzip archive", "unpack it: tar xzf <file>, or gunzip <file>"),
            Content::Tar => ("a tar archive", "unpack it: tar xf <file>"),
            Content::Zip => ("a zip archive, but none of TorchScript", "unpack it: unzip <file>"),
        };
        (what.to_owned(), help.to_owned())
    }
}
