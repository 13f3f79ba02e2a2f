//! Which sequences have a seat, which wait for one, and what each still has to run. Plain data, the time comes from
//! outside; locks and threads are elsewhere.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use backend::Tensor;

use inference::request::{Sequence as Asked, SequenceId};

/// The number of a sequence; never used again. The same id may begin another sequence once it has ended.
pub type Number = u64;

/// Where a sequence runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// Which instance.
    pub instance: usize,
    /// Which of its seats; a row of its batches under the direct strategy.
    pub row: usize,
}

/// What one run of a sequence leaves for the next.
#[derive(Debug, Clone)]
pub struct CarriedState {
    /// One for each state of the model, in its order.
    pub tensors: Vec<Tensor>,
    /// A hash of their shapes.
    pub key: u64,
}

struct Sequence<J> {
    id: SequenceId,
    seat: Option<Seat>,
    /// In order of arrival, with their tickets.
    jobs: VecDeque<(u64, J)>,
    /// Is one of its requests running?
    is_running: bool,
    /// Has one of them run, or begun to?
    has_run: bool,
    /// It ends with the run that goes on.
    is_broken: bool,
    /// It ends with the last of its requests.
    is_left: bool,
    /// When it last had a request or an answer.
    touched: Instant,
    /// `None` before the first run.
    carried: Option<CarriedState>,
}

impl<J> Sequence<J> {
    fn is_idle(&self) -> bool {
        self.seat.is_some() && self.jobs.is_empty() && !self.is_running
    }
}

/// The next request of a sequence that does not run.
pub struct SequenceHead<'a, J> {
    /// Its seat on the instance.
    pub row: usize,
    /// The request.
    pub job: &'a J,
    /// What the sequence has carried.
    pub carried: Option<&'a CarriedState>,
}

/// A request on its way to the engine.
pub struct Taken<J> {
    /// Its sequence.
    pub number: Number,
    /// What its client calls the sequence.
    pub id: SequenceId,
    /// Its seat.
    pub row: usize,
    /// The request.
    pub job: J,
    /// What the sequence has carried; `None` before its first run.
    pub carried: Option<CarriedState>,
}

/// The sequences of one model version.
pub struct Table<J> {
    /// By instance, by row: the sequence that sits there.
    seats: Vec<Vec<Option<Number>>>,
    /// The sequences that take more requests, by id.
    open: HashMap<SequenceId, Number>,
    sequences: BTreeMap<Number, Sequence<J>>,
    /// Those without a seat, in order of arrival. Its bound is that of the requests in it: their bytes.
    backlog: VecDeque<Number>,
    /// Hashes of the ids of open sequences that were lost, and of which no request has come since: the latest.
    lost: VecDeque<u64>,
    hashes: RandomState,
    next: u64,
    queued: usize,
}

/// So many sequences that were lost are told so.
const MOST_LOST: usize = 1024;

impl<J> Table<J> {
    /// A table without sequences.
    pub fn new(instances: usize, seats: usize) -> Table<J> {
        Table {
            seats: vec![vec![None; seats]; instances],
            open: HashMap::new(),
            sequences: BTreeMap::new(),
            backlog: VecDeque::new(),
            lost: VecDeque::new(),
            hashes: RandomState::new(),
            next: 0,
            queued: 0,
        }
    }

    /// Was the last sequence of that id lost with what it had left behind, and none begun since?
    pub fn has_lost(&self, id: &SequenceId) -> bool {
        !self.lost.is_empty() && self.lost.contains(&self.hashes.hash_one(id))
    }

    fn note_lost(&mut self, id: &SequenceId) {
        if self.lost.len() == MOST_LOST {
            self.lost.pop_front();
        }
        self.lost.push_back(self.hashes.hash_one(id));
    }

    /// Requests that wait, for a seat or for an earlier request of their sequence.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Those of them that wait for a seat.
    pub fn in_backlog(&self) -> usize {
        let sequences = self.backlog.iter().filter_map(|it| self.sequences.get(it));
        sequences.map(|it| it.jobs.len()).sum()
    }

    /// Is there a sequence of that id that takes more requests?
    pub fn is_open(&self, id: &SequenceId) -> bool {
        self.open.contains_key(id)
    }

