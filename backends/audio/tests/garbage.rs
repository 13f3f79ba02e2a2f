//! Arbitrary bytes and sounds beyond the bounds are errors, soon and without much memory.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod bombs;

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use backend_audio::{Limits, SoundError, decode, inspect, read, read_while};
use rustix::time::{ClockId, clock_gettime};

use bombs::bombs;

const SOUNDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/pipelines/sounds");

fn sounds() -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(SOUNDS).unwrap().map(|it| it.unwrap());
    let named =
        files.map(|it| (it.file_name().into_string().unwrap(), fs::read(it.path()).unwrap()));
    let mut sounds: Vec<_> = named.filter(|(name, _)| !name.ends_with(".jsonl")).collect();
    sounds.sort();
    sounds
}

fn sound(name: &str) -> Vec<u8> {
    sounds().into_iter().find(|it| it.0 == name).unwrap().1
}

/// Numbers that look random, the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % below
    }
}

#[test]
fn no_change_of_a_file_makes_decoding_panic_or_take_much() {
    let limits = Limits { max_seconds: 2.0, ..Limits::default() };
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let (mut read, mut refused) = (0, 0);
    for (name, whole) in sounds() {
        for round in 0..400 {
            let mut bytes = whole.clone();
            // Headers are changed more often than what follows them.
            let part = if round % 2 == 0 { bytes.len().min(120) } else { bytes.len() };
            for _ in 0..1 + noise.next(4) {
                let at = noise.next(part);
                match noise.next(5) {
                    0 => bytes.truncate(at.max(1)),
                    1 if at < bytes.len() => drop(bytes.remove(at)),
                    2 if at < bytes.len() => bytes.insert(at, noise.next(256) as u8),
                    _ if at < bytes.len() => {
                        bytes[at] = [0, 255, noise.next(256) as u8][noise.next(3)]
                    }
                    _ => {}
                }
            }
            let memory = allocation_counter::measure(|| match decode(&bytes, &limits) {
                Ok(sound) => {
                    assert!(sound.samples.len() as f64 <= 2.0 * f64::from(sound.rate));
                    read += 1;
                }
                Err(_) => refused += 1,
            });
            // Twice the samples of two seconds at the highest rate, while a list grows, and tables of decoders.
            assert!(memory.bytes_max < 12 << 20, "{name}, {round}: {} bytes", memory.bytes_max);
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

#[test]
fn noise_behind_each_beginning_is_refused() {
    let mut noise = Noise(7);
    let beginnings: [&[u8]; 7] = [
        b"",
        b"RIFF\0\0\0\0WAVE",
        b"RIFF\0\0\0\0WAVEfmt ",
        b"fLaC",
        b"OggS",
        b"ID3",
        &[255, 251, 144],
    ];
    for round in 0..2_000 {
        let mut bytes = beginnings[round % beginnings.len()].to_vec();
        let count = noise.next(2_000);
        bytes.extend((0..count).map(|_| noise.next(256) as u8));
        let limits = Limits { max_seconds: 2.0, ..Limits::default() };
        let memory = allocation_counter::measure(|| drop(decode(&bytes, &limits)));
        assert!(memory.bytes_max < 12 << 20, "{round}: {} bytes", memory.bytes_max);
    }
}

#[test]
fn bombs_are_refused_by_their_headers_with_next_to_no_memory() {
    let bombs = bombs(Path::new(SOUNDS));
    assert_eq!(bombs.len(), 6);
    for bomb in bombs {
        let (name, mut result) = (bomb.name, None);
        let memory =
            allocation_counter::measure(|| result = Some(inspect(&bomb.bytes, &Limits::default())));
        let text = result.unwrap().unwrap_err().to_string();
        assert!(text.contains(bomb.refused), "{name}: {text}");
        assert!(memory.bytes_max < 1 << 20, "{name}: {} bytes", memory.bytes_max);
    }
}

#[test]
fn a_short_sound_takes_no_more_than_was_asked_for_whatever_its_rate() {
    let (wav, limits) = (sound("s16.wav"), Limits::default());
    for from in [4_000u32, 8_002, 11_904, 44_100, 191_999] {
        let bytes = [&wav[..24], &from.to_le_bytes(), &wav[28..]].concat();
        let header = inspect(&bytes, &limits).unwrap();
        for to in [8_000, 16_000, 22_050] {
            let memory = allocation_counter::measure(|| drop(read(&bytes, to, &limits).unwrap()));
            let (most, asked) = (memory.bytes_max, header.most_bytes(to, &limits));
            assert!(most <= asked, "{from} to {to}: {most} bytes, {asked} were asked for");
        }
    }
}

#[test]
fn a_stream_that_goes_on_behind_its_header_is_refused() {
    let mut flac = sound("s16.flac");
    let said = &mut flac[21..26];
    said.copy_from_slice(&[said[0] & 0xf0, 0, 0, 0, 5]);
    let error = decode(&flac, &Limits::default()).unwrap_err();
    assert!(matches!(error, SoundError::LongerThanSaid { said: 5, .. }), "{error}");
    // Zero says that the number is not known.
    flac[25] = 0;
    let limits = Limits::default();
    assert_eq!(inspect(&flac, &limits).unwrap().samples, None);
    assert_eq!(decode(&flac, &limits).unwrap().samples.len(), 800);
    let error = decode(&flac, &Limits { max_seconds: 0.01, ..limits }).unwrap_err();
    assert_eq!(error.to_string(), "the sound has more than 0.0 s, at most 0.01 s are taken");
    assert!(error.is_too_large());
}

/// Twenty megabytes of noise behind that beginning.
fn noise_behind(beginning: &[u8]) -> Vec<u8> {
    let mut noise = Noise(11);
    let mut bytes = beginning.to_vec();
    bytes.extend((0..20 << 20).map(|_| noise.next(256) as u8));
    bytes
}

/// What this thread has computed so far. Other programs may run on this machine.
fn computed() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

#[test]
fn megabytes_of_noise_are_no_sound_soon() {
    let frame = sound("mono.mp3");
    for (name, bytes) in [
        ("a head", noise_behind(&[255, 251, 144, 0])),
        ("a tag", noise_behind(b"ID3\x04\0\0\0\0\0\0")),
        // Each head promises a frame of a thousand bytes, of which no other one follows.
        ("heads", [255u8, 251, 0xe2, 0].repeat(5 << 20)),
        ("heads behind a sound", [&frame[..], &[255u8, 251, 0xe2, 0].repeat(5 << 20)].concat()),
    ] {
        let begin = computed();
        // Once for its length, once for its samples.
        let inspected = inspect(&bytes, &Limits::default()).is_ok();
        let decoded = decode(&bytes, &Limits::default());
        let took = computed() - begin;
        assert!(decoded.is_err() && inspected == (name == "heads behind a sound"), "{name}");
        // A debug build, where reading all of it takes half a second.
        assert!(took.as_secs_f32() < 4.0, "{name}: {took:?}");
        eprintln!("{name}: {took:?} {}", decoded.unwrap_err());
    }
}

#[test]
fn a_sound_that_is_not_wanted_any_more_is_given_up_within_a_packet() {
    for (name, least) in [("mono.mp3", 4), ("s16.flac", 3), ("mono.ogg", 3), ("s16.wav", 1)] {
        let bytes = sound(name);
        let asked = AtomicUsize::new(0);
        let count = |most: usize| {
            asked.store(0, Relaxed);
            let wanted = || asked.fetch_add(1, Relaxed) < most;
            read_while(&bytes, 8_000, &Limits::default(), &wanted)
        };
        assert!(count(usize::MAX).is_ok());
        let all = asked.load(Relaxed);
        assert!(least <= all, "{name}: asked {all} times");
        for most in 0..all {
            assert_eq!(count(most), Err(SoundError::Stopped), "{name}, {most} of {all}");
        }
    }
}
