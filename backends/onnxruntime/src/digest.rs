//! What tells one file from another: its length and a hash of its content.
//!
//! The hash is XXH3, which notices every accident and is about as fast as memory. It does not keep out
//! somebody who makes files on purpose; neither could a better one, since he could serve them as models.

use std::{
    fmt,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, available_parallelism},
};

use twox_hash::XxHash3_128;

/// Hashed by one thread at a time. Part of the definition: another size gives other digests.
const BLOCK: u64 = 8 << 20;

/// Read at a time; what was read is still in the processor's cache when it is hashed.
const PIECE: usize = 256 << 10;

/// More threads would only wait for memory.
const MOST_THREADS: usize = 4;

/// Length and hash of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest {
    bytes: u64,
    hash: u128,
}

/// As `1024 00112233445566778899aabbccddeeff`.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:032x}", self.bytes, self.hash)
    }
}

impl Digest {
    /// Reads the file, some gigabytes a second where it is in memory.
    pub(crate) fn of_file(path: &Path) -> io::Result<Digest> {
        let file = backend::open_file(path)?;
        let bytes = file.metadata()?.len();
        let blocks = bytes.div_ceil(BLOCK);
        let threads = available_parallelism().map_or(1, |it| it.get().min(MOST_THREADS));
        let next = AtomicU64::new(0);
        // Each thread takes the next block until there are no more.
        let work = || -> io::Result<Vec<(u64, u128)>> {
            let (mut hashes, mut piece) = (Vec::new(), vec![0; PIECE]);
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    return Ok(hashes);
                }
                hashes.push((block, hash_block(&file, block, bytes, &mut piece)?));
            }
        };
        let mut hashes = thread::scope(|scope| {
            let helper = |number: usize| {
                let builder = thread::Builder::new().name(format!("hash-{number}"));
                // Where no further thread may be started, this one does all of it.
                builder.spawn_scoped(scope, work).ok()
            };
            let helpers: Vec<_> = (1..threads.min(blocks as usize)).map_while(helper).collect();
            let mut hashes = work()?;
            for helper in helpers {
                let found = helper.join().map_err(|_| io::Error::other("hashing it panicked"))?;
                hashes.extend(found?);
            }
            io::Result::Ok(hashes)
        })?;
        hashes.sort_unstable();
        let mut whole = XxHash3_128::new();
        hashes.iter().for_each(|(_, hash)| whole.write(&hash.to_le_bytes()));
        Ok(Digest { bytes, hash: whole.finish_128() })
    }

    /// The hash of a text, as 32 characters.
    pub(crate) fn name_of(text: &str) -> String {
        format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()))
    }
}

/// The hash of block number so-and-so of a file of that length.
fn hash_block(file: &File, block: u64, length: u64, piece: &mut [u8]) -> io::Result<u128> {
    let mut hasher = XxHash3_128::new();
    let (mut at, end) = (block * BLOCK, ((block + 1) * BLOCK).min(length));
    while at < end {
        let part = &mut piece[..PIECE.min((end - at) as usize)];
        file.read_exact_at(part, at)?;
        hasher.write(part);
        at += part.len() as u64;
    }
    Ok(hasher.finish_128())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_anywhere_a_missing_one_and_swapped_blocks_give_another_digest() {
        let path = std::env::temp_dir().join(format!("muster-digest-{}", std::process::id()));
        let digest = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            Digest::of_file(&path).unwrap()
        };
        let block = BLOCK as usize;
        let mut content = vec![1; 2 * block + 5];
        content[0] = 7;
        let first = digest(&content);
        assert_eq!(digest(&content), first);
        assert_ne!(digest(&content[..2 * block + 4]), first);
        for at in [0, block, 2 * block + 4] {
            content[at] ^= 1;
            assert_ne!(digest(&content), first, "byte {at}");
            content[at] ^= 1;
        }
        content.swap(0, block);
        assert_ne!(digest(&content), first);
        assert_eq!(digest(b"").to_string().split(' ').next(), Some("0"));
        std::fs::remove_file(&path).unwrap();
    }
}
