//! Where the weights of an optimised model begin in their file: each at a multiple of a line of a processor's cache.
//!
//! They are mapped, and kernels read what was prepared for them with instructions that end the process where an address
//! is no such multiple. ONNX Runtime writes what is smaller than 1 MiB wherever the weight before it ends.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use crate::{
    native::WEIGHTS,
    protobuf::{fields, put_bytes, text_of, texts_of},
};

/// The longest line, in bytes; registers are no longer.
const LINE: u64 = 64;

/// What begins a page goes on doing so.
const PAGE: u64 = 4096;

/// Moves the weights beside that graph, and has it name their new places. Does nothing where all are well placed.
pub(super) fn align(graph: &Path) -> io::Result<()> {
    let mut places = Places::default();
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "it is no graph with such weights");
    let changed = places.of(&fs::read(graph)?, Message::Model).ok_or_else(strange)?;
    if places.pieces.iter().all(|it| it.offset.is_multiple_of(LINE)) {
        return Ok(());
    }
    let weights = graph.with_file_name(WEIGHTS);
    let moved = graph.with_file_name("weights.moved");
    places.copy(&weights, &moved)?;
    fs::rename(moved, weights)?;
    fs::write(graph, changed)
}

/// Messages of `onnx.proto` on the way to a tensor.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
}

impl Message {
    /// What is in that field, if a tensor may be.
    fn within(self, field: u64) -> Option<Message> {
        match (self, field) {
            (Message::Model, 7) | (Message::Attribute, 6 | 11) => Some(Message::Graph),
            (Message::Graph, 1) => Some(Message::Node),
            (Message::Graph, 5) | (Message::Attribute, 5 | 10) => Some(Message::Tensor),
            (Message::Node, 5) => Some(Message::Attribute),
            _ => None,
        }
    }
}

/// Numbers of fields: the entries of a tensor's `external_data`, and the key and the value of one.
const EXTERNAL: u64 = 13;
const KEY: u64 = 1;
const VALUE: u64 = 2;

/// A part of the file of weights.
struct Piece {
    offset: u64,
    length: u64,
    /// Where it begins in the new file.
    place: u64,
}

/// Where all of them begin.
#[derive(Default)]
struct Places {
    pieces: Vec<Piece>,
    /// Their places in the list, by offset and length: tensors may share one.
    known: HashMap<(u64, u64), u64>,
    end: u64,
}

impl Places {
    /// The message with the new places of its tensors; `None` for what is no such message.
    fn of(&mut self, message: &[u8], kind: Message) -> Option<Vec<u8>> {
        let parts = fields(message)?;
        let mut out = Vec::with_capacity(message.len() + 64);
        let entries = || texts_of(&parts, EXTERNAL).map(Entry::of).collect::<Option<Vec<_>>>();
        let entries = match kind {
            Message::Tensor => entries()?,
            Message::Model | Message::Graph | Message::Node | Message::Attribute => Vec::new(),
        };
        let value = |key: &str| entries.iter().find(|it| it.key == key).map(|it| it.value);
        let is_ours = value("location") == Some(WEIGHTS);
        let length = || value("length")?.parse().ok();
        let mut next = entries.iter();
        for part in &parts {
            match (kind.within(part.number), part.number) {
                (Some(within), _) => {
                    put_bytes(&mut out, part.number, &self.of(part.bytes()?, within)?)
                }
                (None, EXTERNAL) if is_ours => {
                    let Entry { key, value } = *next.next()?;
                    let value = match key {
                        "offset" => self.place(value.parse().ok()?, length()?)?.to_string(),
                        it if it.starts_with("prepacked_") => self.prepacked(value)?,
                        _ => value.to_owned(),
                    };
                    let mut entry = Vec::new();
                    put_bytes(&mut entry, KEY, key.as_bytes());
                    put_bytes(&mut entry, VALUE, value.as_bytes());
                    put_bytes(&mut out, EXTERNAL, &entry);
                }
                (None, _) => out.extend_from_slice(part.whole),
            }
        }
        Some(out)
    }

    /// What was prepared for a kernel: `<key>|<offset>;<length>;<sum>|..`.
    fn prepacked(&mut self, value: &str) -> Option<String> {
        let mut parts = value.split('|');
        let mut out = parts.next()?.to_owned();
        for part in parts {
            let (offset, rest) = part.split_once(';')?;
            let length = rest.split(';').next()?.parse().ok()?;
            let place = self.place(offset.parse().ok()?, length)?;
            out += &format!("|{place};{rest}");
        }
        Some(out)
    }

