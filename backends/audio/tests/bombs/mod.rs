//! Sounds that lie about themselves: files that say of themselves what is out of bounds.

use std::{fs, path::Path};

/// A file, and a part of what is said of it when it is refused.
pub struct Bomb {
    /// What is wrong with it.
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub refused: &'static str,
}

/// All of them, made of the sounds of this folder.
pub fn bombs(files: &Path) -> Vec<Bomb> {
    let file = |name: &str| {
        let path = files.join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut all = Vec::new();
    let mut bomb = |name, refused, bytes| all.push(Bomb { name, bytes, refused });

    let flac = file("s16.flac");
    // The number of samples: 36 bits at the end of the stream's description.
    let mut long = flac.clone();
    long[21] |= 0x0f;
    bomb("a FLAC of weeks", "the sound has ", long);
    let mut beyond = flac.clone();
    let block = u32::from_be_bytes([0, flac[5], flac[6], flac[7]]) as usize;
    beyond[8 + block + 1] = 255;
    let problem = "FLAC and broken at byte 42: a block of metadata is longer than the file";
    bomb("a block of a FLAC beyond its end", problem, beyond);
    let wav = file("s16.wav");
    let at_rate = |rate: u32| [&wav[..24], &rate.to_le_bytes(), &wav[28..]].concat();
    bomb("a WAV at 1 Hz", "the sound has 1 samples a second, 4000 to 192000", at_rate(1));
    bomb("a WAV at 10 MHz", "10000000 samples a second, 4000 to 192000", at_rate(10_000_000));
    let bytes = file("u8.wav");
    let mut channels = bytes.clone();
    (channels[22], channels[32]) = (9, 9);
    bomb("a WAV of 9 channels", "the sound has 9 channels, 1 to 8 are taken", channels);
    let mut seconds = bytes;
    seconds.resize(600 * 16_000 + 1_000, 0);
    seconds[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
    bomb("a WAV of 600.1 s", "the sound has 600.1 s, at most ", seconds);
    all
}
