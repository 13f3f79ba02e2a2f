//! What the decoder of Ogg Vorbis holds, by the headers of a stream. A codebook of a few bytes can stand for tables of
//! many megabytes, which the decoder makes before it has seen a sample; so they are counted before it is made.

use symphonia::core::io::{BitReaderRtl, ReadBitsRtl};

/// Most bytes of tables. Those of the usual encoders take less than a quarter of it.
pub(crate) const MOST: u64 = 64 << 20;

/// Most channels of a stream. Where more are coupled, the decoder makes other samples of them than libvorbis does.
pub(crate) const MOST_CHANNELS: usize = 2;

/// Bytes of the first header, behind which the third one follows.
const IDENTIFICATION: usize = 30;
/// Where the first header has the exponents of the lengths of blocks.
const BLOCK_LENGTHS: usize = 28;
/// What the third header begins with.
const SETUP: &[u8] = b"\x05vorbis";
/// What each codebook begins with.
const CODEBOOK: u32 = 0x56_43_42;
/// Most floors, and most residues, each with buffers as long as a block.
const PARTS: u64 = 64;
/// Longest codeword in bits.
const LONGEST: usize = 32;
/// Most bits that the decoder looks up at once; it has one list for each beginning of longer codewords.
const AT_ONCE: usize = 8;
/// Bytes of one place in such a list, twice, since lists grow.
const OF_PLACE: u64 = 16;
/// Bytes of what is known of each list while the decoder is made.
const OF_LIST: u64 = 320;
/// Bytes of what is known of each codeword while the decoder is made.
const OF_ENTRY: u64 = 32;

/// What is wrong with the headers of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VorbisError {
    #[error("the header with its codebooks is missing")]
    NoCodebooks,
    #[error("{}", CodebookError::Ended)]
    Ended,
    #[error("codebook {number}: {problem}")]
    Codebook { number: u32, problem: CodebookError },
}

/// What is wrong with one codebook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodebookError {
    #[error("it does not begin as one")]
    NoBeginning,
    #[error("its values are of kind {0}, 0 to 2 are known")]
    UnknownKind(u32),
    #[error("a codeword has more than 32 bits")]
    LongCodeword,
    #[error("it has more codewords than entries")]
    MoreThanEntries,
    #[error("it has too many codewords")]
    TooMany,
    #[error("it has too few codewords")]
    TooFew,
    #[error("it has no dimensions")]
    NoDimensions,
    #[error("the header ends within it")]
    Ended,
}

/// Bytes of the tables and buffers that the decoder makes for a stream of so many channels, never too few. Counting
/// ends above [`MOST`].
///
/// `headers` are the first and the third header of the stream, joined. The codebooks are those of section 3.2.1 of the
/// Vorbis I specification.
///
/// # Errors
/// With what is wrong in the codebooks.
pub(crate) fn most_bytes(headers: &[u8], channels: usize) -> Result<u64, VorbisError> {
    let setup = headers.get(IDENTIFICATION..).and_then(|it| it.strip_prefix(SETUP));
    let (Some(setup), Some(lengths)) = (setup, headers.get(BLOCK_LENGTHS)) else {
        return Err(VorbisError::NoCodebooks);
    };
    let block = 1u64 << (lengths >> 4);
    // Residues of four bytes and a class of one for each channel, and two maps of a floor.
    let mut bytes = PARTS * block / 2 * (5 * channels as u64 + 8);
    let mut bits = BitReaderRtl::new(setup);
    for number in 0..=read(&mut bits, 8).map_err(|_| VorbisError::Ended)? {
        bytes +=
            codebook(&mut bits).map_err(|problem| VorbisError::Codebook { number, problem })?;
        if bytes > MOST {
            break;
        }
    }
    Ok(bytes)
}

