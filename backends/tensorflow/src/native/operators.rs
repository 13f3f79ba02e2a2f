//! Libraries with further operators.

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

use super::{
    status::{CallError, Status},
    table::Table,
};

/// Makes the operators of that library known to all sessions of the process, for ever. Blocking. Those of one that has
/// been loaded before are known already.
///
/// # Errors
/// TensorFlow's: no such file, no library, or one that was built for another TensorFlow.
pub(crate) fn load_operators(table: &Arc<Table>, path: &Path) -> Result<(), CallError> {
    let path = CString::new(path.as_os_str().as_bytes());
    let path = path.map_err(|_| CallError::ours("a name holds a NUL"))?;
    let status = Status::new(table);
    // SAFETY: the path ends with a NUL. The library's initialisers are its own; that they may run is the operator's
    // decision, who has configured it. Deleting the handle leaves the library loaded.
    unsafe {
        let handle = (table.load_library)(path.as_ptr(), status.pointer());
        if !handle.is_null() {
            (table.delete_library)(handle);
        }
    }
    status.check()
}
