//! Which nodes may read and write files all the same: those of the saver, and those that fill tables from assets. Their
//! places come from the file, so they count only where TensorFlow gives them the file's name itself. Pure.

use std::{collections::HashSet, ptr};

use prost::Message;

use super::{
    proto::{Graph, MetaGraph, Node, Saver, SignatureDef},
    reach::reached,
    signature::INITIALISER,
    sources::{Sources, tensor_of, unnamed},
};

/// What a checkpoint is written and read by.
pub(super) const OF_SAVERS: [&str; 3] = ["Save", "MergeV2Checkpoints", RESTORE];

const RESTORE: &str = "Restore";

/// What fills a table from a file.
pub(super) const TABLES: &str = "InitializeTableFromTextFile";

/// The collections that name an initialiser.
const INITIALISERS: [&str; 2] = ["saved_model_main_op", "legacy_init_op"];

/// The nodes of a graph, by what runs them.
pub(super) struct Exempt<'a> {
    sources: Sources<'a>,
    /// The tensor that is the place of the checkpoint, and those that are places of assets: given at the load.
    checkpoint: &'a str,
    assets: Vec<&'a str>,
    by_requests: HashSet<*const Node>,
    by_initialisers: HashSet<*const Node>,
    by_saves: HashSet<*const Node>,
    by_restores: HashSet<*const Node>,
}

impl<'a> Exempt<'a> {
    pub(super) fn of(meta: &'a MetaGraph, graph: &'a Graph) -> Exempt<'a> {
        let outputs = |is_initialiser: bool| -> Vec<String> {
            let signatures = meta.signatures.iter();
            let some = signatures.filter(|(name, _)| (*name == INITIALISER) == is_initialiser);
            // One that cannot be read is not served.
            let read = some.filter_map(|(_, it)| SignatureDef::decode(it.as_slice()).ok());
            read.flat_map(|it| it.outputs.into_values()).map(|it| it.name).collect()
        };
        let run = |names: Vec<&str>, calls: Vec<&'a str>| -> HashSet<*const Node> {
            reached(graph, names.into_iter(), calls).into_iter().map(ptr::from_ref).collect()
        };
        let (served, mut initial) = (outputs(false), outputs(true));
        let collections = INITIALISERS.iter().filter_map(|it| meta.collections.get(*it));
        initial.extend(collections.flat_map(|it| &it.nodes).flat_map(|it| it.names.clone()));
        let saver = |of: fn(&Saver) -> &str| {
            meta.saver.iter().map(of).filter(|it| !it.is_empty()).collect::<Vec<_>>()
        };
        let assets = meta.assets.iter().filter_map(|it| it.tensor.as_ref());
        Exempt {
            sources: Sources::of(graph),
            checkpoint: meta.saver.as_ref().map_or("", |it| tensor_of(&it.file)),
            assets: assets.map(|it| tensor_of(&it.name)).collect(),
            by_requests: run(served.iter().map(String::as_str).collect(), unnamed(graph).collect()),
            by_initialisers: run(initial.iter().map(String::as_str).collect(), Vec::new()),
            by_saves: run(saver(|it| &it.save), Vec::new()),
            by_restores: run(saver(|it| &it.restore), Vec::new()),
        }
    }

    /// May the node, which is in that function, read or write the file that it does?
    pub(super) fn has(&self, function: &'a str, node: &'a Node) -> bool {
        let at = ptr::from_ref(node);
        let is = |input: usize, tensors: &[&str]| {
            let input = node.inputs.get(input);
            input.is_some_and(|it| self.sources.is_one_of(function, it, tensors))
        };
        let operation = node.op.as_str();
        if self.by_requests.contains(&at) {
            return false;
        }
        if operation.starts_with(TABLES) {
            return is(1, &self.assets);
        }
        if !OF_SAVERS.iter().any(|it| operation.starts_with(it))
            || self.by_initialisers.contains(&at)
        {
            return false;
        }
        match self.by_restores.contains(&at) {
            true => operation.starts_with(RESTORE) && is(0, &[self.checkpoint]),
            // The server never saves.
            false => self.by_saves.contains(&at),
        }
    }
}