/// Bytes of the tables of the codebook that comes next.
fn codebook(bits: &mut BitReaderRtl<'_>) -> Result<u64, CodebookError> {
    if read(bits, 24)? != CODEBOOK {
        return Err(CodebookError::NoBeginning);
    }
    let (dimensions, entries) = (read(bits, 16)?, read(bits, 24)?);
    let lengths = lengths(bits, entries)?;
    let (values, said) = match read(bits, 4)? {
        0 => (0, 0),
        kind @ (1 | 2) => {
            read(bits, 32)?;
            read(bits, 32)?;
            let width = read(bits, 4)? + 1;
            read(bits, 1)?;
            let values = u64::from(entries) * u64::from(dimensions);
            let said = if kind == 1 { side(entries, dimensions)? } else { values };
            skip(bits, said * u64::from(width))?;
            (values, said)
        }
        kind => return Err(CodebookError::UnknownKind(kind)),
    };
    Ok(lists(&lengths)? + u64::from(entries) * OF_ENTRY + 4 * values + 4 * said)
}

/// Of each length of 1 to 32 bits, how many codewords have it.
fn lengths(bits: &mut BitReaderRtl<'_>, entries: u32) -> Result<[u64; LONGEST + 1], CodebookError> {
    let mut lengths = [0; LONGEST + 1];
    if read(bits, 1)? == 1 {
        // Lengths that go up: how many entries have each.
        let (mut length, mut left) = (read(bits, 5)? as usize + 1, entries);
        loop {
            let count = read(bits, u32::BITS - left.leading_zeros())?;
            let place = lengths.get_mut(length).ok_or(CodebookError::LongCodeword)?;
            left = left.checked_sub(count).ok_or(CodebookError::MoreThanEntries)?;
            (*place, length) = (u64::from(count), length + 1);
            if left == 0 {
                return Ok(lengths);
            }
        }
    }
    let sparse = read(bits, 1)? == 1;
    for _ in 0..entries {
        if !sparse || read(bits, 1)? == 1 {
            lengths[read(bits, 5)? as usize + 1] += 1;
        }
    }
    Ok(lengths)
}

/// Bytes of the lists in which codewords of these lengths are looked up.
fn lists(lengths: &[u64; LONGEST + 1]) -> Result<u64, CodebookError> {
    let Some(longest) = lengths.iter().rposition(|it| *it > 0) else { return Ok(0) };
    // One codeword alone is taken as two.
    let alone = longest == 1 && lengths[1] == 1;
    // Prefixes of each length, and those of them that are no codewords.
    let (mut prefixes, mut lists) = (1, 1);
    for (length, codewords) in lengths.iter().enumerate().take(longest + 1) {
        let open = u64::checked_sub(prefixes, *codewords).ok_or(CodebookError::TooMany)?;
        if length == longest && open > 0 && !alone {
            return Err(CodebookError::TooFew);
        }
        if length > 0 && length % AT_ONCE == 0 {
            lists += open;
        }
        prefixes = 2 * open;
    }
    let places = 1u64 << longest.clamp(AT_ONCE / 2, AT_ONCE);
    Ok(lists * (places * OF_PLACE + OF_LIST))
}

/// The largest number whose power with that exponent is at most `entries`: how many values each dimension has.
fn side(entries: u32, dimensions: u32) -> Result<u64, CodebookError> {
    if dimensions == 0 {
        return Err(CodebookError::NoDimensions);
    }
    let fits = |side: u32| side.checked_pow(dimensions).is_some_and(|it| it <= entries);
    let (mut fitting, mut beyond) = (0, entries + 1);
    while fitting + 1 < beyond {
        let between = fitting.midpoint(beyond);
        *(if fits(between) { &mut fitting } else { &mut beyond }) = between;
    }
    Ok(u64::from(fitting))
}

fn read(bits: &mut BitReaderRtl<'_>, count: u32) -> Result<u32, CodebookError> {
    bits.read_bits_leq32(count).map_err(|_| CodebookError::Ended)
}