    /// Where that part begins in the new file.
    fn place(&mut self, offset: u64, length: u64) -> Option<u64> {
        if let Some(place) = self.known.get(&(offset, length)) {
            return Some(*place);
        }
        let line = if offset.is_multiple_of(PAGE) { PAGE } else { LINE };
        let place = self.end.checked_next_multiple_of(line)?;
        self.end = place.checked_add(length)?;
        self.pieces.push(Piece { offset, length, place });
        self.known.insert((offset, length), place);
        Some(place)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut from, mut to) = (File::open(from)?, File::create(to)?);
        for Piece { offset, length, place } in &self.pieces {
            from.seek(SeekFrom::Start(*offset))?;
            to.seek(SeekFrom::Start(*place))?;
            if io::copy(&mut (&from).take(*length), &mut to)? != *length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// An entry of `external_data`.
#[derive(Clone, Copy)]
struct Entry<'a> {
    key: &'a str,
    value: &'a str,
}

impl<'a> Entry<'a> {
    fn of(entry: &'a [u8]) -> Option<Entry<'a>> {
        let parts = fields(entry)?;
        let text = |number| std::str::from_utf8(text_of(&parts, number)).ok();
        Some(Entry { key: text(KEY)?, value: text(VALUE)? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    fn message(parts: &[(u64, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        parts.iter().for_each(|(number, bytes)| put_bytes(&mut out, *number, bytes));
        out
    }

    fn tensor(name: &str, entries: &[(&str, &str)]) -> Vec<u8> {
        let entry =
            |(key, value): &(&str, &str)| message(&[(1, key.as_bytes()), (2, value.as_bytes())]);
        let entries: Vec<_> = entries.iter().map(entry).collect();
        let parts = entries.iter().map(|it| (13, &**it));
        message(&parts.chain([(8, name.as_bytes())]).collect::<Vec<_>>())
    }

    /// A graph with these tensors, and one more within a branch.
    fn model(tensors: &[Vec<u8>], within: &[u8]) -> Vec<u8> {
        let attribute = message(&[(6, &message(&[(5, within)]))]);
        let branch = message(&[(5, &attribute)]);
        let tensors = tensors.iter().map(|it| (5, &**it));
        let parts: Vec<(u64, &[u8])> = [(1, &*branch)].into_iter().chain(tensors).collect();
        message(&[(7, &message(&parts))])
    }

    fn aligned(graph: &[u8], weights: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let folder = tempfile_of("muster-aligned");
        let (model, beside) = (folder.join("model.onnx"), folder.join(WEIGHTS));
        fs::write(&model, graph).unwrap();
        fs::write(&beside, weights).unwrap();
        align(&model).unwrap();
        let found = (fs::read(&model).unwrap(), fs::read(&beside).unwrap());
        fs::remove_dir_all(folder).unwrap();
        found
    }

    fn tempfile_of(name: &str) -> std::path::PathBuf {
        let thread = std::thread::current();
        let name = format!("{name}-{}-{:?}", std::process::id(), thread.id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn each_weight_begins_at_a_line_and_what_is_prepared_of_it_too() {
        let beside =
            |offset, length| [("location", WEIGHTS), ("offset", offset), ("length", length)];
        let second = [&beside("3", "2")[..], &[("prepacked_0", "Gemm+1|5;4;0|9;1;7")]].concat();
        let first = tensor("first", &beside("0", "3"));
        // Not ours.
        let other = tensor("other", &[("location", "elsewhere"), ("offset", "5"), ("length", "1")]);
        let graph = model(
            &[first, tensor("second", &second), other.clone()],
            &tensor("inner", &beside("10", "2")),
        );
        let (graph, weights) = aligned(&graph, b"aaabbccccdee");
        let inner = tensor("inner", &beside("0", "2"));
        let places: Vec<(usize, &[u8])> =
            vec![(0, b"ee"), (4096, b"aaa"), (4160, b"bb"), (4224, b"cccc"), (4288, b"d")];
        for (place, bytes) in places {
            assert_eq!(weights.get(place..place + bytes.len()), Some(bytes));
        }
        let second =
            [&beside("4160", "2")[..], &[("prepacked_0", "Gemm+1|4224;4;0|4288;1;7")]].concat();
        let first = tensor("first", &beside("4096", "3"));
        assert_eq!(graph, model(&[first, tensor("second", &second), other], &inner));
    }

    #[test]
    fn what_is_well_placed_is_left_as_it_is() {
        let entries = [("location", WEIGHTS), ("length", "2"), ("offset", "64")];
        let graph = model(&[tensor("only", &entries)], b"");
        let weights = [b"x".repeat(64), b"yy".to_vec()].concat();
        assert_eq!(aligned(&graph, &weights), (graph, weights));
    }

    #[test]
    fn what_is_no_such_graph_is_an_error() {
        let folder = tempfile_of("muster-not-aligned");
        let short = tensor("short", &[("location", WEIGHTS), ("offset", "1"), ("length", "9")]);
        let unknown = tensor("unknown", &[("location", WEIGHTS), ("offset", "1")]);
        for graph in [model(&[short], b""), model(&[unknown], b""), b"no graph".to_vec()] {
            fs::write(folder.join("model.onnx"), graph).unwrap();
            fs::write(folder.join(WEIGHTS), b"few").unwrap();
            assert!(align(&folder.join("model.onnx")).is_err());
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
