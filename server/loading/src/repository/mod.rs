//! Which models there are: in directories, in object stores, in lists.

pub(crate) mod base_path;
pub(crate) mod catalogue;
pub(crate) mod content;
pub(crate) mod current_list;
pub(crate) mod denied;
pub(crate) mod file_stamps;
pub(crate) mod flat;
pub(crate) mod inspect;
pub(crate) mod local;
pub(crate) mod mlflow;
pub(crate) mod model_list;
pub(crate) mod platform;
pub(crate) mod remote;
pub(crate) mod scratch_dir;
pub(crate) mod torchserve;
pub(crate) mod unversioned;
pub mod user_script;
pub(crate) mod versions;