    /// Is there any?
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Puts a request behind those of its sequence, or begins one where none [`Table::is_open`]: whether it may is
    /// asked before. Returns its sequence and its ticket. A start within a sequence stays in it: the new one takes the
    /// seat of the old one.
    pub fn enter(&mut self, asked: &Asked, job: J, now: Instant) -> (Number, u64) {
        let number = match self.open.get(&asked.id) {
            Some(number) => *number,
            None => self.begin(asked.id.clone(), now),
        };
        self.next += 1;
        let ticket = self.next;
        if let Some(sequence) = self.sequences.get_mut(&number) {
            sequence.jobs.push_back((ticket, job));
            sequence.touched = now;
            self.queued += 1;
        }
        if asked.end {
            self.open.remove(&asked.id);
        }
        (number, ticket)
    }

    fn begin(&mut self, id: SequenceId, now: Instant) -> Number {
        if self.has_lost(&id) {
            let hash = self.hashes.hash_one(&id);
            self.lost.retain(|it| *it != hash);
        }
        self.next += 1;
        let number = self.next;
        self.open.insert(id.clone(), number);
        self.sequences.insert(
            number,
            Sequence {
                id,
                seat: None,
                jobs: VecDeque::new(),
                is_running: false,
                has_run: false,
                is_broken: false,
                is_left: false,
                touched: now,
                carried: None,
            },
        );
        self.backlog.push_back(number);
        number
    }

    /// Gives free seats to those that wait longest: the lowest row first, so that instances fill evenly, and those on
    /// instances that are out last. Returns the instance of each seat that was given.
    pub fn seat(&mut self, is_out: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut given = Vec::new();
        while !self.backlog.is_empty()
            && let Some(seat) = self.free_seat(&is_out)
            && let Some(number) = self.backlog.pop_front()
        {
            if let Some(sequence) = self.sequences.get_mut(&number) {
                sequence.seat = Some(seat);
                self.seats[seat.instance][seat.row] = Some(number);
                given.push(seat.instance);
            }
        }
        given
    }

    fn free_seat(&self, is_out: &impl Fn(usize) -> bool) -> Option<Seat> {
        let free = self.seats.iter().enumerate().filter_map(|(instance, rows)| {
            let row = rows.iter().position(Option::is_none)?;
            Some(Seat { instance, row })
        });
        free.min_by_key(|it| (is_out(it.instance), it.row))
    }

    /// The seat of a sequence; `None` while it waits for one, or once it has ended.
    pub fn seat_of(&self, number: Number) -> Option<Seat> {
        self.sequences.get(&number)?.seat
    }

