//! Which files of a repository are fetched: one graph with its weights, and what describes it. Pure.

/// Places of a graph as floats of 32 bits, the first that is there wins: as where a folder is served.
const GRAPHS: [&str; 2] = ["model.onnx", "onnx/model.onnx"];

/// Files that describe a graph, or say how its inputs are made.
const BESIDE: [&str; 11] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "preprocessor_config.json",
    "processor_config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "muster.json",
];

/// Parts of the names of graphs with fewer bits, of which none is taken unless it is named.
const VARIANTS: [&str; 11] =
    ["quant", "int8", "uint8", "int4", "q4", "q8", "bnb4", "fp16", "bf16", "fp8", "float16"];

/// Endings of pickles, and of archives of them: they run code where they are read, and are never fetched.
const PICKLES: [&str; 9] = ["bin", "pt", "pth", "pkl", "pickle", "joblib", "ckpt", "dill", "pt2"];

/// Why nothing is chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// Weights without a graph, or nothing.
    #[error(
        "it has no graph as ONNX{weights}: export it with 'optimum-cli export onnx --model {repository} {model}', then \
         'muster serve {model}'"
    )]
    NoGraph {
        /// Which weights it has instead; begins with a comma, or is empty.
        weights: String,
        /// `owner/name`.
        repository: String,
        /// `name`.
        model: String,
    },
    /// Several, none of which goes before the others, or with fewer bits.
    #[error("which graph is meant? name one with --pipeline-graph: {}", .0.join(", "))]
    Several(Vec<String>),
    /// There is no graph of the name that was asked for.
    #[error("it has no graph '{asked}' (--pipeline-graph); it has {}", listed(.there))]
    NotThere {
        /// The first path that was looked for.
        asked: String,
        /// The graphs that it has.
        there: Vec<String>,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The files to fetch out of `files`, in their order. `asked` are the paths of the graph that is wanted; where there
/// are none the usual one is. `repository` is for what is said.
///
/// # Errors
/// When there is no graph, or several that are equally good.
pub(crate) fn choose(
    repository: &str,
    files: &[String],
    asked: &[String],
) -> Result<Vec<String>, ChoiceError> {
    let of_saved_model = |it: &str| {
        it == "saved_model.pb" || it.starts_with("variables/") || it.starts_with("assets/")
    };
    let wanted: Box<dyn Fn(&str) -> bool> = match graph(files, asked)? {
        Some(graph) => Box::new(move |it| it == graph || is_weights_of(it, graph) || is_beside(it)),
        None if files.iter().any(|it| it == "saved_model.pb") => {
            Box::new(move |it| of_saved_model(it) && !is_pickle(it))
        }
        None => {
            let mut trees = files.iter().filter(|it| !it.contains('/'));
            match trees.find(|it| has_ending(it, &["ubj", "skops"])) {
                Some(tree) => Box::new(move |it| it == tree),
                None => return Err(no_graph(repository, files)),
            }
        }
    };
    Ok(files.iter().filter(|it| wanted(it)).cloned().collect())
}

/// The files to fetch of a repository that has weights and no graph: the weights, in one file or several, and what
/// describes them. `None` where there are no such weights.
pub(crate) fn weights(files: &[String]) -> Option<Vec<String>> {
    let [one, index] = graphs::WEIGHTS;
    let has = |name: &str| files.iter().any(|it| it == name);
    let is_part = |it: &str| it.starts_with("model-") && it.ends_with(".safetensors");
    let wanted: Box<dyn Fn(&str) -> bool> = if has(one) {
        Box::new(move |it| it == one)
    } else if has(index) {
        Box::new(move |it| it == index || is_part(it))
    } else {
        return None;
    };
    let files = files.iter().filter(|it| wanted(it) || is_beside(it));
    has(graphs::CONFIG).then(|| files.cloned().collect())
}

/// The graph: the one that was asked for, the usual one, or the only one with all its bits.
fn graph<'a>(files: &'a [String], asked: &[String]) -> Result<Option<&'a str>, ChoiceError> {
    let find = |path: &str| files.iter().find(|it| *it == path).map(String::as_str);
    let all = || {
        let depth = |it: &str| it.strip_prefix("onnx/").unwrap_or(it).contains('/');
        files.iter().map(String::as_str).filter(move |it| it.ends_with(".onnx") && !depth(it))
    };
    if let Some(first) = asked.first() {
        let found = asked.iter().filter(|it| it.ends_with(".onnx")).find_map(|it| find(it));
        let there = || all().map(str::to_owned).collect();
        let missing = || ChoiceError::NotThere { asked: first.clone(), there: there() };
        return found.map(Some).ok_or_else(missing);
    }
    if let Some(usual) = GRAPHS.iter().find_map(|it| find(it)) {
        return Ok(Some(usual));
    }
    let whole: Vec<&str> = all().filter(|it| !is_variant(it)).collect();
    match *whole {
        [one] => Ok(Some(one)),
        [] if all().next().is_none() => Ok(None),
        _ => Err(ChoiceError::Several(all().map(str::to_owned).collect())),
    }
}

/// Does the name of a graph say that it has fewer bits, or was optimised for one machine?
fn is_variant(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    name.starts_with("model_") || VARIANTS.iter().any(|it| name.contains(it))
}

/// Does a file hold weights of that graph? Exports put them beside it, under its name: `model.onnx_data`.
fn is_weights_of(path: &str, graph: &str) -> bool {
    let rest = path.strip_prefix(graph);
    rest.is_some_and(|it| it.starts_with(['_', '.']) && !it.contains('/')) && !is_pickle(path)
}

