//! Images that lie: bombs are refused before anything is allocated, and broken files are errors.

mod bombs;

use std::{cell::Cell, fs, path::Path};

use allocation_counter::measure;
use backend_image::{Decoder, Format, ImageError, JpegLibrary, Limits, header};

use bombs::{bombs, position};

/// Most memory that refusing an image may take.
const MOST_BYTES: u64 = 1 << 20;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/files");

fn decoders() -> [Decoder; 2] {
    let library = std::env::var_os("MUSTER_TEST_JPEG_LIBRARY");
    let library = library.map_or(JpegLibrary::Auto, |it| JpegLibrary::File(it.into()));
    let open = |library| Decoder::open(&library).expect("the library that was named");
    [open(library), open(JpegLibrary::None)]
}

/// All images of the golden files with their names.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(FILES)
        .expect("the folder")
        .map(|it| it.expect("a file").path())
        .map(|it| {
            let name = it.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read(it).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

fn file(name: &str) -> Vec<u8> {
    files().into_iter().find(|it| it.0 == name).expect(name).1
}

#[test]
fn bombs_are_refused_by_both_decoders_with_next_to_no_memory() {
    let bombs = bombs(Path::new(FILES));
    assert!(15 <= bombs.len());
    for (bomb, decoder) in bombs.iter().flat_map(|it| decoders().map(|decoder| (it, decoder))) {
        let (name, mut result) = (bomb.name, None);
        let used = measure(|| result = Some(decoder.decode(&bomb.bytes, &Limits::default())));
        let text = result.expect("it has run").expect_err(name).to_string();
        assert!(text.contains(bomb.refused), "{name}: {text}");
        assert!(used.bytes_max < MOST_BYTES, "{name}: {} bytes, {text}", used.bytes_max);
    }
}

#[test]
fn data_that_unfolds_beyond_its_image_is_refused_or_left_alone() {
    // A chunk of text and a profile that unfold to nothing that is asked for, in front of a good image.
    let png = file("rgb-8.png");
    let zeros = deflated(64 << 20);
    for name in [b"zTXt", b"iCCP"] {
        let mut data = b"key\0\0".to_vec();
        data.extend(&zeros);
        let mut bytes = png[..33].to_vec();
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(name);
        bytes.extend(&data);
        // The check sum is wrong, which is no reason to look into the chunk.
        bytes.extend([0; 4]);
        bytes.extend(&png[33..]);
        let decoder = &decoders()[0];
        let used = measure(|| drop(decoder.decode(&bytes, &Limits::default())));
        assert!(used.bytes_max < MOST_BYTES, "{} bytes", used.bytes_max);
    }
    // The data of a small image unfolds to much more than its rows need.
    let at = position(&png, b"IDAT");
    let mut bytes = png[..at - 4].to_vec();
    bytes.extend((zeros.len() as u32).to_be_bytes());
    bytes.extend(b"IDAT");
    bytes.extend(&zeros);
    let decoder = &decoders()[0];
    let used = measure(|| drop(decoder.decode(&bytes, &Limits::default())));
    assert!(used.bytes_max < MOST_BYTES, "{} bytes", used.bytes_max);
}

/// So many zeros as a stream of zlib, whose check sum is missing.
fn deflated(zeros: usize) -> Vec<u8> {
    // One block with the fixed code: a zero, then runs of 258 at distance 1, bit by bit from the lowest.
    let mut bits: Vec<bool> = vec![true, true, false];
    let mut push =
        |code: u32, length: u32| bits.extend((0..length).rev().map(|it| code >> it & 1 == 1));
    push(0b0011_0000, 8);
    for _ in 0..zeros / 258 {
        push(0b1100_0101, 8);
        push(0, 5);
    }
    push(0, 7);
    let bytes =
        bits.chunks(8).map(|it| it.iter().enumerate().map(|(at, bit)| u8::from(*bit) << at).sum());
    [0x78, 0x9C].into_iter().chain(bytes).collect()
}

#[test]
fn files_that_end_too_soon_are_errors() {
    for decoder in decoders() {
        // The first of several frames or pages may well lie in the first half.
        let files = files();
        for (name, bytes) in
            files.iter().filter(|(it, _)| !it.contains("frames") && !it.contains("pages"))
        {
            let half = &bytes[..bytes.len() / 2];
            let result = decoder.decode(half, &Limits::default());
            assert!(result.is_err(), "{name} with {}", decoder.jpeg());
        }
    }
}

#[test]
fn decoding_holds_no_more_than_the_header_says() {
    let mut seen = 0;
    for decoder in decoders() {
        for (name, bytes) in files() {
            let header = header(&bytes).expect(&name);
            let mut result = None;
            let used = measure(|| result = Some(decoder.decode(&bytes, &Limits::default())));
            let image = result.expect("it has run").expect(&name);
            assert_eq!(u64::from(image.width) * u64::from(image.height), header.pixels());
            let (most, said) = (used.bytes_max, header.decoded_bytes);
            assert!(most <= said, "{name} with {}: {most} bytes, {said} said", decoder.jpeg());
            seen += 1;
        }
    }
    assert!(seen > 200);
}

/// Numbers without a seed from outside, so that a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }
}

fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        // Headers are short, and most of what is interesting lies in them.
        let end = if random.below(2) == 0 { bytes.len() } else { bytes.len().min(100) };
        let at = random.below(end);
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF][random.below(6)],
            3 => bytes.truncate(at.max(4)),
            4 => bytes.insert(at, random.below(256) as u8),
            _ => {
                let from = random.below(bytes.len());
                let piece = bytes[from..bytes.len().min(from + random.below(40))].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

#[test]
fn mutated_files_are_images_or_errors() {
    const EACH: usize = 3000;
    let limits = Limits { max_pixels: 100_000 };
    let formats = [Format::Jpeg, Format::Png, Format::WebP, Format::Gif, Format::Bmp, Format::Tiff];
    let files = files();
    // Decoders that panic are caught, and would fill the log of the test.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut report = Vec::new();
    for decoder in decoders() {
        for format in formats {
            let files: Vec<_> =
                files.iter().filter(|it| Format::of(&it.1) == Some(format)).collect();
            let mut random = Random(0x9E37_79B9_7F4A_7C15);
            let (mut images, mut panics) = (0, 0);
            for round in 0..EACH {
                let bytes = mutated(&files[round % files.len()].1, &mut random);
                match decoder.decode(&bytes, &limits) {
                    Ok(image) => {
                        assert_eq!(
                            image.pixels.len(),
                            image.width as usize * image.height as usize * 3
                        );
                        images += 1;
                    }
                    Err(error) => panics += usize::from(error.to_string().contains("given up")),
                }
            }
            report.push((format, decoder.jpeg().to_owned(), images, panics));
        }
    }
    std::panic::set_hook(hook);
    println!("{report:?}");
    assert!(report.iter().all(|it| it.2 > 0), "some survive: {report:?}");
}

#[test]
fn an_image_that_is_not_wanted_any_more_is_given_up() {
    for (name, bytes) in files() {
        for decoder in decoders() {
            let asked = Cell::new(0);
            let count = |most: usize| {
                asked.set(0);
                let wanted = || {
                    asked.set(asked.get() + 1);
                    asked.get() <= most
                };
                decoder.decode_while(&bytes, &Limits::default(), &wanted)
            };
            let Ok(all) = count(usize::MAX) else { continue };
            let times = asked.get();
            assert!(1 <= times, "{name}");
            for most in [0, times / 2, times - 1] {
                assert_eq!(count(most), Err(ImageError::Stopped), "{name}, {most} of {times}");
            }
            assert_eq!(count(times), Ok(all), "{name}");
        }
    }
}

#[test]
fn the_decoder_of_jpeg_inside_ends_within() {
    let decoder = Decoder::open(&JpegLibrary::None).expect("the decoder inside");
    let jpegs = files().into_iter().filter(|(_, bytes)| bytes.starts_with(&[0xFF, 0xD8, 0xFF]));
    let mut longest = 0;
    for (name, bytes) in jpegs {
        let asked = Cell::new(0);
        let wanted = || {
            asked.set(asked.get() + 1);
            true
        };
        let decoded = decoder.decode_while(&bytes, &Limits::default(), &wanted);
        // Of each four bytes; a part of a file is no data.
        let least = bytes.len() / 2048;
        assert!(decoded.is_err() || least < asked.get(), "{name}: {} bytes", bytes.len());
        longest = longest.max(least);
    }
    assert!(1 <= longest, "a file is long enough to tell");
}

#[test]
fn it_is_asked_for_every_kilobyte_whether_an_image_is_wanted() {
    // Six million black pixels in some kilobytes.
    let (width, height) = (3_000u32, 2_000u32);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("a header");
    let black = vec![0; (width * height * 3) as usize];
    writer.write_image_data(&black).expect("an image");
    writer.finish().expect("an end");
    let decoder = &decoders()[0];
    let asked = Cell::new(0);
    let wanted = || {
        asked.set(asked.get() + 1);
        true
    };
    decoder.decode_while(&bytes, &Limits::default(), &wanted).expect("an image");
    // A kilobyte becomes at most a megabyte.
    assert!(bytes.len() / 1024 < asked.get(), "{} times for {} bytes", asked.get(), bytes.len());
}
