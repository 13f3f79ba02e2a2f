//! Opening the plugin, and what belongs to no module.

use std::{error::Error, ffi::OsStr, fmt, path::Path};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use pytorch_abi::{ABI_VERSION, ENTRY, Entry, Switches, Table, Text, torch_version};

/// An open plugin. It stays open as long as the process lives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plugin {
    pub(super) table: &'static Table,
}

/// What the plugin says where something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TorchFailure {
    /// Did memory run out?
    pub(crate) out_of_memory: bool,
    /// libtorch's text, of many lines.
    pub(crate) text: String,
}

/// Why a file is not used as the plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PluginError {
    /// The loader's words.
    Loader(String),
    /// It lacks the plugin's function.
    NoPlugin,
    /// Its function gives nothing.
    NoFunctions,
    /// It has another version of the interface.
    OtherBuild { version: u32 },
    /// It runs with another libtorch than it was built with.
    OtherTorch { built: u64, running: u64 },
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PluginError::Loader(ref text) => f.write_str(text),
            PluginError::NoPlugin => f.write_str("it is no plugin of muster"),
            PluginError::NoFunctions => f.write_str("it has no functions"),
            PluginError::OtherBuild { version } => write!(
                f,
                "it has version {version} of the interface, and this program has {ABI_VERSION}: the two are of \
                 different builds"
            ),
            PluginError::OtherTorch { built, running } => write!(
                f,
                "it was built with libtorch {}, and found {}",
                version_text(built),
                version_text(running)
            ),
        }
    }
}

impl Error for PluginError {}

pub(crate) type Result<T> = std::result::Result<T, TorchFailure>;

impl Plugin {
    /// Opens the plugin in that file, and with it the libtorch that it was linked against.
    ///
    /// # Errors
    /// Text of the loader, or how interface or libtorch differ from what they should be.
    pub(crate) fn open(path: &Path) -> std::result::Result<Plugin, PluginError> {
        let name: &OsStr = path.as_os_str();
        // SAFETY: opening runs the initialisers of the plugin and of libtorch, which only register
        // things within themselves. A file of another origin was put into the plugin's place by
        // somebody who could replace this program, too.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
        // What is wrong is said one level down: the error itself is "dlopen failed".
        let library = library.map_err(|error| match error.source() {
            Some(inner) => PluginError::Loader(inner.to_string()),
            None => PluginError::Loader(error.to_string()),
        })?;
        // SAFETY: the symbol is read as what its name promises; the table's first field says whether
        // that holds.
        let entry = unsafe { library.get::<Entry>(ENTRY.to_bytes_with_nul()) };
        let entry = entry.map_err(|_| PluginError::NoPlugin)?;
        // SAFETY: the function takes nothing, and returns a table that lives as long as the library.
        let table = unsafe { entry() };
        if table.is_null() {
            return Err(PluginError::NoFunctions);
        }
        // SAFETY: in every version of the interface the table begins with this number.
        let version = unsafe { table.cast::<u32>().read() };
        if version != ABI_VERSION {
            return Err(PluginError::OtherBuild { version });
        }
        // Never closed: what libtorch started would run on without its code.
        std::mem::forget(library);
        // SAFETY: a table of this version has this layout, is never written to, and stays where it is.
        let table = unsafe { &*table };
        // SAFETY: the two take nothing, and may be called first.
        let (built, running) = unsafe { ((table.built_with)(), (table.running_with)()) };
        if torch_version(built) != torch_version(running) {
            return Err(PluginError::OtherTorch { built, running });
        }
        // SAFETY: takes nothing; no module has been loaded.
        unsafe { (table.open_cuda)() };
        Ok(Plugin { table })
    }

    /// The version of libtorch, for example `2.13.0`.
    pub(crate) fn torch(self) -> String {
        // SAFETY: the function takes nothing.
        version_text(unsafe { (self.table.running_with)() })
    }

    /// Number of GPUs that CUDA sees; fails where CUDA cannot be used.
    pub(crate) fn gpu_count(self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the plugin writes the number to where it may.
        let failure = unsafe { (self.table.gpu_count)(&raw mut count) };
        self.check(failure).map(|()| count)
    }

    /// Sets the threads among operators for the whole process; works once.
    pub(crate) fn set_interop_threads(self, threads: u32) -> Result<()> {
        // SAFETY: takes any number.
        self.check(unsafe { (self.table.set_interop_threads)(threads) })
    }

    /// Sets the process's switches that are not -1, and returns what they were.
    pub(crate) fn switch(self, wanted: Switches) -> Switches {
        // SAFETY: takes any value.
        unsafe { (self.table.switch)(wanted) }
    }

    /// The failure behind the pointer, which is given back.
    pub(super) fn check(self, failure: *mut pytorch_abi::Failure) -> Result<()> {
        if failure.is_null() {
            return Ok(());
        }
        // SAFETY: a failure that was returned is ours to read until it is given back, which comes after.
        let (kind, text) = unsafe { ((*failure).kind, text((*failure).text)) };
        // SAFETY: it came from this plugin, and is given back once.
        unsafe { (self.table.free_failure)(failure) };
        Err(TorchFailure { out_of_memory: kind == pytorch_abi::OUT_OF_MEMORY, text })
    }
}

fn version_text(number: u64) -> String {
    let (major, minor, patch) = torch_version(number);
    format!("{major}.{minor}.{patch}")
}

/// A text of the plugin, which need not be UTF-8.
///
/// # Safety
/// The text is valid now.
pub(super) unsafe fn text(text: Text) -> String {
    if text.length == 0 {
        return String::new();
    }
    // SAFETY: the caller says that the bytes are there.
    let bytes = unsafe { std::slice::from_raw_parts(text.begin, text.length) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The slice that begins there.
///
/// # Safety
/// So many elements are there for as long as `'a`; `begin` may be null where there are none.
pub(super) unsafe fn slice<'a, T>(begin: *const T, length: usize) -> &'a [T] {
    match length {
        0 => &[],
        // SAFETY: the caller says so.
        _ => unsafe { std::slice::from_raw_parts(begin, length) },
    }
}

/// A text that the plugin reads during a call.
pub(super) fn lent(text: &[u8]) -> Text {
    Text { begin: text.as_ptr(), length: text.len() }
}
