//! A text that was given for a setting, and where it came from.

use std::{ffi::OsString, fmt};

use crate::flags::Secrecy;

/// Stands behind a text that was typed, in what is said of it.
pub(crate) const COMMAND_LINE: &str = "(command line)";

/// Where a value came from. Its text goes in front of the value.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// An option.
    CommandLine,
    /// `MUSTER_HTTP_PORT`.
    Own(String),
    /// Another container's variable, and its own text, which need not be the setting's.
    Foreign(&'static str, String),
    /// Another server's spelling, file or default: all that is to be said of it.
    Other(String),
    /// The default of Triton, whose name the program was called by.
    Triton,
}

/// A text for a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// The setting.
    pub name: &'static str,
    /// Its text.
    pub text: String,
    /// Where it came from.
    pub origin: Origin,
    /// What of the text is a secret. [`Sources`](crate::Sources) knows it from the flag.
    pub(crate) secrecy: Secrecy,
}

impl Given {
    /// A text for a setting.
    pub fn new(name: &'static str, text: String, origin: Origin) -> Given {
        Given { name, text, origin, secrecy: Secrecy::None }
    }

    /// What of its text may be shown.
    pub fn shown(&self) -> &str {
        self.shown_of(&self.text)
    }

    /// What of another text that says the same may be shown: all of it, or what stands before a secret.
    pub fn shown_of<'a>(&self, text: &'a str) -> &'a str {
        let end = match self.secrecy {
            Secrecy::None => return text,
            Secrecy::BehindName => text.find('=').or_else(|| text.find(':')),
            Secrecy::Whole => None,
        };
        end.and_then(|it| text.get(..=it)).unwrap_or_default()
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.shown();
        match &self.origin {
            Origin::CommandLine => write!(f, "--{} '{text}' {COMMAND_LINE}", self.name),
            Origin::Other(text) => write!(f, "{text}, for --{}", self.name),
            Origin::Triton => write!(f, "--{} '{text}' (default of tritonserver)", self.name),
            Origin::Own(variable) => write!(f, "{variable}='{text}' (environment)"),
            Origin::Foreign(variable, text) => {
                let text = self.shown_of(text);
                write!(f, "{variable}='{text}' (environment, for --{})", self.name)
            }
        }
    }
}

/// One option as typed.
#[derive(Debug, Clone, PartialEq)]
pub struct Typed {
    /// Its full name, not an alias.
    pub name: &'static str,
    /// Its text.
    pub value: OsString,
    /// How it was typed, where that was in the words of another server.
    pub spelled: Option<String>,
}
