//! The table of sessions with its lock and its clocks, and where their ids come from.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use ring::rand::{SecureRandom, SystemRandom};

use crate::hosting::sessions::open::{Bounds, Full, Session, Sessions, Used};
use inference::{error::Error, request::SequenceId};
use models::{ModelManager, ServedModel};
use protocol::sagemaker::session;

/// The sessions of a server.
pub struct SessionTable {
    /// Held for a look or a change.
    sessions: Mutex<Sessions>,
    random: SystemRandom,
    bounds: Bounds,
    /// Sets the numbers of sequences apart from those that clients choose.
    salt: u32,
}

impl SessionTable {
    /// An empty one for so many sessions, each of which lives so long.
    pub fn new(life: Duration, most: usize) -> SessionTable {
        let (random, mut salt) = (SystemRandom::new(), [0; 4]);
        // Where there is no randomness no session will be opened either.
        let _ = random.fill(&mut salt);
        let bounds = Bounds { life, most };
        let sessions = Mutex::new(Sessions::new(bounds));
        SessionTable { sessions, random, bounds, salt: u32::from_ne_bytes(salt) }
    }

    /// Opens a session on that model. Its id, and what the header of the reply says of it.
    ///
    /// # Errors
    /// [`Error::SessionFailed`] where there are too many, or there is no randomness for an id.
    pub fn open(&self, models: &ModelManager, model: &ServedModel) -> Result<String, Error> {
        let id = self.id()?;
        let mut sessions = self.current(models);
        let text = SequenceId::Text(Arc::from(&*id));
        let sequence = match model.takes_sequence(&text) {
            true => text,
            false => SequenceId::Number(sessions.number(self.salt)),
        };
        let (name, version) = (model.signature.model.clone(), model.signature.version);
        let session = Session { model: name, version, sequence };
        sessions.open(&id, session, Instant::now()).map_err(|Full(most)| {
            Error::SessionFailed(format!(
                "{most} sessions are open, and no more allowed (--max-sessions); close one, or wait until one ends"
            ))
        })?;
        let end = SystemTime::now() + self.bounds.life;
        let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(session::opened(&id, end.as_secs()))
    }

    /// The session of that id, which is used now.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where there is none, or its time is over.
    pub fn find(&self, models: &ModelManager, id: &str) -> Result<Used, Error> {
        self.current(models).find(id, Instant::now()).ok_or_else(|| self.unknown(id))
    }

    /// The first use of that session came to nothing.
    pub fn forget_use(&self, id: &str) {
        self.lock().forget_use(id);
    }

    /// Closes the session of that id. Its sequence ends when its requests are answered.
    ///
    /// # Errors
    /// Those of [`SessionTable::find`].
    pub fn close(&self, models: &ModelManager, id: &str) -> Result<(), Error> {
        let closed = self.current(models).close(id, Instant::now());
        leave(models, &closed.ok_or_else(|| self.unknown(id))?);
        Ok(())
    }

    /// The table without those whose time is over.
    fn current(&self, models: &ModelManager) -> MutexGuard<'_, Sessions> {
        let mut sessions = self.lock();
        let expired = sessions.expire(Instant::now());
        if !expired.is_empty() {
            // The lock is released meanwhile: schedulers have locks of their own.
            drop(sessions);
            expired.iter().for_each(|it| leave(models, it));
            sessions = self.lock();
        }
        sessions
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        // Nothing that panics runs under this lock; if it did, the data would still be whole.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id that nobody can guess: whoever knows it has the session.
    fn id(&self) -> Result<String, Error> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).map_err(|_| {
            Error::SessionFailed("the system has no randomness for the id of a session".to_owned())
        })?;
        Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
    }

    fn unknown(&self, id: &str) -> Error {
        Error::InvalidRequest(format!(
            "there is no open session '{}': it was never opened, or closed, or is older than {} seconds (--session-ttl)",
            id.chars().take(64).collect::<String>(),
            self.bounds.life.as_secs()
        ))
    }
}

/// A session is over: so is its sequence. A model that is gone has none.
fn leave(models: &ModelManager, session: &Session) {
    if let Ok(model) = models.get(&session.model, Some(session.version)) {
        model.leave_sequence(&session.sequence);
    }
}