/// Does a file describe a graph? Modules of sentence-transformers have folders with numbers, such as `1_Pooling`.
fn is_beside(path: &str) -> bool {
    let is_known = |name: &str| {
        let is_sentence = name.starts_with("sentence_") && name.ends_with("_config.json");
        BESIDE.contains(&name) || is_sentence
    };
    match path.split_once('/') {
        None => is_known(path),
        Some((folder, name)) => {
            let module = folder
                .split_once('_')
                .filter(|it| !it.0.is_empty() && it.0.bytes().all(|it| it.is_ascii_digit()));
            // Those of the transformer are in the graph.
            let is_dense = |it: &str| name == "model.safetensors" && it != "Transformer";
            module.is_some_and(|it| is_known(name) || is_dense(it.1))
        }
    }
}

fn is_pickle(path: &str) -> bool {
    has_ending(path, &PICKLES)
}

fn has_ending(path: &str, endings: &[&str]) -> bool {
    let ending = path.rsplit_once('.').map(|it| it.1.to_ascii_lowercase());
    ending.is_some_and(|it| endings.contains(&&*it))
}

fn no_graph(repository: &str, files: &[String]) -> ChoiceError {
    let are_tensors = files.iter().any(|it| has_ending(it, &["safetensors"]));
    let are_pickles = files.iter().any(|it| is_pickle(it));
    let weights = match (are_tensors, are_pickles) {
        (true, _) => ", only weights (safetensors)",
        (_, true) => ", only pickles, which are never fetched",
        _ => "",
    };
    let model = repository.rsplit('/').next().unwrap_or(repository);
    ChoiceError::NoGraph {
        weights: weights.to_owned(),
        repository: repository.to_owned(),
        model: model.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(files: &[&str], asked: &[&str]) -> Result<Vec<String>, ChoiceError> {
        let owned = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        choose("org/name", &owned(files), &owned(asked))
    }

    #[track_caller]
    fn check(files: &[&str], asked: &[&str], expect: &[&str]) {
        assert_eq!(chosen(files, asked).unwrap(), expect);
    }

    #[test]
    fn of_several_graphs_the_one_with_all_bits_is_fetched_with_what_describes_it() {
        let files = [
            ".gitattributes",
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "2_Dense/pytorch_model.bin",
            "README.md",
            "config.json",
            "model.safetensors",
            "modules.json",
            "onnx/model.onnx",
            "onnx/model.onnx_data",
            "onnx/model_quantized.onnx",
            "pytorch_model.bin",
            "sentence_bert_config.json",
            "tokenizer.json",
            "vocab.txt",
        ];
        let beside = [
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "config.json",
            "modules.json",
        ];
        let rest = ["sentence_bert_config.json", "tokenizer.json"];
        let usual = ["onnx/model.onnx", "onnx/model.onnx_data"];
        check(&files, &[], &[&beside[..], &usual, &rest].concat());
        let asked = ["onnx/model_quantized.onnx", "model_quantized.onnx"];
        check(&files, &asked, &[&beside[..], &asked[..1], &rest].concat());
        let error = chosen(&files, &["onnx/model_q4.onnx"]).unwrap_err().to_string();
        assert!(
            error.contains("onnx/model_q4.onnx") && error.contains("model_quantized"),
            "{error}"
        );
    }

    #[test]
    fn the_only_graph_may_have_any_name_unless_it_has_fewer_bits() {
        check(&["README.md", "yolo.onnx", "yolo.pt"], &[], &["yolo.onnx"]);
        let one = &["onnx/model_quantized.onnx", "config.json"];
        assert_eq!(chosen(one, &[]), Err(ChoiceError::Several(vec![one[0].to_owned()])));
        let two = &["decoder.onnx", "encoder.onnx"];
        assert_eq!(
            chosen(two, &[]).unwrap_err(),
            ChoiceError::Several(two.map(str::to_owned).into())
        );
        // Graphs deeper down are of other programs.
        let error = chosen(&["a/b/c.onnx"], &[]).unwrap_err();
        assert!(matches!(error, ChoiceError::NoGraph { .. }), "{error}");
    }

    #[test]
    fn weights_alone_are_refused_with_the_command_that_exports_them() {
        let error = chosen(&["config.json", "model.safetensors"], &[]).unwrap_err().to_string();
        let command = "optimum-cli export onnx --model org/name name";
        assert!(error.contains(command) && error.contains("safetensors"), "{error}");
        let error = chosen(&["model.pkl"], &[]).unwrap_err().to_string();
        assert!(error.contains("pickles, which are never fetched"), "{error}");
    }

    #[test]
    fn weights_are_one_file_or_an_index_with_its_parts_and_are_described() {
        let chosen =
            |files: &[&str]| weights(&files.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        let one = ["config.json", "model.safetensors", "tokenizer.json"];
        let rest = ["README.md", "pytorch_model.bin", "adapter.safetensors"];
        assert_eq!(chosen(&[&one[..], &rest].concat()).unwrap(), one);
        let parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        let several = [&parts[..], &["model.safetensors.index.json", "config.json"]].concat();
        assert_eq!(chosen(&[&several[..], &rest].concat()).unwrap(), several);
        assert_eq!(chosen(&["config.json", "pytorch_model.bin"]), None);
        assert_eq!(chosen(&["model.safetensors"]), None);
    }

    #[test]
    fn trees_and_saved_models_are_fetched_where_there_is_no_graph() {
        check(&["README.md", "model.pkl", "model.skops"], &[], &["model.skops"]);
        let saved = ["assets/x.txt", "saved_model.pb", "variables/variables.index"];
        check(&[&saved[..], &["x.pkl"]].concat(), &[], &saved);
    }
}
