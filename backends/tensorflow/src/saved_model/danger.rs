//! Which nodes of a graph reach beyond the model: into files of this machine, other programs, or code. Pure.

use super::{
    exempt::{Exempt, OF_SAVERS, TABLES},
    proto::{MetaGraph, Node},
    sources,
};

/// A node that reaches beyond the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Danger {
    /// Its name; in a function `function/node`.
    pub(crate) node: String,
    pub(crate) operation: String,
}

/// Operations that read or write files that they are given the names of, or run code, by their whole name.
const NAMES: [&str; 12] = [
    "ReadFile",
    "WriteFile",
    "MatchingFiles",
    "FileSystemSetConfiguration",
    "DebugIdentity",
    "DebugIdentityV2",
    "DebugNanCount",
    "DebugNumericSummary",
    "ImmutableConst",
    "DatasetFromGraph",
    "LMDBReader",
    "ExportOp",
];

/// The same, by the beginning of their names.
const BEGINNINGS: [&str; 11] = [
    "PyFunc",
    "EagerPyFunc",
    "LoadAndRemap",
    "WholeFileReader",
    "TFRecordReader",
    "TextLineReader",
    "FixedLengthRecordReader",
    "CreateSummary",
    "WriteAudioSummary",
    "WriteRawProtoSummary",
    "DistributedSave",
];

/// Sources of data sets that are files, or other programs.
const DATA_SETS: [&str; 15] = [
    "TFRecordDataset",
    "TextLineDataset",
    "FixedLengthRecordDataset",
    "CSVDataset",
    "LMDBDataset",
    "SqlDataset",
    "SnapshotDataset",
    "SnapshotDatasetReader",
    "SaveDataset",
    "LoadDataset",
    "CacheDataset",
    "MatchingFilesDataset",
    "RegisterDataset",
    "DataServiceDataset",
    "GeneratorDataset",
];

/// The attribute of `PrintV2` that says where it prints to, and what it begins with where that is a file.
const STREAM: (&str, &[u8]) = ("output_stream", b"file://");

/// Operations that may read a description of messages from a file, the attribute that names it, and what that begins
/// with where it is no file.
const OF_MESSAGES: [&str; 2] = ["DecodeProtoV2", "EncodeProtoV2"];
const DESCRIPTION: &str = "descriptor_source";
const NO_FILES: [&[u8]; 2] = [b"local://", b"bytes://"];

/// The first node that reaches beyond the model, wherever it stands; `None` where there is none.
pub(crate) fn danger_of(meta: &MetaGraph) -> Option<Danger> {
    let graph = meta.graph.as_ref()?;
    let exempt = Exempt::of(meta, graph);
    let mut nodes = sources::all(graph);
    let (function, node) =
        nodes.find(|(function, node)| is_dangerous(node) && !exempt.has(function, node))?;
    let place = if function.is_empty() { String::new() } else { format!("{function}/") };
    Some(Danger { node: format!("{place}{}", node.name), operation: node.op.clone() })
}

