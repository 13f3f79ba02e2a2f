//! What a model's own code says of whether it can serve.

use std::{sync::Arc, time::Instant};

use backend::Model;
use tokio::sync::Mutex;

/// Asks it, once at a time. Whoever comes while it is asked hears the same.
#[derive(Debug, Clone, Default)]
pub struct OwnReadiness {
    /// The last answer. Held while the model is asked.
    last: Arc<Mutex<Option<Told>>>,
}

#[derive(Debug)]
struct Told {
    /// When it was there.
    at: Instant,
    answer: Result<(), String>,
}

impl OwnReadiness {
    /// Asks the code of that model, if it has something to say.
    ///
    /// # Errors
    /// Why the model cannot serve; a sentence.
    ///
    /// # Cancel safety
    /// The model is asked to the end, and whoever waits for that hears what it says.
    pub async fn ask(&self, model: &Arc<dyn Model>) -> Result<(), String> {
        if !model.tells_readiness() {
            return Ok(());
        }
        let came = Instant::now();
        let mut last = self.last.clone().lock_owned().await;
        if let Some(told) = last.as_ref().filter(|it| came <= it.at) {
            return told.answer.clone();
        }
        let model = model.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let answer = model.own_readiness();
            *last = Some(Told { at: Instant::now(), answer: answer.clone() });
            answer
        });
        asked.await.unwrap_or_else(|it| Err(it.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
        thread,
        time::Duration,
    };

    use backend::{BackendError, Device, Instance, ModelSpec};

    use super::*;

    /// Takes a while to say no, and counts how often it was asked.
    struct Slow {
        tells: bool,
        asked: AtomicUsize,
    }

    impl Model for Slow {
        fn spec(&self) -> Option<&ModelSpec> {
            None
        }

        fn tells_readiness(&self) -> bool {
            self.tells
        }

        fn own_readiness(&self) -> Result<(), String> {
            thread::sleep(Duration::from_millis(100));
            self.asked.fetch_add(1, Relaxed);
            Err("no".to_owned())
        }

        fn instantiate(&self, _: Device) -> Result<Box<dyn Instance>, BackendError> {
            Err(BackendError::Load("none".to_owned()))
        }
    }

    #[tokio::test]
    async fn those_who_ask_at_once_hear_one_answer_and_those_who_ask_later_another() {
        let slow = Arc::new(Slow { tells: true, asked: AtomicUsize::new(0) });
        let (model, readiness): (Arc<dyn Model>, _) = (slow.clone(), OwnReadiness::default());
        let no = Err("no".to_owned());
        let both = tokio::join!(readiness.ask(&model), readiness.ask(&model));
        assert_eq!((both, slow.asked.load(Relaxed)), ((no.clone(), no.clone()), 1));
        assert_eq!((readiness.ask(&model).await, slow.asked.load(Relaxed)), (no, 2));
    }

    #[tokio::test]
    async fn a_model_that_says_nothing_is_not_asked() {
        let slow = Arc::new(Slow { tells: false, asked: AtomicUsize::new(0) });
        let model: Arc<dyn Model> = slow.clone();
        assert_eq!(OwnReadiness::default().ask(&model).await, Ok(()));
        assert_eq!(slow.asked.load(Relaxed), 0);
    }
}
