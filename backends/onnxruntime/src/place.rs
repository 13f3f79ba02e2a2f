//! The sessions of a model on one device.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use backend::{BackendError, Device, Placement};

use crate::{
    error,
    held::InMemory,
    library::Runtime,
    native::{self, Session, Source},
    options::Settings,
    provider::{Kind, ONE_STREAM, Provider},
};

/// A device on which a model has instances, and where they get their sessions from.
pub(crate) struct DeviceSessions {
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    sessions: Sessions,
}

/// Which instances run which session.
enum Sessions {
    /// There is one, which all instances on the device run: the weights are there once.
    /// `None` until the first one asks. Guards the making: two would be one too many.
    Shared(Mutex<Option<Arc<Session>>>),
    /// Each instance has its own. This is the session from which the spec was read, until the first instance takes it.
    Own(Mutex<Option<Session>>),
}

/// Whether instances share a session, where that is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    /// One session, so that they are there once.
    Shared,
    /// One session each, which runs faster where the model is tiny.
    Own,
}

impl DeviceSessions {
    /// A place without a session yet. `settings` are those of one instance there.
    pub(crate) fn new(
        placement: Placement,
        settings: Settings,
        weights: Weights,
    ) -> DeviceSessions {
        let Placement { device, instances } = placement;
        let settings = match (weights, device) {
            (Weights::Shared, Device::Cpu) => settings.shared_by(instances),
            // On a GPU the processors only help out.
            (Weights::Own, _) | (_, Device::Gpu(_)) => settings,
        };
        let sessions = match weights {
            Weights::Shared if runs_side_by_side(&settings.providers) => {
                Sessions::Shared(Mutex::new(None))
            }
            Weights::Shared | Weights::Own => Sessions::Own(Mutex::new(None)),
        };
        DeviceSessions { device, settings, sessions }
    }

    /// Gives it a session that was made with its settings.
    pub(crate) fn put(&self, session: Session) {
        match &self.sessions {
            Sessions::Shared(shared) => *lock(shared) = Some(Arc::new(session)),
            Sessions::Own(first) => *lock(first) = Some(session),
        }
    }

    /// A session for one more instance; `make` makes one where there is none to be had. Blocking.
    pub(crate) fn session(
        &self,
        make: impl FnOnce() -> Result<Session, BackendError>,
    ) -> Result<Arc<Session>, BackendError> {
        match &self.sessions {
            Sessions::Shared(shared) => {
                let mut shared = lock(shared);
                let session = match &*shared {
                    Some(session) => session.clone(),
                    None => Arc::new(make()?),
                };
                Ok(shared.insert(session).clone())
            }
            Sessions::Own(first) => {
                let first = lock(first).take();
                Ok(Arc::new(first.map_or_else(make, Ok)?))
            }
        }
    }
}

/// May several threads run one session at a time, and gain by it?
///
/// On the CPU and with CUDA they may: each run has a stream of the GPU to itself. TensorRT's provider lets
/// one run in at a time, and with a single stream one would wait for the other.
fn runs_side_by_side(providers: &[Provider]) -> bool {
    providers.iter().all(|it| {
        it.kind == Kind::Cuda && it.options.get(ONE_STREAM).is_none_or(|value| value == "0")
    })
}

/// Nothing is half done where a lock was held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Can sessions be made with these providers here?
///
/// # Errors
/// [`BackendError::Device`] where the GPU's libraries or driver are missing, naming what.
pub(crate) fn check_providers(
    runtime: &Runtime,
    providers: &[Provider],
) -> Result<(), BackendError> {
    // From the last one on: CUDA is what TensorRT needs, too.
    providers.iter().rev().try_for_each(|provider| {
        native::probe(&runtime.native, provider)
            .map_err(|it| error::of_provider(provider.kind, &runtime.path, it.message()))
    })
}

/// A session of the model in that file, from this source, with these weights. Blocking.
pub(crate) fn open(
    runtime: &Arc<Runtime>,
    path: &Path,
    source: Source<'_>,
    weights: InMemory<'_>,
    settings: &Settings,
) -> Result<Session, BackendError> {
    Session::new(runtime, path, source, weights, settings).map_err(|error| {
        match settings.providers.is_empty() {
            true => error::of_load(path, &error),
            false => error::of_load_on_gpu(path, &error),
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use std::{collections::BTreeMap, num::NonZeroUsize};

    use backend::{Accelerator, ModelSource};

    use super::*;
    use crate::provider::providers;

    fn shares(name: &str, parameters: &[(&str, &str)]) -> bool {
        let parameters = parameters.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let accelerator = Accelerator { name: name.to_owned(), parameters: parameters.collect() };
        runs_side_by_side(&providers(&BTreeMap::new(), &[accelerator]).unwrap())
    }

    #[test]
    fn the_pool_of_a_shared_session_is_that_of_the_instances_on_its_device() {
        let number = |it| NonZeroUsize::new(it).unwrap();
        let placement = |device, count| Placement { device, instances: number(count) };
        let source = ModelSource {
            default_threads: number(4),
            placements: vec![placement(Device::Gpu(0), 8), placement(Device::Cpu, 2)],
            ..ModelSource::new("m", "m.onnx")
        };
        let threads = |index: usize, weights| {
            let placement = source.placements[index];
            let settings = Settings::of(&source, placement.device).unwrap();
            DeviceSessions::new(placement, settings, weights).settings.intra_threads
        };
        // Two that bring three helpers each, and whoever calls.
        assert_eq!((threads(1, Weights::Shared), threads(1, Weights::Own)), (7, 4));
        assert_eq!(threads(0, Weights::Shared), 1);
    }

    #[test]
    fn instances_share_a_session_where_runs_do_not_wait_for_each_other() {
        assert!(runs_side_by_side(&[]));
        assert!(shares("cuda", &[]) && shares("cuda", &[(ONE_STREAM, "0")]));
        assert!(!shares("cuda", &[(ONE_STREAM, "1")]));
        assert!(!shares("tensorrt", &[]));
    }
}
