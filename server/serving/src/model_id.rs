//! Which model is meant: its name, and where names may be used twice, the repository that it lies in.

use std::{fmt, sync::Arc};

/// One model, in all its versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId {
    /// What clients call it.
    pub name: Arc<str>,
    /// The path of its repository; empty where names are used once.
    pub namespace: Arc<str>,
}

impl ModelId {
    /// A model that nothing but its name is needed to tell.
    pub fn named(name: &str) -> ModelId {
        ModelId { name: name.into(), namespace: Arc::default() }
    }

    /// Is that the model, or may it be, as this one has no namespace?
    pub fn means(&self, id: &ModelId) -> bool {
        self.name == id.name && (self.namespace.is_empty() || self.namespace == id.namespace)
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{} in {namespace}", self.name),
        }
    }
}
