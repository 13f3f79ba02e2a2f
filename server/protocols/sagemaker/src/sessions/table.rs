//! The locked table of sessions, with the clock and the source of ids.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use ring::rand::{SecureRandom, SystemRandom};

use crate::{
    codec::invocations::session,
    sessions::open::{Bounds, Full, Session, Sessions, Used},
};
use inference::{error::Error, request::SequenceId};
use serving::{ModelManager, ServedModel};

/// The sessions of a server.
pub struct SessionTable {
    /// Guards the open sessions. Held for a look or a change, never while a model is called.
    sessions: Mutex<Sessions>,
    random: SystemRandom,
    bounds: Bounds,
    /// Makes the numbers of sequences differ from those that clients choose.
    salt: u32,
}

impl SessionTable {
    /// An empty table for at most `most` sessions, each of which lives for `life`.
    pub fn new(life: Duration, most: usize) -> SessionTable {
        let (random, mut salt) = (SystemRandom::new(), [0; 4]);
        // Without randomness no session can be opened, so a salt of zeros does no harm.
        let _ = random.fill(&mut salt);
        let bounds = Bounds { life, most };
        let sessions = Mutex::new(Sessions::new(bounds));
        SessionTable { sessions, random, bounds, salt: u32::from_ne_bytes(salt) }
    }

    /// Opens a session on that model, and returns its id.
    ///
    /// # Errors
    /// [`Error::SessionFailed`] where too many are open, or the system has no randomness for an id.
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

    /// Uses the session of that id for a request to that model.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where none is open, or its time is over.
    pub fn find(&self, models: &ModelManager, id: &str, model: &str) -> Result<Used, Error> {
        let used = self.current(models).find(id, model, Instant::now());
        used.ok_or_else(|| self.unknown(id))
    }

    /// The first request of the session began no sequence.
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

    /// The table without the sessions whose time is over.
    fn current(&self, models: &ModelManager) -> MutexGuard<'_, Sessions> {
        let mut sessions = self.lock();
        let expired = sessions.expire(Instant::now());
        if !expired.is_empty() {
            // The lock is released meanwhile, because schedulers have locks of their own.
            drop(sessions);
            expired.iter().for_each(|it| leave(models, it));
            sessions = self.lock();
        }
        sessions
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        // Code under this lock does not panic; even after a panic the data would be whole.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new id, which is unguessable because it is the only key to the session.
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

/// Ends the sequence of a session that is over. A model that is unloaded has no sequence.
fn leave(models: &ModelManager, session: &Session) {
    if let Ok(model) = models.get(&session.model, Some(session.version)) {
        model.leave_sequence(&session.sequence);
    }
}
