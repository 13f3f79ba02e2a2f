//! The open sessions, each with its model and its end. Pure: ids and the time come from outside.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use inference::request::SequenceId;

/// Most letters of an id; the platform's limit.
const LONGEST_ID: usize = 256;

/// How many sessions there may be, and how long each lives.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The time from the opening to the end, whatever the use.
    pub life: Duration,
    /// Most sessions that are open at the same time.
    pub most: usize,
}

/// The data of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Name of its model.
    pub model: Arc<str>,
    /// The model's version when the session was opened.
    pub version: u64,
    /// The id of the sequence that the model sees.
    pub sequence: SequenceId,
}

/// A session that a request uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// The session.
    pub session: Session,
    /// Is this its first request?
    pub is_first: bool,
}

/// That many sessions are open, and no more may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full(pub usize);

struct SessionEntry {
    id: Arc<str>,
    session: Session,
    ends: Instant,
    is_begun: bool,
}

/// The sessions of a server.
pub struct Sessions {
    bounds: Bounds,
    /// In the order of opening, which is also the order of their ends: all live equally long.
    entries: BTreeMap<u64, SessionEntry>,
    by_id: HashMap<Arc<str>, u64>,
    next: u64,
}

impl Sessions {
    /// An empty table.
    pub fn new(bounds: Bounds) -> Sessions {
        Sessions { bounds, entries: BTreeMap::new(), by_id: HashMap::new(), next: 0 }
    }

    /// Opens a session under an id that is new.
    ///
    /// # Errors
    /// [`Full`].
    pub fn open(&mut self, id: &str, session: Session, now: Instant) -> Result<(), Full> {
        if self.bounds.most <= self.entries.len() {
            return Err(Full(self.bounds.most));
        }
        let (id, number) = (Arc::<str>::from(id), self.next);
        self.next += 1;
        self.by_id.insert(id.clone(), number);
        let ends = now + self.bounds.life;
        self.entries.insert(number, SessionEntry { id, session, ends, is_begun: false });
        Ok(())
    }

    /// A number for the sequence of the next session, for models that identify sequences by number. No other session
    /// has it, and every integer type can hold it. `salt` makes it differ from the numbers of another server, and
    /// from those that clients choose.
    pub fn number(&self, salt: u32) -> u64 {
        const MOST: u64 = i32::MAX as u64;
        1 + (u64::from(salt) + self.next) % MOST
    }

    /// Uses the session of that id for a request to that model; `None` where none is open, or its time is over. A
    /// request to another model than the session's is not its first.
    pub fn find(&mut self, id: &str, model: &str, now: Instant) -> Option<Used> {
        let entry = self.entries.get_mut(self.by_id.get(id)?)?;
        if entry.ends <= now {
            return None;
        }
        let is_own = *entry.session.model == *model;
        let is_first = is_own && !std::mem::replace(&mut entry.is_begun, true);
        Some(Used { session: entry.session.clone(), is_first })
    }

    /// The first request of the session began no sequence: the next request counts as the first.
    pub fn forget_use(&mut self, id: &str) {
        let entry = self.by_id.get(id).and_then(|it| self.entries.get_mut(it));
        if let Some(entry) = entry {
            entry.is_begun = false;
        }
    }

    /// Closes the session of that id; `None` where none is open, or its time is over.
    pub fn close(&mut self, id: &str, now: Instant) -> Option<Session> {
        let number = *self.by_id.get(id)?;
        self.entries.get(&number).filter(|it| now < it.ends)?;
        self.by_id.remove(id);
        self.entries.remove(&number).map(|it| it.session)
    }

    /// Removes the sessions whose time is over. Cheap where there are none.
    pub fn expire(&mut self, now: Instant) -> Vec<Session> {
        let mut expired = Vec::new();
        while let Some(first) = self.entries.first_entry().filter(|it| it.get().ends <= now) {
            let SessionEntry { id, session, .. } = first.remove();
            self.by_id.remove(&id);
            expired.push(session);
        }
        expired
    }
}

/// Can that be the id of a session: letters and digits of ASCII, with dashes between them?
pub fn is_id(text: &str) -> bool {
    let all = text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    let ends = [text.bytes().next(), text.bytes().next_back()];
    let are_good = ends.iter().all(|it| it.is_some_and(|it| it.is_ascii_alphanumeric()));
    all && are_good && text.len() <= LONGEST_ID
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sessions(most: usize) -> (Sessions, Instant) {
        (Sessions::new(Bounds { life: 10 * SECOND, most }), Instant::now())
    }

    fn session(number: u64) -> Session {
        Session { model: "m".into(), version: 1, sequence: SequenceId::Number(number) }
    }

    #[test]
    fn a_session_is_found_until_it_is_closed_and_begins_once() {
        let (mut sessions, now) = sessions(2);
        assert_eq!(sessions.open("a", session(1), now), Ok(()));
        let used = |is_first| Some(Used { session: session(1), is_first });
        assert_eq!(sessions.find("a", "other", now), used(false));
        assert_eq!(sessions.find("a", "m", now), used(true));
        assert_eq!(sessions.find("a", "m", now), used(false));
        sessions.forget_use("a");
        assert_eq!(sessions.find("a", "m", now), used(true));
        assert_eq!(sessions.find("b", "m", now), None);
        assert_eq!(sessions.close("a", now), Some(session(1)));
        assert_eq!(sessions.close("a", now), None);
        assert_eq!(sessions.find("a", "m", now), None);
    }

    #[test]
    fn a_session_ends_with_its_time_however_it_is_used() {
        let (mut sessions, start) = sessions(9);
        sessions.open("a", session(1), start).unwrap();
        sessions.open("b", session(2), start + SECOND).unwrap();
        assert!(sessions.find("a", "m", start + 9 * SECOND).is_some());
        assert_eq!(sessions.expire(start + 9 * SECOND), []);
        let end = start + 10 * SECOND;
        assert_eq!(sessions.find("a", "m", end), None);
        assert_eq!(sessions.close("a", end), None);
        assert_eq!(sessions.expire(end), [session(1)]);
        assert!(sessions.find("b", "m", end).is_some());
        assert_eq!(sessions.expire(end + SECOND), [session(2)]);
        assert!(sessions.by_id.is_empty());
    }

    #[test]
    fn there_are_only_so_many_and_a_closed_one_makes_room() {
        let (mut sessions, now) = sessions(1);
        sessions.open("a", session(1), now).unwrap();
        assert_eq!(sessions.open("b", session(2), now), Err(Full(1)));
        sessions.close("a", now).unwrap();
        assert_eq!(sessions.open("b", session(2), now), Ok(()));
    }

    #[test]
    fn numbers_fit_every_integer_type_and_are_never_zero() {
        let (mut sessions, now) = sessions(9);
        let first = sessions.number(u32::MAX);
        assert!((1..=i32::MAX as u64).contains(&first));
        assert_eq!(sessions.number(0), 1);
        sessions.open("a", session(1), now).unwrap();
        assert_eq!(sessions.number(0), 2);
        assert_eq!(sessions.number(i32::MAX as u32 - 1), 1);
    }

    #[test]
    fn ids_are_letters_and_digits_with_dashes_between_them() {
        for good in ["a", "Z9", "a-b", "a--b", "0123-abc", &"a".repeat(256)] {
            assert!(is_id(good), "{good}");
        }
        for bad in ["", "-", "-a", "a-", "a_b", "a b", "ä", "a;", &"a".repeat(257)] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