fn skip(bits: &mut BitReaderRtl<'_>, count: u64) -> Result<(), CodebookError> {
    let skipped = u32::try_from(count).ok().and_then(|count| bits.ignore_bits(count).ok());
    skipped.ok_or(CodebookError::Ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, format::Format, inspect, limits::Limits, packets::Stream};

    /// Bits, the lowest of a byte first.
    #[derive(Default)]
    struct Bits {
        bytes: Vec<u8>,
        count: usize,
    }

    impl Bits {
        fn put(&mut self, value: u32, count: u32) -> &mut Bits {
            for bit in 0..count {
                if self.count.is_multiple_of(8) {
                    self.bytes.push(0);
                }
                if let Some(last) = self.bytes.last_mut() {
                    *last |= (value.checked_shr(bit).unwrap_or(0) as u8 & 1) << (self.count % 8);
                }
                self.count += 1;
            }
            self
        }

        /// A codebook whose codewords all have `length` bits, with values of kind 1 where it has dimensions.
        fn codebook(&mut self, length: u32, dimensions: u32) -> &mut Bits {
            let entries = 1 << length;
            self.put(CODEBOOK, 24).put(dimensions.max(1), 16).put(entries, 24);
            self.put(1, 1).put(length - 1, 5).put(entries, length + 1);
            match dimensions {
                0 => self.put(0, 4),
                _ => {
                    let values = side(entries, dimensions).unwrap() as u32;
                    self.put(1, 4).put(0, 32).put(0, 32).put(0, 4).put(0, 1).put(0, values)
                }
            }
        }
    }

    /// The first and the third header, with these codebooks and nothing behind them.
    fn headers(codebooks: &[(u32, u32)]) -> Vec<u8> {
        let mut bits = Bits::default();
        bits.put(codebooks.len() as u32 - 1, 8);
        for (length, dimensions) in codebooks {
            bits.codebook(*length, *dimensions);
        }
        let first = [b"\x01vorbis\0\0\0\0\x01".as_slice(), &8_000u32.to_le_bytes(), &[0; 12]];
        [&first.concat(), [0x88, 1].as_slice(), SETUP, &bits.bytes].concat()
    }

    /// A stream of Ogg with these headers and one page more.
    fn stream(headers: &[u8]) -> Vec<u8> {
        let (first, third) = headers.split_at(IDENTIFICATION);
        let mut comment = b"\x03vorbis".to_vec();
        comment.extend([0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let pages = [(2, first), (0, &comment), (0, third), (4, &[0, 0])];
        let page = |(number, (flags, packet)): (usize, (u8, &[u8]))| {
            let mut lengths = vec![255; packet.len() / 255];
            lengths.push((packet.len() % 255) as u8);
            let head = [b"OggS\0".as_slice(), &[flags], &[0; 8], &[7, 0, 0, 0], &[number as u8]];
            let tail = [[0; 7].as_slice(), &[lengths.len() as u8], &lengths, packet];
            let mut page = [head.concat(), tail.concat()].concat();
            let sum = checksum(&page).to_le_bytes();
            page[22..26].copy_from_slice(&sum);
            page
        };
        pages.into_iter().enumerate().flat_map(page).collect()
    }

    fn checksum(bytes: &[u8]) -> u32 {
        bytes.iter().fold(0, |sum, byte| {
            let start = sum ^ u32::from(*byte) << 24;
            (0..8).fold(start, |it, _| it << 1 ^ if it >> 31 == 1 { 0x04c1_1db7 } else { 0 })
        })
    }

    #[test]
    fn codebooks_of_few_bytes_that_stand_for_gigabytes_are_refused_before_they_are_made() {
        for codebooks in [&[(17, 31); 256][..], &[(17, 0); 256], &[(17, 0)], &[(12, 31); 256]] {
            let file = stream(&headers(codebooks));
            assert!(file.len() < 12_000, "{}", file.len());
            for with in [
                |it: &[u8]| inspect(it, &Limits::default()).map(drop),
                |it: &[u8]| decode(it, &Limits::default()).map(drop),
            ] {
                let mut error = String::new();
                let memory = allocation_counter::measure(|| {
                    error = with(&file).unwrap_err().to_string();
                });
                assert!(error.contains("codebooks of more than 64 MiB"), "{error}");
                assert!(memory.bytes_max < 1 << 20, "{} bytes", memory.bytes_max);
            }
        }
    }

    #[test]
    fn no_decoder_takes_more_than_was_counted() {
        for codebooks in [&[(1, 1)][..], &[(8, 4)], &[(9, 2), (9, 0)], &[(12, 1); 4], &[(13, 31)]] {
            let headers = headers(codebooks);
            let counted = most_bytes(&headers, 1).unwrap();
            let mut broken = None;
            let memory = allocation_counter::measure(|| {
                broken = decode(&stream(&headers), &Limits::default()).err();
            });
            // Codebooks are made before the header is found to end behind them.
            assert!(broken.unwrap().to_string().contains("broken after 0 samples"));
            assert!(memory.bytes_max < counted + (1 << 20), "{} {counted}", memory.bytes_max);
            assert!(counted < 4 * memory.bytes_max + (1 << 20), "{} {counted}", memory.bytes_max);
        }
    }

    #[test]
    fn more_channels_than_are_decoded_right_are_refused() {
        let mut headers = headers(&[(1, 1)]);
        headers[b"\x01vorbis\0\0\0\0".len()] = 3;
        for error in [
            inspect(&stream(&headers), &Limits::default()).unwrap_err(),
            decode(&stream(&headers), &Limits::default()).unwrap_err(),
        ] {
            let expected = "the sound is Ogg Vorbis with 3 channels, which is not read";
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_codebook_at_which_the_reader_panics_is_an_error() {
        let error = inspect(&stream(&headers(&[(4, 32)])), &Limits::default()).unwrap_err();
        assert!(error.to_string().ends_with("its decoder has given up"), "{error}");
    }

    #[test]
    fn usual_sounds_are_far_from_the_bound() {
        for file in [
            &include_bytes!("../../../tests/fixtures/pipelines/sounds/mono.ogg")[..],
            include_bytes!("../../../tests/fixtures/pipelines/sounds/stereo.ogg"),
        ] {
            let stream = Stream::open(Format::Ogg, file, &|| true).unwrap();
            assert!(stream.header.decoder < MOST / 4, "{}", stream.header.decoder);
        }
    }

    #[test]
    fn what_is_wrong_in_a_codebook_is_said() {
        let check = |bits: &mut Bits, expect: &str| {
            let mut wrong = headers(&[(1, 0)]);
            wrong.truncate(IDENTIFICATION + SETUP.len() + 1);
            wrong.append(&mut bits.bytes);
            let error = most_bytes(&wrong, 1).unwrap_err().to_string();
            assert_eq!(error, format!("codebook 0: {expect}"));
        };
        let book = |entries| {
            let mut bits = Bits::default();
            bits.put(CODEBOOK, 24).put(1, 16).put(entries, 24);
            bits
        };
        check(Bits::default().put(5, 24), "it does not begin as one");
        check(&mut book(2), "the header ends within it");
        check(book(2).put(1, 1).put(31, 5).put(0, 2).put(2, 2), "a codeword has more than 32 bits");
        check(book(2).put(1, 1).put(0, 5).put(3, 2), "it has more codewords than entries");
        check(book(3).put(0, 2).put(0, 15).put(0, 4), "it has too many codewords");
        check(book(2).put(0, 2).put(1, 10).put(0, 4), "it has too few codewords");
        check(book(2).put(0, 2).put(0, 10).put(3, 4), "its values are of kind 3, 0 to 2 are known");
        check(book(2).put(0, 2).put(0, 10).put(2, 4), "the header ends within it");
        assert!(most_bytes(b"\x01vorbis", 1).unwrap_err().to_string().contains("is missing"));
    }
}