    /// The next request of each sequence of an instance that has one and does not run.
    pub fn heads(&self, instance: usize) -> impl Iterator<Item = SequenceHead<'_, J>> {
        let rows = self.seats.get(instance).into_iter().flatten().enumerate();
        rows.filter_map(|(row, number)| {
            let sequence = self.sequences.get(number.as_ref()?)?;
            let (_, job) = sequence.jobs.front().filter(|_| !sequence.is_running)?;
            Some(SequenceHead { row, job, carried: sequence.carried.as_ref() })
        })
    }

    /// Takes the next request out of these rows of an instance, to run them.
    pub fn take(&mut self, instance: usize, rows: &[usize]) -> Vec<Taken<J>> {
        let taken = rows.iter().filter_map(|&row| {
            let number = (*self.seats.get(instance)?.get(row)?)?;
            let sequence = self.sequences.get_mut(&number).filter(|it| !it.is_running)?;
            let (_, job) = sequence.jobs.pop_front()?;
            (sequence.is_running, sequence.has_run) = (true, true);
            self.queued -= 1;
            let (id, carried) = (sequence.id.clone(), sequence.carried.clone());
            Some(Taken { number, id, row, job, carried })
        });
        taken.collect()
    }

    /// A request has run. `carried` takes the place of what the sequence carried; with `ends` the sequence is over.
    pub fn finish(
        &mut self,
        number: Number,
        carried: Option<CarriedState>,
        ends: bool,
        now: Instant,
    ) {
        let Some(sequence) = self.sequences.get_mut(&number) else { return };
        (sequence.is_running, sequence.carried, sequence.touched) = (false, carried, now);
        let is_over = sequence.is_left && sequence.jobs.is_empty();
        if ends || sequence.is_broken || is_over {
            self.remove(number);
        }
    }

    /// No more requests of that id will come: its sequence ends with the answer to the last that it has, or at once
    /// where it has none. Returns where its seat has become free.
    pub fn leave(&mut self, id: &SequenceId) -> Option<Seat> {
        let number = self.open.remove(id)?;
        let sequence = self.sequences.get_mut(&number)?;
        sequence.is_left = true;
        let seat = sequence.seat.filter(|_| sequence.is_idle())?;
        self.remove(number);
        Some(seat)
    }

    /// Ends a sequence early if that request of it waits: a sequence with a gap is none. Returns its
    /// requests that wait, that one included; nothing when it runs already, or has left.
    pub fn cancel(&mut self, number: Number, ticket: u64) -> Vec<J> {
        let waits = |it: &Sequence<J>| it.jobs.iter().any(|(it, _)| *it == ticket);
        match self.sequences.get(&number).is_some_and(waits) {
            true => self.end(number),
            false => Vec::new(),
        }
    }

    /// Ends all sequences of an instance on which nothing runs any more, whether it was [`Table::finish`]ed or not;
    /// returns their requests that wait.
    pub fn lose(&mut self, instance: usize) -> Vec<J> {
        let rows = self.seats.get(instance).into_iter().flatten();
        let numbers: Vec<Number> = rows.filter_map(|it| *it).collect();
        self.lose_all(numbers)
    }

    /// The instance, on which nothing runs any more, has nothing of what sequences left behind there. Ends those that
    /// had run there but for `begun`, which have begun anew since, and for those whose next request `begins` anew;
    /// returns their requests that wait.
    pub fn lose_state(
        &mut self,
        instance: usize,
        begun: &[Number],
        begins: impl Fn(&J) -> bool,
    ) -> Vec<J> {
        let rows = self.seats.get(instance).into_iter().flatten();
        let is_lost = |number: &Number| {
            let Some(it) = self.sequences.get(number) else { return false };
            let is_spared = it.jobs.front().is_some_and(|(_, job)| begins(job));
            it.has_run && !is_spared && !begun.contains(number)
        };
        let numbers: Vec<Number> = rows.filter_map(|it| *it).filter(is_lost).collect();
        for number in &numbers {
            let id = self.sequences.get(number).map(|it| it.id.clone());
            if let Some(id) = id.filter(|it| self.open.get(it) == Some(number)) {
                self.note_lost(&id);
            }
        }
        self.lose_all(numbers)
    }

    fn lose_all(&mut self, numbers: Vec<Number>) -> Vec<J> {
        let mut lost = Vec::new();
        for number in numbers {
            if let Some(sequence) = self.sequences.get_mut(&number) {
                sequence.is_running = false;
            }
            lost.extend(self.end(number));
        }
        lost
    }

    fn end(&mut self, number: Number) -> Vec<J> {
        let Some(sequence) = self.sequences.get_mut(&number) else { return Vec::new() };
        let jobs: Vec<J> = sequence.jobs.drain(..).map(|(_, job)| job).collect();
        self.queued -= jobs.len();
        sequence.is_broken = true;
        if sequence.is_running {
            let id = sequence.id.clone();
            self.close(&id, number);
        } else {
            self.remove(number);
        }
        jobs
    }

    /// Ends the sequences that have been without a request for at least `idle`.
    pub fn expire(&mut self, now: Instant, idle: Duration) {
        let expired = self
            .sequences
            .iter()
            .filter(|(_, it)| it.is_idle() && idle <= now.saturating_duration_since(it.touched));
        let expired: Vec<Number> = expired.map(|(number, _)| *number).collect();
        expired.into_iter().for_each(|it| self.remove(it));
    }

    /// When the next sequence of an instance will have been without a request for `idle`.
    pub fn next_expiry(&self, instance: usize, idle: Duration) -> Option<Instant> {
        let rows = self.seats.get(instance).into_iter().flatten();
        let seated = rows.filter_map(|it| self.sequences.get(it.as_ref()?));
        seated.filter(|it| it.is_idle()).filter_map(|it| it.touched.checked_add(idle)).min()
    }

    fn remove(&mut self, number: Number) {
        let Some(sequence) = self.sequences.remove(&number) else { return };
        match sequence.seat {
            Some(seat) => self.seats[seat.instance][seat.row] = None,
            None => self.backlog.retain(|it| *it != number),
        }
        self.close(&sequence.id, number);
    }

    fn close(&mut self, id: &SequenceId, number: Number) {
        // The id may have begun another sequence meanwhile.
        if self.open.get(id) == Some(&number) {
            self.open.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;
