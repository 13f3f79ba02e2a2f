//! One connection, from accept to close: h2 speaks HTTP/2, this file begins the calls and watches the peer.

use std::{
    borrow::Cow,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::{
    Ping, Reason, RecvStream,
    server::{self, SendResponse},
};
use hyper::Request;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Sleep,
};

use super::{
    Grpc, GrpcFront, call,
    context::Given,
    heard::Heard,
    room::{FOOTPRINT, Fate, NARROW, OF_CALL, Room},
    services::Services,
    watch::{Activity, Bounds, Call, Verdict, Watch},
};
use crate::{
    drain::Guard,
    exchange::request_id::X_REQUEST_ID,
    net::{arrival::Arrival, places::ConnectionPlace},
};
use formats::body_memo::BodyMemo;

/// Bytes of one call that a peer may send before they are read, and most bytes of one frame where there is memory for
/// many such. A large tensor then takes few frames, and a connection can pile up little.
const STREAM_WINDOW: u32 = 1 << 20;

/// So many of the longest frames have room in the memory of connections: each is kept until it is complete.
const LONGEST_FRAMES: usize = 256;

/// The shortest limit of a frame that HTTP/2 allows.
const LEAST_FRAME: u32 = 16 << 10;

/// Bytes of a request's metadata.
const METADATA: u32 = 16 << 10;

/// Bytes of one reply that may wait in the connection to be written.
const SEND_BUFFER: usize = 256 << 10;

/// A connection that is to end is kept for that long without calls, because a call may be under way.
const LAST_CALL: Duration = Duration::from_millis(500);

/// Serves a connection to its end. `stream` is TCP, or TLS over it.
pub async fn serve<S, V>(
    stream: S,
    front: Arc<GrpcFront<V>>,
    mut guard: Guard,
    place: &ConnectionPlace,
) where
    V: Services,
    S: AsyncRead + AsyncWrite + Arrival + Unpin + Send,
{
    let grpc = &front.grpc;
    let _counted = grpc.serving.metrics.connection();
    let activity = Arc::new(Activity::new(grpc.settings.timeouts.stall, place.seat().clone()));
    let mut keeper = Keeper::new(grpc, activity.clone(), &mut guard, place);
    let heard = Heard::new(stream, activity.clone(), place);
    // Boxed: what it takes is free before the first call.
    let greeted = Box::pin(greet(heard, grpc, &mut keeper, place)).await;
    let Some((mut connection, mut room)) = greeted else { return };
    let mut pings = connection.ping_pong();
    let mut begun = Vec::new();
    let ids = grpc.serving.request_ids.source();
    let memo = Arc::new(BodyMemo::default());
    loop {
        let some = !begun.is_empty();
        let step = tokio::select! {
            biased;
            step = poll_fn(|context| {
                if room.follow(&mut connection, &activity) == Fate::Leaves {
                    return Poll::Ready(Step::Obey(Order::Retire));
                }
                // After the answers this looks again before it waits. So h2 need not wake the task to say that there
                // are replies to be written.
                let mut at_once = Context::from_waker(Waker::noop());
                match connection.poll_accept(if some { &mut at_once } else { context }) {
                    Poll::Pending if some => Poll::Ready(Step::Answer),
                    accepted => accepted.map(Step::Begin),
                }
            }) => step,
            order = keeper.order() => Step::Obey(order),
        };
        match step {
            Step::Begin(Some(Ok((request, mut respond)))) => {
                let mut call = Call::begin(activity.clone());
                match room.admits(activity.calls(), request.headers()) {
                    Some(of_metadata) => call.hold(of_metadata),
                    None => {
                        // Nothing of it was looked at: the client may ask again, here or elsewhere. Connections at rest
                        // make room until then.
                        place.press(OF_CALL);
                        respond.send_reset(Reason::REFUSED_STREAM);
                        continue;
                    }
                }
                let id = ids.name(request.headers().get(X_REQUEST_ID));
                let given = Given { id, memo: memo.clone() };
                begun.push(Box::pin(call::serve(front.clone(), call, given, request, respond)));
            }
            // Calls that came together are begun together, so that their answers leave in one write.
            Step::Answer => {
                for mut call in begun.drain(..) {
                    // Most calls are answered at once, and need no task of their own.
                    let at_once = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
                    if at_once.is_pending() {
                        tokio::spawn(call);
                    }
                }
            }
            Step::Begin(None) => return,
            Step::Begin(Some(Err(error))) => {
                // Clients come and go as they like: a debug line is enough.
                return tracing::debug!(%error, "a connection ended early");
            }
            Step::Obey(Order::Settle) => {
                if room.settle(&mut connection, &activity) == Fate::Leaves {
                    keeper.retire();
                    connection.graceful_shutdown();
                }
            }
            // GOAWAY asks the peer to connect anew; calls in flight are answered.
            Step::Obey(Order::Retire) => {
                keeper.retire();
                connection.graceful_shutdown();
            }
            Step::Obey(Order::Ask) => {
                if let Some(pings) = &mut pings {
                    // The last pong was noticed already, by the bytes that were read.
                    let _ = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
                    let _ = pings.send_ping(Ping::opaque());
                }
            }
            Step::Obey(Order::Close(reason)) => {
                return tracing::debug!("a connection is closed: {reason}");
            }
        }
    }
}

