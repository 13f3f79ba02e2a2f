//! The metadata that Ultralytics' exports write into a graph: `task`, `names`, `stride`, `imgsz` and others.

use std::{collections::BTreeMap, sync::Arc};

use super::python_literal::Literal;
use crate::error::FolderError;

/// What the metadata of a graph says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ultralytics {
    /// What the model does: `detect`, `classify`, `segment`, `pose`, `obb`. Exports of YOLOv5 do not say; they detect.
    pub task: String,
    /// The names of the classes, by their numbers. Never empty.
    pub names: Vec<Arc<str>>,
    /// Sides of the input are multiples of this.
    pub stride: u32,
    /// Height and width of the input, where they are said.
    pub imgsz: Option<[u32; 2]>,
    /// Rows of a run, where they are said. A dynamic graph takes any number.
    pub batch: Option<u32>,
    /// Channels of the input: 3 where nothing is said.
    pub channels: u32,
    /// Does the graph remove overlaps itself, because it is made so or was exported with `nms`? `None`: unsaid.
    pub end2end: Option<bool>,
    /// The version of Ultralytics' package. Empty where it is not said.
    pub version: String,
    /// The class of the graph's last module, such as `Detect` or `RTDETRDecoder`, where it is said: since 8.4.90 at the
    /// latest.
    pub head: Option<String>,
    /// One line that names the architecture, such as `Ultralytics YOLOv8n model`. Empty where it is not said.
    pub description: String,
}

/// The most that a side, a stride or a number of channels may be.
const MOST_SIDE: i64 = 65_536;

impl Ultralytics {
    /// From the metadata of a graph; `None` where it lacks `names` and `stride`, which all of these exports have.
    ///
    /// `file` names the graph in errors.
    ///
    /// # Errors
    /// When a value is not what its key takes.
    pub fn read(
        file: &str,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Option<Ultralytics>, FolderError> {
        if !["names", "stride"].iter().all(|it| metadata.contains_key(*it)) {
            return Ok(None);
        }
        let metadata = Metadata { file, entries: metadata };
        let args = metadata.value("args")?;
        let has_nms = match &args {
            Some(Literal::Dictionary(entries)) => {
                entries.contains(&(Literal::Text("nms".to_owned()), Literal::Bool(true)))
            }
            Some(other) => return Err(metadata.wrong("args", "a dictionary", other)),
            None => false,
        };
        let end2end = match metadata.value("end2end")? {
            Some(Literal::Bool(it)) => Some(it),
            Some(other) => return Err(metadata.wrong("end2end", "True or False", &other)),
            None => None,
        };
        let stride = metadata.number("stride")?;
        let text = |key: &str| metadata.entries.get(key).cloned();
        Ok(Some(Ultralytics {
            task: text("task").unwrap_or_else(|| "detect".to_owned()),
            names: metadata.names()?,
            stride: stride.ok_or_else(|| metadata.error("stride", "it is missing"))?,
            imgsz: metadata.sides("imgsz")?,
            batch: metadata.number("batch")?,
            channels: metadata.number("channels")?.unwrap_or(3),
            end2end: if has_nms { Some(true) } else { end2end },
            version: text("version").unwrap_or_default(),
            head: text("head"),
            description: text("description").unwrap_or_default(),
        }))
    }
}

struct Metadata<'a> {
    file: &'a str,
    entries: &'a BTreeMap<String, String>,
}

