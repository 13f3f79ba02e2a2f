//! What a pickle holds: numbers, texts, containers, and calls that were not made.
//!
//! Values are small and refer to the file, or to what the pickle keeps beside it. Containers may hold each other in
//! circles, so nothing goes through them without a bound of its own.

use std::borrow::Cow;

/// Entries that the dictionary of an object's attributes may have. Each look-up goes through them.
const ATTRIBUTES: usize = 1024;

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// `None`
    None,
    /// `True` or `False`
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// A float.
    Float(f64),
    /// Bytes of the file.
    Bytes(Span),
    /// Bytes of the file that are UTF-8.
    Text(Span),
    /// Anything else, by its number.
    Kept(u32),
}

/// Bytes of the file. A file has at most 2^31 of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte behind the last.
    pub end: u32,
}

impl Span {
    /// How many bytes these are.
    pub fn bytes(self) -> usize {
        (self.end - self.start) as usize
    }
}

/// A value that lies outside of [`Value`].
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    /// Text that was written with escapes.
    Text(Box<str>),
    /// Bytes that were written with escapes.
    Bytes(Box<[u8]>),
    /// A number beyond 64 bits.
    Large,
    /// `[…]`
    List(Vec<Value>),
    /// `(…)`
    Tuple(Vec<Value>),
    /// A set, frozen or not.
    Set(Vec<Value>),
    /// `{…}`, in the order of the file.
    Dict(Vec<(Value, Value)>),
    /// The name of a class or function: its module, and its name there.
    Global(Value, Value),
    /// What a call would have made.
    Object(Box<Object>),
}

/// A call that was not made, and what would have been done with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// The class or function, a [`Kept::Global`] in all pickles that mean something.
    pub callable: Value,
    /// The arguments, a tuple.
    pub arguments: Value,
    /// The attributes it is given afterwards.
    pub state: Option<Value>,
    /// What is appended to it.
    pub items: Vec<Value>,
    /// What is set in it, by key.
    pub pairs: Vec<(Value, Value)>,
    /// The array that joblib writes behind its wrapper.
    pub behind: Option<Behind>,
}

/// What lies in the file behind the wrapper of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Behind {
    /// The numbers.
    Raw(Span),
    /// A pickle of its own, for arrays of objects.
    Pickle(Value),
}

/// A pickle as values.
#[derive(Debug)]
pub struct Pickle<'a> {
    pub(super) file: &'a [u8],
    pub(super) kept: Vec<Kept>,
    pub(super) root: Value,
}

impl<'a> Pickle<'a> {
    /// The value of the whole.
    pub fn root(&self) -> Value {
        self.root
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> usize {
        self.file.len()
    }

    /// The bytes of a span.
    pub fn raw(&self, span: Span) -> &'a [u8] {
        &self.file[span.start as usize..span.end as usize]
    }

    /// A value's text. Strings of Python 2 are bytes.
    pub fn text(&self, value: Value) -> Option<&str> {
        match value {
            Value::Text(span) | Value::Bytes(span) => std::str::from_utf8(self.raw(span)).ok(),
            Value::Kept(_) => match self.kept(value)? {
                Kept::Text(text) => Some(text),
                Kept::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
                _ => None,
            },
            _ => None,
        }
    }