/// Shakes hands with a peer once it has said something: h2 takes its memory at the beginning. `None` where the
/// connection is to be closed.
async fn greet<'p, S>(
    mut heard: Heard<'p, S>,
    front: &Grpc,
    keeper: &mut Keeper<'_>,
    place: &ConnectionPlace,
) -> Option<(server::Connection<Heard<'p, S>, Bytes>, Room)>
where
    S: AsyncRead + AsyncWrite + Arrival + Unpin + Send,
{
    let shaking = async {
        poll_fn(|context| heard.poll_arrival(context)).await;
        let part = place.wait_for_room(FOOTPRINT).await;
        let room = Room::new(part.ok_or(Cow::Borrowed("connections have no memory"))?);
        let mut builder = server::Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(NARROW)
            .max_frame_size(longest_frame(room.limit()))
            .max_concurrent_streams(front.settings.grpc.max_streams.get())
            .max_header_list_size(METADATA)
            .max_send_buffer_size(SEND_BUFFER);
        let shaken = builder.handshake::<_, Bytes>(heard).await;
        shaken.map(|it| (it, room)).map_err(|it| Cow::from(it.to_string()))
    };
    let mut shaking = pin!(shaking);
    loop {
        tokio::select! {
            biased;
            shaken = &mut shaking => {
                // Clients come and go as they like: a debug line is enough.
                let closed = |error: Cow<'_, str>| {
                    tracing::debug!(%error, "a connection did not become one of HTTP/2");
                };
                return shaken.map_err(closed).ok();
            }
            order = keeper.order() => match order {
                Order::Ask | Order::Settle => {}
                // Before the handshake is done no call exists that would have to finish.
                Order::Retire => return None,
                Order::Close(reason) => {
                    tracing::debug!("a connection is closed: {reason}");
                    return None;
                }
            },
        }
    }
}

/// The limit of a frame where connections have so much memory.
fn longest_frame(memory: usize) -> u32 {
    let most = memory / LONGEST_FRAMES;
    u32::try_from(most).unwrap_or(u32::MAX).clamp(LEAST_FRAME, STREAM_WINDOW)
}

type Accepted = Option<Result<(Request<RecvStream>, SendResponse<Bytes>), h2::Error>>;

/// The next step of a connection.
// A large variant costs nothing: a step is matched where it is made.
#[allow(clippy::large_enum_variant)]
enum Step {
    /// Begin a call, or end with the connection.
    Begin(Accepted),
    /// Answer the calls that have begun: no more are there for now.
    Answer,
    /// Carry out an order of the keeper.
    Obey(Order),
}

/// An order to a connection.
enum Order {
    /// Give back what calls that are gone have held.
    Settle,
    /// Ask the peer whether it still lives.
    Ask,
    /// Ask the peer to connect anew, and finish the calls in flight.
    Retire,
    /// Close the connection.
    Close(&'static str),
}

/// Looks after a connection: at times that its watch sets, and when the server stops.
struct Keeper<'g> {
    activity: Arc<Activity>,
    watch: Watch,
    timer: Pin<Box<Sleep>>,
    /// The signal that the server closes, or that another connection needs this place; `None` once it has come.
    closing: Option<Pin<Box<dyn Future<Output = ()> + Send + 'g>>>,
}

impl<'g> Keeper<'g> {
    fn new(
        front: &Grpc,
        activity: Arc<Activity>,
        guard: &'g mut Guard,
        place: &'g ConnectionPlace,
    ) -> Keeper<'g> {
        let settings = &front.settings;
        let bounds = Bounds {
            timeouts: settings.timeouts,
            keepalive: settings.grpc.keepalive,
            age: settings.grpc.age,
            last_call: LAST_CALL,
        };
        let watch = Watch::new(bounds, Instant::now());
        let timer = Box::pin(tokio::time::sleep_until(watch.first_look().into()));
        let closing = async {
            tokio::select! {
                () = guard.closing() => {}
                () = place.seat().evicted() => {}
            }
        };
        Keeper { activity, watch, timer, closing: Some(Box::pin(closing)) }
    }

    /// The connection is asked to end.
    fn retire(&mut self) {
        self.timer.as_mut().reset(self.watch.retire(Instant::now()).into());
    }

    /// The next order. Nothing is lost when the future is dropped.
    async fn order(&mut self) -> Order {
        poll_fn(|context| self.poll_order(context)).await
    }

    fn poll_order(&mut self, context: &mut Context<'_>) -> Poll<Order> {
        if let Some(closing) = &mut self.closing
            && closing.as_mut().poll(context).is_ready()
        {
            self.closing = None;
            return Poll::Ready(Order::Retire);
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let (until, order) = match self.watch.look(&self.activity, Instant::now()) {
                Verdict::Keep(until) => (until, Some(Order::Settle)),
                Verdict::Ask(until) => (until, Some(Order::Ask)),
                Verdict::Retire(until) => (until, Some(Order::Retire)),
                Verdict::Drop(reason) => return Poll::Ready(Order::Close(reason)),
            };
            self.timer.as_mut().reset(until.into());
            if let Some(order) = order {
                return Poll::Ready(order);
            }
        }
        Poll::Pending
    }
}
