//! A place for one request at a time: a connection, what is on its way over it, and what comes of it.

use std::{
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use mio::{Poll, Token};

use crate::{
    Check, CheckedReply, Error, Plan,
    check::WrongReply,
    connection::{Capture, Connection},
    tally::Tally,
    tls::Dialer,
};

/// Longest wait for each of the connections that are opened before the run.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a plan's connections go.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) address: SocketAddr,
    /// Makes TLS of them.
    pub(crate) dialer: Option<Dialer>,
}

impl Destination {
    /// That of a plan. May block on the resolver.
    pub(crate) fn of(plan: &Plan) -> Result<Destination, Error> {
        let protocol = if plan.is_grpc() { "h2" } else { "http/1.1" };
        let dialer = plan.target.dialer(protocol)?;
        Ok(Destination { address: plan.target.resolve()?, dialer })
    }
}

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) request: usize,
    /// Which of the counted requests it is, from 1.
    pub(crate) number: u64,
    /// When it was to be sent: latency counts from here.
    pub(crate) due: Instant,
    pub(crate) expires: Instant,
    /// Was it due within the measurement?
    pub(crate) counted: bool,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) connection: Connection,
    pub(crate) job: Option<Job>,
    /// Not used before this.
    pub(crate) rests_until: Option<Instant>,
    /// The next 2xx reply is the first of this connection.
    pub(crate) unchecked: bool,
    /// Has a socket been opened for it?
    pub(crate) was_open: bool,
}

impl Slot {
    pub(crate) fn closed(place: &Destination, index: usize, plan: &Plan) -> Slot {
        let Destination { address, dialer } = place;
        let connection = Connection::closed(*address, dialer.clone(), Token(index), plan.is_grpc());
        Slot { connection, job: None, rests_until: None, unchecked: true, was_open: false }
    }
}

/// Opens a connection before the run: blocking, so that a server that is not there is an error and not
/// ten seconds of failures.
pub(crate) fn open(
    place: &Destination,
    index: usize,
    of: usize,
    plan: &Plan,
    poll: &Poll,
) -> Result<Slot, Error> {
    let slot = Slot::closed(place, index, plan);
    let address = place.address;
    let connection = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
        .and_then(|it| {
            it.set_read_timeout(Some(CONNECT_TIMEOUT))?;
            it.set_write_timeout(Some(CONNECT_TIMEOUT))?;
            slot.connection.open(it, poll.registry())
        })
        .map_err(|source| Error::Connect {
            address: address.to_string(),
            number: index + 1,
            of,
            source,
        })?;
    Ok(Slot { connection, was_open: true, ..slot })
}

/// Judges a 2xx reply, where the plan wants that. Tells whether it was judged.
pub(crate) fn check(
    plan: &Plan,
    slot: &mut Slot,
    request: usize,
    status: u16,
    tally: &mut Tally,
) -> bool {
    let capture = std::mem::replace(&mut slot.connection.capture, Capture::Nothing);
    if !(200..300).contains(&status) {
        return false;
    }
    let found = match (&plan.check, capture) {
        (Check::FirstReply(judge), Capture::Body(body)) => {
            slot.unchecked = false;
            let is_right = judge(&CheckedReply { request, status, body: &body });
            if is_right { Ok(()) } else { Err(WrongReply::NoAnswer) }
        }
        (Check::Sample(critic), Capture::Body(body)) => {
            critic(&CheckedReply { request, status, body: &body })
        }
        (Check::EveryBody(hashes), Capture::Hash(hash)) => {
            let is_right = hashes.get(request) == Some(&hash.value());
            if is_right { Ok(()) } else { Err(WrongReply::OtherBytes) }
        }
        _ => return false,
    };
    tally.checked(request, found);
    true
}