    /// The bytes of `bytes`, of `bytearray`, and of what stands for them in old protocols.
    pub fn bytes(&self, value: Value) -> Option<Cow<'_, [u8]>> {
        if let Some(bytes) = self.plain_bytes(value) {
            return Some(Cow::Borrowed(bytes));
        }
        let (module, name) = self.class(value)?;
        let arguments = self.arguments(value)?;
        match (module, name, arguments) {
            ("_codecs", "encode", [text, encoding]) if is_latin(self.text(*encoding)?) => {
                latin(self.text(*text)?).map(Cow::Owned)
            }
            ("builtins" | "__builtin__", "bytearray" | "bytes", []) => Some(Cow::Borrowed(&[])),
            ("builtins" | "__builtin__", "bytearray", [text, encoding])
                if is_latin(self.text(*encoding)?) =>
            {
                latin(self.text(*text)?).map(Cow::Owned)
            }
            ("builtins" | "__builtin__", "bytearray", [inner]) => self.innermost_bytes(*inner),
            _ => None,
        }
    }

    /// The argument of `bytearray`, which is no `bytearray` itself.
    fn innermost_bytes(&self, value: Value) -> Option<Cow<'_, [u8]>> {
        match self.class(value) {
            Some((_, "bytearray")) => None,
            _ => self.bytes(value),
        }
    }

    fn plain_bytes(&self, value: Value) -> Option<&[u8]> {
        match value {
            Value::Bytes(span) => Some(self.raw(span)),
            Value::Kept(_) => match self.kept(value)? {
                Kept::Bytes(bytes) => Some(bytes),
                _ => None,
            },
            _ => None,
        }
    }

    /// The members of a list or a tuple.
    pub fn sequence(&self, value: Value) -> Option<&[Value]> {
        match self.kept(value)? {
            Kept::List(members) | Kept::Tuple(members) => Some(members),
            _ => None,
        }
    }

    /// Module and name of a class or function that is itself a value.
    pub fn global(&self, value: Value) -> Option<(&str, &str)> {
        match self.kept(value)? {
            Kept::Global(module, name) => Some((self.text(*module)?, self.text(*name)?)),
            _ => None,
        }
    }

    /// Module and name of an object's class, or of the function that would have made it.
    pub fn class(&self, value: Value) -> Option<(&str, &str)> {
        let Kept::Object(object) = self.kept(value)? else { return None };
        let class = self.global(object.callable)?;
        match class {
            // Old protocols name the class as the first argument.
            ("copyreg" | "copy_reg", "_reconstructor" | "__newobj__") => {
                self.global(*self.sequence(object.arguments)?.first()?)
            }
            _ => Some(class),
        }
    }

    /// Is a value an object of that class, in a module or in one below it?
    pub fn is(&self, value: Value, package: &str, name: &str) -> bool {
        self.class(value).is_some_and(|(module, class)| {
            class == name
                && module
                    .strip_prefix(package)
                    .is_some_and(|it| it.is_empty() || it.starts_with('.'))
        })
    }

    /// The arguments of the call that would have made an object.
    pub fn arguments(&self, value: Value) -> Option<&[Value]> {
        match self.kept(value)? {
            Kept::Object(object) => self.sequence(object.arguments),
            _ => None,
        }
    }

    /// An object.
    pub fn object(&self, value: Value) -> Option<&Object> {
        match self.kept(value)? {
            Kept::Object(object) => Some(object),
            _ => None,
        }
    }

    /// What an object's attribute or a dictionary's entry of that name is.
    pub fn attribute(&self, value: Value, name: &str) -> Option<Value> {
        let entries = match self.kept(value)? {
            Kept::Dict(entries) => entries,
            Kept::Object(object) => match self.kept(object.state?)? {
                Kept::Dict(entries) => entries,
                // The second is that of slots.
                Kept::Tuple(both) => match self.kept(*both.first()?)? {
                    Kept::Dict(entries) => entries,
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        };
        // The last one counts, as in Python.
        let entries = (entries.len() <= ATTRIBUTES).then_some(entries)?;
        let entry = entries.iter().rev().find(|(key, _)| self.text(*key) == Some(name))?;
        Some(entry.1)
    }

    fn kept(&self, value: Value) -> Option<&Kept> {
        match value {
            Value::Kept(number) => self.kept.get(number as usize),
            _ => None,
        }
    }

    /// The first call of something outside the packages whose objects models are made of, as `module.name`.
    pub fn stranger(&self) -> Option<String> {
        self.kept.iter().find_map(|it| {
            let Kept::Object(object) = it else { return None };
            match self.global(object.callable) {
                Some((module, name)) if is_known(module, name) => None,
                Some((module, name)) => Some(format!("{module}.{name}")),
                None => Some("a value that is no name".to_owned()),
            }
        })
    }
}

/// Are calls of this name what pickles of models are made of?
fn is_known(module: &str, name: &str) -> bool {
    const PACKAGES: [&str; 9] = [
        "xgboost",
        "lightgbm",
        "sklearn",
        "numpy",
        "scipy",
        "joblib",
        "collections",
        "copyreg",
        "copy_reg",
    ];
    const BUILTINS: [&str; 9] =
        ["bytearray", "bytes", "complex", "frozenset", "list", "object", "range", "set", "slice"];
    let package = module.split('.').next().unwrap_or(module);
    match module {
        "builtins" | "__builtin__" => BUILTINS.contains(&name),
        "_codecs" => name == "encode",
        "functools" => name == "partial",
        // The module of losses of scikit-learn 1.5 to 1.8, which does not know the package that it is in.
        "_loss" => name.strip_prefix("__pyx_unpickle_").unwrap_or(name).starts_with("Cy"),
        _ => PACKAGES.contains(&package),
    }
}

fn is_latin(encoding: &str) -> bool {
    matches!(encoding, "latin1" | "latin-1")
}

/// Each character as a byte.
fn latin(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|it| u8::try_from(u32::from(it)).ok()).collect()
}
