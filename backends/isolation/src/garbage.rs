//! Tests with made-up bytes: whatever a worker sends, and whatever it writes into shared memory meanwhile, the server
//! does not panic. It reads nothing outside of that memory, and holds no more than there is room for.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use backend::DataType;
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::{
    arena::HostArena,
    channel::{ChannelError, Receiver},
    frame::{Encoding, LONGEST_ANSWER},
    mailbox,
    mapping::Mapping,
    message::{Answer, Entered, LoadAnswer, Opened, Placed},
};

const HALF: usize = 1 << 12;

const TYPES: [DataType; 4] = [DataType::Fp32, DataType::Bytes, DataType::Bool, DataType::Fp64];

/// Numbers at the edges of what fits, and small ones.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..64u64,
        0..3 * HALF as u64,
        (0..16u64).prop_map(|it| u64::MAX - it),
        (0..64u32, 0..8u64).prop_map(|(bit, by)| (1u64 << bit).wrapping_sub(by)),
    ]
}

fn placed() -> impl Strategy<Value = Placed<'static>> {
    let dims = vec(number(), 0..5);
    (any::<Index>(), dims, number(), number()).prop_map(|(dtype, dims, at, len)| {
        let dtype = *dtype.get(&TYPES);
        // Half of them have a length that fits.
        let fits = dims.iter().try_fold(4u64, |all, it| all.checked_mul(*it));
        let len = fits.filter(|_| at % 2 == 0).unwrap_or(len);
        Placed { name: "y".into(), dtype, dims, at, len }
    })
}

/// Everything in these bytes that somebody would read as frames.
fn read_all<T: for<'a> serde::Deserialize<'a>>(bytes: &[u8]) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    // Fewer than what a socket holds.
    ours.write_all(bytes).unwrap();
    drop(ours);
    let mut receiver = Receiver::new(theirs, LONGEST_ANSWER);
    loop {
        match receiver.receive::<T>() {
            Ok(_) => {}
            Err(ChannelError::Garbage(_)) if receiver.wait().is_ok() => {}
            Err(ChannelError::Garbage(_) | ChannelError::Closed) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), body].concat()
}

proptest! {
    #[test]
    fn bytes_at_random_are_frames_or_garbage(bytes in vec(any::<u8>(), 0..400), is_framed: bool) {
        let bytes = if is_framed { framed(&bytes) } else { bytes };
        read_all::<Entered>(&bytes);
        read_all::<Opened>(&bytes);
        read_all::<LoadAnswer>(&bytes);
        let (ours, mut incoming) = mailbox::create(Encoding::Postcard).unwrap();
        let (mut theirs, _) = mailbox::open(ours.file().try_clone_to_owned().unwrap()).unwrap();
        theirs.put(&bytes).unwrap();
        let _ = incoming.receive::<Answer<'_>>();
    }

    #[test]
    fn an_answer_that_is_changed_at_random_is_taken_or_refused(
        outputs in vec(placed(), 0..4),
        changes in vec((any::<Index>(), any::<u8>()), 0..6),
        cut in any::<Index>(),
    ) {
        let mut bytes = postcard::to_stdvec(&Answer { run: 3, took: Duration::ZERO, wide: false, outputs: Ok(outputs) }).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut.index(2) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        let Ok(Answer { outputs: Ok(outputs), .. }) = postcard::from_bytes(&bytes) else {
            return Ok(());
        };
        let mut host = HostArena::create(HALF).unwrap();
        let _ = host.take(&outputs);
    }

    #[test]
    fn what_is_taken_is_what_was_said_and_fits_into_the_memory(outputs in vec(placed(), 0..6)) {
        let mut host = HostArena::create(HALF).unwrap();
        let Ok(taken) = host.take(&outputs) else { return Ok(()) };
        let all: usize = taken.iter().map(|it| it.tensor.byte_len()).sum();
        prop_assert!(all <= 2 * HALF);
        for (said, taken) in outputs.iter().zip(&taken) {
            prop_assert!(said.at + said.len <= 2 * HALF as u64);
            prop_assert_eq!(taken.tensor.byte_len() as u64, said.len);
            prop_assert_eq!(taken.tensor.dtype(), said.dtype);
        }
    }
}

#[test]
fn a_thousand_outputs_in_one_place_are_refused_before_they_are_copied() {
    let mut host = HostArena::create(HALF).unwrap();
    let len = 2 * HALF as u64;
    let of = || Placed { name: "y".into(), dtype: DataType::Bool, dims: vec![len], at: 0, len };
    assert_eq!(host.take(&[of()]).unwrap()[0].tensor.byte_len() as u64, len);
    let many: Vec<Placed<'_>> = std::iter::repeat_with(of).take(1000).collect();
    let error = host.take(&many).unwrap_err().to_string();
    assert_eq!(error, "outputs of 8192000 bytes, in memory of 8192");
}

#[test]
fn memory_that_changes_while_an_answer_is_read_is_read_once() {
    let mut host = HostArena::create(HALF).unwrap();
    let theirs = Mapping::open(host.file().try_clone_to_owned().unwrap()).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let changes = thread::spawn(move || {
        // Two strings of four bytes, then one that reaches beyond the end, then nothing at all.
        let good = [[4, 0, 0, 0], *b"text"].concat().repeat(2);
        while !over.load(Relaxed) {
            theirs.pages().write(HALF, &good).unwrap();
            theirs.pages().write(HALF + 8, &u32::MAX.to_le_bytes()).unwrap();
            assert!(rustix::fs::ftruncate(theirs.file(), 0).is_err());
            theirs.give_back(HALF, HALF).unwrap();
        }
    });
    let said = [Placed {
        name: "y".into(),
        dtype: DataType::Bytes,
        dims: vec![2],
        at: HALF as u64,
        len: 16,
    }];
    for _ in 0..20_000 {
        // It holds two strings of sixteen bytes together, or is refused: nobody can change it any more.
        if let Ok(taken) = host.take(&said) {
            let strings: Vec<usize> = taken[0].tensor.strings().map(|it| it.len() + 4).collect();
            assert_eq!((strings.len(), strings.iter().sum()), (2, 16usize));
        }
    }
    is_over.store(true, Relaxed);
    changes.join().unwrap();
}