impl Metadata<'_> {
    fn error(&self, key: &str, problem: impl Into<String>) -> FolderError {
        FolderError::key(self.file, format!("metadata.{key}"), problem)
    }

    fn wrong(&self, key: &str, expected: &str, found: &Literal) -> FolderError {
        self.error(key, format!("it is {}, not {expected}", found.kind()))
    }

    fn value(&self, key: &str) -> Result<Option<Literal>, FolderError> {
        let parse =
            |text: &String| Literal::parse(text).map_err(|it| self.error(key, it.to_string()));
        self.entries.get(key).map(parse).transpose()
    }

    fn number(&self, key: &str) -> Result<Option<u32>, FolderError> {
        self.value(key)?.map(|it| self.side(key, &it)).transpose()
    }

    /// A number of at least one.
    fn side(&self, key: &str, value: &Literal) -> Result<u32, FolderError> {
        match value {
            Literal::Integer(number @ 1..=MOST_SIDE) => Ok(*number as u32),
            Literal::Integer(number) => {
                Err(self.error(key, format!("{number} is not between 1 and {MOST_SIDE}")))
            }
            other => Err(self.wrong(key, "a whole number", other)),
        }
    }

    /// Height and width, or one number for both.
    fn sides(&self, key: &str) -> Result<Option<[u32; 2]>, FolderError> {
        match self.value(key)? {
            None => Ok(None),
            Some(Literal::List(sides)) => match &*sides {
                [height, width] => Ok(Some([self.side(key, height)?, self.side(key, width)?])),
                other => Err(self.error(key, format!("it has {} sides, not 2", other.len()))),
            },
            Some(one) => self.side(key, &one).map(|it| Some([it, it])),
        }
    }

    /// `{0: 'person', 1: 'bicycle'}`, or the list of names.
    fn names(&self) -> Result<Vec<Arc<str>>, FolderError> {
        let name = |place: usize, value: Literal| match value {
            Literal::Text(name) => Ok(name.into()),
            other => Err(self.wrong(&format!("names.{place}"), "a text", &other)),
        };
        let names: Vec<Arc<str>> = match self.value("names")? {
            Some(Literal::List(names)) => names
                .into_iter()
                .enumerate()
                .map(|(place, it)| name(place, it))
                .collect::<Result<_, _>>()?,
            Some(Literal::Dictionary(entries)) => {
                let mut named = BTreeMap::new();
                for (key, value) in entries {
                    let Literal::Integer(number @ 0..) = key else {
                        return Err(
                            self.error("names", format!("a key is {}, not a number", key.kind()))
                        );
                    };
                    let place = number as usize;
                    if named.insert(place, name(place, value)?).is_some() {
                        return Err(self.error("names", format!("class {place} has two names")));
                    }
                }
                if let Some((place, _)) = (0..).zip(named.keys()).find(|(place, key)| place != *key)
                {
                    return Err(self.error("names", format!("class {place} has no name")));
                }
                named.into_values().collect()
            }
            Some(other) => return Err(self.wrong("names", "a dictionary", &other)),
            None => Vec::new(),
        };
        match names.is_empty() {
            true => Err(self.error("names", "no class has a name")),
            false => Ok(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn read(entries: &[(&str, &str)]) -> Result<Option<Ultralytics>, FolderError> {
        Ultralytics::read("yolo.onnx", &metadata(entries))
    }

    #[test]
    fn an_exports_metadata_is_read() {
        let found = read(&[
            ("description", "a model"),
            ("version", "8.4.190"),
            ("stride", "32"),
            ("task", "detect"),
            ("batch", "1"),
            ("imgsz", "[480, 640]"),
            ("names", "{0: 'person', 1: 'bicycle'}"),
            ("args", "{'batch': 1, 'half': False, 'nms': False}"),
            ("channels", "1"),
            ("end2end", "False"),
            ("head", "Detect"),
        ]);
        let expected = Ultralytics {
            task: "detect".to_owned(),
            names: vec!["person".into(), "bicycle".into()],
            stride: 32,
            imgsz: Some([480, 640]),
            batch: Some(1),
            channels: 1,
            end2end: Some(false),
            version: "8.4.190".to_owned(),
            head: Some("Detect".to_owned()),
            description: "a model".to_owned(),
        };
        assert_eq!(found, Ok(Some(expected)));
    }

    #[test]
    fn an_export_of_version_five_has_two_keys() {
        let found = read(&[("stride", "32"), ("names", "['a', 'b']")]).unwrap().unwrap();
        assert_eq!((&*found.task, found.imgsz, found.channels), ("detect", None, 3));
        assert_eq!((found.end2end, found.names.len()), (None, 2));
        assert_eq!((found.head, &*found.description), (None, ""));
        assert_eq!(read(&[("names", "['a', 'b']"), ("task", "detect")]), Ok(None));
    }

    #[test]
    fn a_graph_that_was_exported_with_suppression_is_end_to_end() {
        let keys = [("stride", "32"), ("names", "{0: 'a'}"), ("end2end", "False")];
        let with = [&keys[..], &[("args", "{'nms': True}")]].concat();
        assert_eq!(read(&with).unwrap().unwrap().end2end, Some(true));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        for (key, value, expect) in [
            ("names", "{0: 'a', 2: 'b'}", "names: class 1 has no name"),
            ("names", "{0: 'a', 0: 'b'}", "names: class 0 has two names"),
            ("names", "{'a': 'b'}", "names: a key is a text, not a number"),
            ("names", "{0: 1}", "names.0: it is a whole number, not a text"),
            ("names", "{}", "names: no class has a name"),
            ("names", "open('x')", "names: at byte 0 a value is expected"),
            ("stride", "0", "stride: 0 is not between 1 and 65536"),
            ("stride", "'a'", "stride: it is a text, not a whole number"),
            ("imgsz", "[1, 2, 3]", "imgsz: it has 3 sides, not 2"),
            ("imgsz", "[640, 99999999]", "imgsz: 99999999 is not between 1 and 65536"),
            ("end2end", "1", "end2end: it is a whole number, not True or False"),
            ("args", "[]", "args: it is a list, not a dictionary"),
        ] {
            let mut entries = metadata(&[("stride", "32"), ("names", "{0: 'a'}")]);
            entries.insert(key.to_owned(), value.to_owned());
            let error = Ultralytics::read("yolo.onnx", &entries).unwrap_err().to_string();
            assert_eq!(error, format!("yolo.onnx: metadata.{expect}"));
        }
    }
}
