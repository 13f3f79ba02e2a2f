//! Objects in an archive of skops: `schema.json` says what they are, and each array is a file of its own.

use std::borrow::Cow;

use crate::{
    error::FormatError,
    ndarray::Array,
    sklearn::{
        json::{Json, Node},
        npy,
        objects::Objects,
        zip::Zip,
    },
};

/// The objects of an archive.
pub(super) struct Skops<'a> {
    pub(super) json: Json<'a>,
    pub(super) archive: &'a Zip<'a>,
}

impl Skops<'_> {
    /// A field of a node as text.
    fn field(&self, of: u32, name: &str) -> Option<&str> {
        self.json.raw_text(self.json.field(of, name)?)
    }

    /// What a node of a number, a text or a truth holds, as JSON.
    fn plain(&self, of: u32) -> Option<String> {
        match self.field(of, "__loader__") {
            Some("JsonNode") => self.json.text(self.json.field(of, "content")?),
            _ => None,
        }
    }
}

impl Objects for Skops<'_> {
    type Ref = u32;

    fn root(&self) -> u32 {
        self.json.root()
    }

    fn bytes(&self) -> usize {
        self.archive.limit()
    }

    fn class(&self, of: u32) -> Option<(&str, &str)> {
        Some((self.field(of, "__module__")?, self.field(of, "__class__")?))
    }

    fn attribute(&self, of: u32, name: &str) -> Option<u32> {
        let content = self.json.field(of, "content")?;
        match self.field(of, "__loader__")? {
            "DictNode" => self.json.field(content, name),
            // The attributes of an object are a dictionary.
            _ => self.json.field(self.json.field(content, "content")?, name),
        }
    }

    fn members(&self, of: u32) -> Option<Vec<u32>> {
        match self.field(of, "__loader__")? {
            "ListNode" | "TupleNode" | "NdArrayNode" => {
                match self.json.node(self.json.field(of, "content")?)? {
                    Node::List(members) => Some(members.clone()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn text(&self, of: u32) -> Option<String> {
        serde_json::from_str(&self.plain(of)?).ok()
    }

    fn number(&self, of: u32) -> Option<f64> {
        if let Some(text) = self.plain(of) {
            return match &*text {
                "true" => Some(1.0),
                "false" => Some(0.0),
                "NaN" => Some(f64::NAN),
                _ => text.parse().ok(),
            };
        }
        let array = self.array(of).ok().flatten().filter(|it| it.elements() == 1)?;
        array.column()?.float(0)
    }

    fn is_none(&self, of: u32) -> bool {
        self.plain(of).as_deref() == Some("null")
    }

    /// No estimator of scikit-learn has any, and those of other libraries are not read from such archives.
    fn bytes_of(&self, _: u32) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn array(&self, of: u32) -> Result<Option<Array<'_>>, FormatError> {
        match (self.field(of, "__loader__"), self.field(of, "file")) {
            (Some("NdArrayNode"), Some(file)) => npy::read(self.archive.read(file)?).map(Some),
            _ => Ok(None),
        }
    }
}
