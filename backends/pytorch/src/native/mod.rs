//! The plugin's table of functions, made safe. The only place with unsafe code in this crate.

mod element;
mod module;
mod plugin;

pub(crate) use module::{Argument, Held, How, Module, Produced, StringRef};
pub(crate) use plugin::{Plugin, TorchFailure};
pub(crate) use pytorch_abi::Switches;