fn is_dangerous(node: &Node) -> bool {
    let operation = node.op.as_str();
    let data_set = operation.strip_prefix("Experimental").unwrap_or(operation);
    let data_set = data_set.trim_end_matches(|it: char| it.is_ascii_digit());
    let data_set = data_set.strip_suffix('V').unwrap_or(data_set);
    NAMES.contains(&operation)
        || BEGINNINGS.iter().chain(&OF_SAVERS).any(|it| operation.starts_with(it))
        || operation.starts_with(TABLES)
        || DATA_SETS.contains(&data_set)
        || operation.contains("Rpc")
        || (operation == "PrintV2"
            && node.attributes.get(STREAM.0).is_some_and(|it| it.text.starts_with(STREAM.1)))
        || (OF_MESSAGES.contains(&operation)
            && node
                .attributes
                .get(DESCRIPTION)
                .is_some_and(|it| !NO_FILES.iter().any(|own| it.text.starts_with(own))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_model::proto::{
        Argument, Asset, Attribute, Collection, Function, FunctionName, FunctionSignature,
        Gradient, Graph, Library, Names, Saver, SignatureDef, TensorInfo,
    };
    use prost::Message;
    use std::path::Path;

    fn node(name: &str, op: &str, inputs: &[&str]) -> Node {
        let inputs = inputs.iter().map(|it| (*it).to_owned()).collect();
        Node { name: name.into(), op: op.into(), inputs, ..Node::default() }
    }

    /// With an attribute that is a text.
    fn with_text(mut node: Node, key: &str, text: &str) -> Node {
        let text = text.as_bytes().to_vec();
        node.attributes.insert(key.into(), Attribute { text, ..Attribute::default() });
        node
    }

    /// A call of `traced`.
    fn call(name: &str, inputs: &[&str]) -> Node {
        let mut node = node(name, "StatefulPartitionedCall", inputs);
        let function = Some(FunctionName { name: "traced".into() });
        node.attributes.insert("f".into(), Attribute { function, ..Attribute::default() });
        node
    }

    fn tensor(name: &str) -> TensorInfo {
        TensorInfo { name: name.into(), ..TensorInfo::default() }
    }

    /// With a function `traced` of one argument, `path`, a signature that gives `served`, an initialiser, and an asset.
    fn meta(nodes: Vec<Node>, in_function: Vec<Node>) -> MetaGraph {
        let path = Argument { name: "path".into(), ..Argument::default() };
        let signature = FunctionSignature { name: "traced".into(), arguments: vec![path] };
        let function =
            Function { signature: Some(signature), nodes: in_function, ..Function::default() };
        let library = Some(Library { functions: vec![function], ..Library::default() });
        let served = [("y".to_owned(), tensor("served:0"))].into();
        let served = SignatureDef { outputs: served, ..SignatureDef::default() };
        let nodes_of_collection = Some(Names { names: vec!["initial".into()] });
        MetaGraph {
            graph: Some(Graph { nodes, library }),
            saver: Some(Saver {
                file: "file:0".into(),
                save: "save:0".into(),
                restore: "restore".into(),
            }),
            assets: vec![Asset { tensor: Some(tensor("asset:0")), file: "words.txt".into() }],
            signatures: [("serving_default".to_owned(), served.encode_to_vec())].into(),
            collections: [(
                "saved_model_main_op".to_owned(),
                Collection { nodes: nodes_of_collection },
            )]
            .into(),
            ..MetaGraph::default()
        }
    }

    #[track_caller]
    fn check(nodes: Vec<Node>, in_function: Vec<Node>, expected: Option<(&str, &str)>) {
        let found = danger_of(&meta(nodes, in_function));
        let found = found.as_ref().map(|it| (it.node.as_str(), it.operation.as_str()));
        assert_eq!(found, expected);
    }

    #[test]
    fn nodes_that_reach_beyond_the_model_are_found_wherever_they_stand() {
        for operation in [
            "ReadFile",
            "WriteFile",
            "MatchingFiles",
            "PyFunc",
            "PyFuncStateless",
            "EagerPyFunc",
            "TFRecordDatasetV2",
            "ExperimentalCSVDataset",
            "RegisterDatasetV2",
            "RpcCall",
            "LoadAndRemapMatrix",
            "SaveV2",
            "RestoreV2",
            "WholeFileReaderV2",
            "ImmutableConst",
            "DebugNanCount",
            "InitializeTableFromTextFileV2",
        ] {
            check(vec![node("a", operation, &[])], vec![], Some(("a", operation)));
            check(vec![], vec![node("b", operation, &[])], Some(("traced/b", operation)));
        }
        for operation in [
            "MatMul",
            "TensorSliceDataset",
            "BatchDatasetV2",
            "ReadVariableOp",
            "PrintV2",
            "LookupTableExportV2",
        ] {
            check(vec![node("a", operation, &[])], vec![], None);
        }
    }

    #[test]
    fn the_saver_of_the_model_may_read_and_write_checkpoints_and_nothing_else() {
        let saves = || vec![node("s", "SaveV2", &[]), node("m", "MergeV2Checkpoints", &[])];
        check(vec![call("save", &[])], saves(), None);
        check(vec![], saves(), Some(("traced/s", "SaveV2")));
        check(vec![call("restore", &[])], saves(), Some(("traced/s", "SaveV2")));
        let writes = vec![node("w", "WriteFile", &[])];
        check(vec![call("save", &[])], writes, Some(("traced/w", "WriteFile")));
        check(restore(&["file"]), vec![], None);
    }

    /// What the saver runs to restore.
    fn restore(inputs: &[&str]) -> Vec<Node> {
        vec![node("restore", "NoOp", &["^r"]), node("r", "RestoreV2", inputs)]
    }

    #[test]
    fn what_requests_or_initialisers_run_is_not_the_savers() {
        for name in ["served", "initial"] {
            let mut nodes = restore(&["file"]);
            nodes.push(node(name, "Identity", &["r"]));
            check(nodes, vec![], Some(("r", "RestoreV2")));
            let nodes = vec![call("restore", &["file"]), call(name, &["file"])];
            let of_both = vec![node("r", "RestoreV2", &["path"])];
            check(nodes, of_both, Some(("traced/r", "RestoreV2")));
        }
    }

    #[test]
    fn the_saver_restores_only_from_the_file_that_the_load_names() {
        let restores = || vec![node("r", "RestoreV2", &["path"])];
        let danger = Some(("traced/r", "RestoreV2"));
        check(restore(&["elsewhere"]), vec![], Some(("r", "RestoreV2")));
        check(restore(&["file:1"]), vec![], Some(("r", "RestoreV2")));
        check(vec![call("restore", &["file:0"])], restores(), None);
        check(vec![call("restore", &["elsewhere"])], restores(), danger);
        let nodes = vec![call("restore", &["file", "^other"]), call("other", &["elsewhere"])];
        check(nodes, restores(), danger);
        let own = vec![node("r", "RestoreV2", &["c:output:0"]), node("c", "Const", &[])];
        check(vec![call("restore", &["file"])], own, danger);
    }

    #[test]
    fn functions_that_may_be_run_in_place_of_others_are_not_the_savers() {
        let meta =
            || meta(vec![call("restore", &["file"])], vec![node("r", "RestoreV2", &["path"])]);
        assert_eq!(danger_of(&meta()), None);
        let mut gradient = meta();
        let library = gradient.graph.as_mut().unwrap().library.as_mut().unwrap();
        library.gradients.push(Gradient { function: "traced".into() });
        assert_eq!(danger_of(&gradient).unwrap().node, "traced/r");
        let mut other = meta();
        let library = other.graph.as_mut().unwrap().library.as_mut().unwrap();
        library.functions[0].attributes.insert("api_implements".into(), Attribute::default());
        assert_eq!(danger_of(&other).unwrap().node, "traced/r");
    }

    const TABLE: &str = "InitializeTableFromTextFileV2";

    #[test]
    fn tables_are_filled_from_assets_and_from_no_other_files() {
        let fills = |name: &str| vec![node("t", TABLE, &["table", name])];
        check(fills("asset"), vec![], None);
        check(fills("elsewhere"), vec![], Some(("t", TABLE)));
        check(fills("file"), vec![], Some(("t", TABLE)));
        // Assets are given at the load, and not in the runs of requests.
        let mut nodes = fills("asset");
        nodes.push(node("served", "NoOp", &["^t"]));
        check(nodes, vec![], Some(("t", TABLE)));
        let danger = Some(("traced/t", TABLE));
        check(vec![call("initial", &["asset:0"])], fills("path"), None);
        check(vec![call("initial", &["elsewhere"])], fills("path"), danger);
        let nodes = vec![call("initial", &["i"]), node("i", "Identity", &["asset"])];
        check(nodes, fills("path"), None);
    }

    #[test]
    fn the_place_of_an_asset_may_be_in_a_variable_that_holds_nothing_else() {
        let variable = |name: &str, shared: &str| {
            with_text(node(name, "VarHandleOp", &[]), "shared_name", shared)
        };
        let nodes = |others: Vec<Node>| {
            let mut nodes = vec![
                variable("v", "v"),
                node("assign", "AssignVariableOp", &["v", "asset"]),
                node("read", "ReadVariableOp", &["v", "^assign"]),
                node("t", TABLE, &["table", "read"]),
            ];
            nodes.extend(others);
            nodes
        };
        let danger = Some(("t", TABLE));
        check(nodes(vec![]), vec![], None);
        check(nodes(vec![variable("w", "w")]), vec![], None);
        check(nodes(vec![variable("w", "v")]), vec![], danger);
        check(nodes(vec![]), vec![variable("w", "v")], danger);
        check(nodes(vec![node("a", "AssignVariableOp", &["v", "c"])]), vec![], danger);
        check(nodes(vec![call("restore", &["v"])]), vec![], danger);
    }

    #[test]
    fn what_tensorflow_exports_reaches_nothing_unless_it_was_written_to() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/savedmodels");
        let read = |name: &str| crate::saved_model::read(&folder.join(name).join("1")).unwrap();
        for name in ["words", "keras", "examples_of_tf1", "half_plus_two", "counter", "signatures"]
        {
            assert_eq!(danger_of(&read(name).meta_graphs[0]), None, "{name}");
        }
        let written = danger_of(&read("writes").meta_graphs[0]);
        assert_eq!(written.unwrap().operation, "WriteFile");
    }

    #[test]
    fn what_reads_a_description_of_messages_from_a_file_reads_a_file() {
        for operation in OF_MESSAGES {
            let of = |text: &str| vec![with_text(node("d", operation, &[]), DESCRIPTION, text)];
            check(of("/etc/passwd"), vec![], Some(("d", operation)));
            check(vec![], of("messages.pb"), Some(("traced/d", operation)));
            check(of("local://"), of("bytes://\u{1}"), None);
            check(vec![node("d", operation, &[])], vec![], None);
        }
    }

    #[test]
    fn what_prints_into_a_file_writes_a_file() {
        let print = with_text(node("p", "PrintV2", &[]), STREAM.0, "file:///etc/passwd");
        check(vec![print], vec![], Some(("p", "PrintV2")));
    }
}
