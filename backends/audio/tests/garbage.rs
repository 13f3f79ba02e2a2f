//! Arbitrary bytes and sounds beyond the bounds are errors, soon and without much memory.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use backend_audio::{Limits, SoundError, decode, inspect, read_while};

fn sounds() -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pipelines/sounds");
    let files = fs::read_dir(dir).unwrap().map(|it| it.unwrap());
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

/// Refused by `inspect`, within 5 ms and 1 MB.
#[track_caller]
fn check_bomb(bytes: &[u8], expect: &str) {
    let mut error = None;
    let begin = Instant::now();
    let memory = allocation_counter::measure(|| {
        error = inspect(bytes, &Limits::default()).err();
    });
    let text = error.unwrap().to_string();
    assert!(text.contains(expect), "{text}");
    assert!(memory.bytes_max < 1 << 20, "{} bytes", memory.bytes_max);
    // A debug build on a busy machine: the bound of a release build is a tenth of it.
    assert!(begin.elapsed().as_millis() < 50, "{:?}", begin.elapsed());
}

#[test]
fn what_is_out_of_bounds_is_refused_by_its_header() {
    let mut flac = sound("s16.flac");
    // The number of samples: 36 bits at the end of the stream's description.
    flac[21] |= 0x0f;
    check_bomb(&flac, "the sound has ");
    let mut flac = sound("s16.flac");
    let block = u32::from_be_bytes([0, flac[5], flac[6], flac[7]]) as usize;
    flac[8 + block + 1] = 255;
    check_bomb(&flac, "FLAC and broken at byte 42: a block of metadata is longer than the file");
    for (rate, expect) in
        [(1u32, "the sound has 1 samples a second"), (10_000_000, "4000 to 192000")]
    {
        let mut wav = sound("s16.wav");
        wav[24..28].copy_from_slice(&rate.to_le_bytes());
        check_bomb(&wav, expect);
    }
    let mut wav = sound("u8.wav");
    wav[22] = 9;
    wav[32] = 9;
    check_bomb(&wav, "the sound has 9 channels, 1 to 8 are taken");
    let mut long = sound("u8.wav");
    long.resize(600 * 16_000 + 1_000, 0);
    long[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
    check_bomb(&long, "the sound has 600.1 s, at most 600 s are taken");
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
        let begin = Instant::now();
        // Once for its length, once for its samples.
        let inspected = inspect(&bytes, &Limits::default()).is_ok();
        let decoded = decode(&bytes, &Limits::default());
        let took = begin.elapsed();
        assert!(decoded.is_err() && inspected == (name == "heads behind a sound"), "{name}");
        // A debug build on a busy machine, where reading all of it takes half a second.
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
