//! A family of clients over gRPC, and lists of such families.

use h2::RecvStream;

use super::context::{Answered, Context, Facts};
use crate::{either::Either, exchange::Failure};

/// The gRPC services of one family of clients: their methods, and the answers. Its methods are called statically.
/// What answers calls is a [`inference::boxed::BoxFuture`] that the crate of the family makes.
pub trait Services: Clone + Send + Sync + 'static {
    /// A method of one of them.
    type Method: Copy + std::fmt::Debug + Send + Sync + 'static;

    /// The method of that path; `None` where it is not of these services.
    fn method(&self, path: &str) -> Option<Self::Method>;

    /// Every path.
    fn paths(&self) -> impl Iterator<Item = &'static str>;

    /// What is known of a method before its messages are read.
    fn facts(&self, method: Self::Method) -> Facts;

    /// Answers a call that its client may make.
    fn answer(
        &self,
        method: Self::Method,
        context: Context,
        body: RecvStream,
    ) -> impl Future<Output = Result<Answered, Failure>> + Send;
}

/// A list of families is a pair of its first one and the list of the others.
impl<A: Services, B: Services> Services for (A, B) {
    type Method = Either<A::Method, B::Method>;

    fn method(&self, path: &str) -> Option<Self::Method> {
        match self.0.method(path) {
            Some(method) => Some(Either::First(method)),
            None => self.1.method(path).map(Either::Other),
        }
    }

    fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.0.paths().chain(self.1.paths())
    }

    fn facts(&self, method: Self::Method) -> Facts {
        match method {
            Either::First(method) => self.0.facts(method),
            Either::Other(method) => self.1.facts(method),
        }
    }

    // An `async fn` would copy its parameters once more, which are large.
    #[allow(clippy::manual_async_fn)]
    fn answer(
        &self,
        method: Self::Method,
        context: Context,
        body: RecvStream,
    ) -> impl Future<Output = Result<Answered, Failure>> + Send {
        async move {
            match method {
                Either::First(method) => self.0.answer(method, context, body).await,
                Either::Other(method) => self.1.answer(method, context, body).await,
            }
        }
    }
}

/// The end of a list, and what stands for services that were left out of the build: they have no method.
impl Services for () {
    type Method = std::convert::Infallible;

    fn method(&self, _: &str) -> Option<Self::Method> {
        None
    }

    fn paths(&self) -> impl Iterator<Item = &'static str> {
        std::iter::empty()
    }

    fn facts(&self, method: Self::Method) -> Facts {
        match method {}
    }

    async fn answer(
        &self,
        method: Self::Method,
        _: Context,
        _: RecvStream,
    ) -> Result<Answered, Failure> {
        match method {}
    }
}
