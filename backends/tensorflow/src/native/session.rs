//! A session: made from the folder of a SavedModel, run by several threads at once.

use std::{
    ffi::{CString, c_char},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::{self, NonNull},
    sync::Arc,
    time::Duration,
};

use backend::Tensor;
use prost::Message;
use smallvec::SmallVec;

use super::{
    status::{CallError, Status},
    table::{Table, TfBuffer, TfGraph, TfOutput, TfSession, TfTensor},
    tensor::{Value, count},
};

/// As many inputs or outputs go without an allocation.
type Few<T> = SmallVec<[T; 8]>;

/// A loaded graph with its variables.
pub(crate) struct Session {
    session: NonNull<TfSession>,
    graph: Graph,
    table: Arc<Table>,
}

// SAFETY: a session belongs to no thread.
unsafe impl Send for Session {}
// SAFETY: through `&Session` it is run, which TensorFlow allows from several threads at once, and its graph is read.
unsafe impl Sync for Session {}

/// Where a tensor enters or leaves the graph. It goes with the session that made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint(TfOutput);

// SAFETY: the operation that it points to belongs to no thread, and is only named.
unsafe impl Send for Endpoint {}
// SAFETY: the same.
unsafe impl Sync for Endpoint {}

/// The field of `RunOptions` of `config.proto` that is set.
#[derive(Clone, PartialEq, Message)]
struct RunOptions {
    #[prost(int64, tag = "2")]
    timeout_in_ms: i64,
}

/// From 1, as 0 stands for any time.
fn milliseconds(limit: Duration) -> i64 {
    i64::try_from(limit.as_millis()).unwrap_or(i64::MAX).saturating_add(1)
}

