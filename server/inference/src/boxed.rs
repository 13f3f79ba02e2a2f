//! Futures behind a pointer.

use std::pin::Pin;

/// A future on the heap. It is returned by functions that are not `async` where its code shall be made once, with the
/// crate of that function: the compiler makes the code of an `async` block anew wherever it is awaited, in each unit of
/// each crate. It also keeps large futures of rare requests out of the others'.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