impl Session {
    /// Loads the graph of those tags from `folder`, with its variables, and runs its initialiser. Blocking.
    ///
    /// `config`: a serialized `ConfigProto`.
    ///
    /// # Errors
    /// TensorFlow's: no such file or tags, an operator that it does not have, variables that cannot be read.
    pub(crate) fn load(
        table: &Arc<Table>,
        folder: &Path,
        tags: &[String],
        config: &[u8],
    ) -> Result<Session, CallError> {
        let text = |it: &[u8]| CString::new(it).map_err(|_| CallError::ours("a name holds a NUL"));
        let folder = text(folder.as_os_str().as_bytes())?;
        let tags = tags.iter().map(|it| text(it.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let tags: Vec<*const c_char> = tags.iter().map(|it| it.as_ptr()).collect();
        let status = Status::new(table);
        let graph = Graph::new(table)?;
        // SAFETY: the options live until they are deleted below, the configuration is copied, folder and tags end
        // with NULs and are alive, and the graph is empty.
        let session = unsafe {
            let options = (table.new_session_options)();
            (table.set_config)(options, config.as_ptr().cast(), config.len(), status.pointer());
            let session = match status.check() {
                Err(_) => ptr::null_mut(),
                Ok(()) => (table.load_session)(
                    options,
                    ptr::null(),
                    folder.as_ptr(),
                    tags.as_ptr(),
                    count(tags.len()),
                    graph.pointer.as_ptr(),
                    ptr::null_mut(),
                    status.pointer(),
                ),
            };
            (table.delete_session_options)(options);
            session
        };
        status.check()?;
        let session =
            NonNull::new(session).ok_or_else(|| CallError::ours("there is no session"))?;
        Ok(Session { session, graph, table: table.clone() })
    }

    /// The output `name` of the graph, as signatures write it: `operation:number`, or `operation` for the first.
    pub(crate) fn endpoint(&self, name: &str) -> Option<Endpoint> {
        let (operation, index) = match name.rsplit_once(':') {
            Some((operation, index)) => (operation, index.parse().ok()?),
            None => (name, 0),
        };
        let operation = CString::new(operation).ok()?;
        // SAFETY: the graph is alive and the name ends with a NUL; null where there is no such operation.
        let operation = unsafe {
            (self.table.operation_by_name)(self.graph.pointer.as_ptr(), operation.as_ptr())
        };
        // SAFETY: the operation is one of the graph's.
        let exists = !operation.is_null()
            && (0..unsafe { (self.table.operation_outputs)(operation) }).contains(&index);
        exists.then_some(Endpoint(TfOutput { operation, index }))
    }

    /// Runs the graph: one tensor for each of `fetches`, copied from where TensorFlow made it, as a later run may write
    /// there again: an output may be a variable.
    ///
    /// After `limit` it ends at the next node.
    ///
    /// # Errors
    /// TensorFlow's, and an output of a type that cannot be served.
    pub(crate) fn run(
        &self,
        feeds: &[(Endpoint, &Tensor)],
        fetches: &[Endpoint],
        limit: Option<Duration>,
    ) -> Result<Vec<Tensor>, CallError> {
        let options =
            limit.map(|it| RunOptions { timeout_in_ms: milliseconds(it) }.encode_to_vec());
        let options = options.as_ref().map(|it| TfBuffer {
            data: it.as_ptr().cast(),
            length: it.len(),
            deallocator: None,
        });
        let values = feeds.iter().map(|(_, tensor)| Value::of(&self.table, tensor));
        let values: Few<Value> = values.collect::<Result<_, _>>()?;
        let inputs: Few<TfOutput> = feeds.iter().map(|(endpoint, _)| endpoint.0).collect();
        let tensors: Few<*mut TfTensor> = values.iter().map(Value::pointer).collect();
        let outputs: Few<TfOutput> = fetches.iter().map(|it| it.0).collect();
        let mut results: Few<*mut TfTensor> = fetches.iter().map(|_| ptr::null_mut()).collect();
        let status = Status::new(&self.table);
        // SAFETY: session, options and values are alive, endpoints are of this session's graph, lists that belong
        // together are of one length, and `results` is of nulls.
        unsafe {
            (self.table.run)(
                self.session.as_ptr(),
                options.as_ref().map_or(ptr::null(), ptr::from_ref),
                inputs.as_ptr(),
                tensors.as_ptr(),
                count(inputs.len()),
                outputs.as_ptr(),
                results.as_mut_ptr(),
                count(outputs.len()),
                ptr::null(),
                0,
                ptr::null_mut(),
                status.pointer(),
            );
        }
        // SAFETY: the run has made them and nobody else has them. A failed run leaves nulls.
        let own = |it| unsafe { Value::owned(&self.table, it) };
        let results: Few<Option<Value>> = results.into_iter().map(own).collect();
        status.check()?;
        let tensor = |it: Option<Value>| match it {
            Some(value) => value.to_tensor(),
            None => Err(CallError::ours("the graph gave no tensor for an output")),
        };
        results.into_iter().map(tensor).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let status = Status::new(&self.table);
        // SAFETY: made by `load`, closed and deleted once, while no run is on: runs borrow the session. What the
        // status says cannot be acted on; the memory is given back in any case.
        unsafe {
            (self.table.close_session)(self.session.as_ptr(), status.pointer());
            (self.table.delete_session)(self.session.as_ptr(), status.pointer());
        }
    }
}

/// The operations of a session; it outlives the session.
struct Graph {
    pointer: NonNull<TfGraph>,
    table: Arc<Table>,
}

impl Graph {
    fn new(table: &Arc<Table>) -> Result<Graph, CallError> {
        // SAFETY: the function takes nothing.
        let pointer = NonNull::new(unsafe { (table.new_graph)() });
        let pointer = pointer.ok_or_else(|| CallError::ours("there is no memory for a graph"))?;
        Ok(Graph { pointer, table: table.clone() })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `new`, deleted once; TensorFlow keeps it while a session of it lives.
        unsafe { (self.table.delete_graph)(self.pointer.as_ptr()) };
    }
}
