//! Images that lie: bombs are refused before anything is allocated, and broken files are errors.

use std::{
    cell::Cell,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use allocation_counter::measure;
use backend_image::{Decoder, Format, ImageError, JpegLibrary, Limits, header};

/// Most time and memory that refusing an image may take.
const MOST_TIME: Duration = Duration::from_millis(5);
const MOST_BYTES: u64 = 1 << 20;

fn decoders() -> Vec<Decoder> {
    let library = std::env::var_os("MUSTER_TEST_JPEG_LIBRARY");
    let library = library.map_or(JpegLibrary::Auto, |it| JpegLibrary::File(it.into()));
    let open = |library| Decoder::open(&library).expect("the library that was named");
    vec![open(library), open(JpegLibrary::None)]
}

/// All images of the golden files with their names.
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/files"));
    let mut files: Vec<_> = fs::read_dir(folder)
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

/// The image is refused by both decoders, in no time, and with next to no memory.
#[track_caller]
fn check_refused(name: &str, bytes: &[u8], is_expected: impl Fn(&ImageError) -> bool) {
    for decoder in decoders() {
        // Other threads may have the processor for a while: the shortest of some attempts counts.
        let mut shortest = Duration::MAX;
        for _ in 0..20 {
            let mut result = None;
            let begin = Instant::now();
            let used = measure(|| result = Some(decoder.decode(bytes, &Limits::default())));
            shortest = shortest.min(begin.elapsed());
            let error = result.expect("it has run").expect_err(name);
            assert!(is_expected(&error), "{name}: {error}");
            assert!(used.bytes_max < MOST_BYTES, "{name}: {} bytes, {error}", used.bytes_max);
        }
        assert!(shortest < MOST_TIME, "{name}: {shortest:?}");
    }
}

fn is_too_large(error: &ImageError) -> bool {
    matches!(error, ImageError::TooManyPixels { .. })
}

fn is_broken(error: &ImageError) -> bool {
    matches!(error, ImageError::Broken { .. } | ImageError::Unsupported { .. })
}

/// The bytes with others in their place from `at` on.
fn patched(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

fn position(bytes: &[u8], of: &[u8]) -> usize {
    bytes.windows(of.len()).position(|it| it == of).expect("it is there")
}

#[test]
fn sizes_of_headers_are_refused_before_anything_is_allocated() {
    let png = file("rgb-8.png");
    let size = [0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0xFF];
    check_refused("png", &patched(&png, 16, &size), is_too_large);

    let jpeg = file("420-q75.jpg");
    let frame = position(&jpeg, &[0xFF, 0xC0]);
    check_refused("jpeg", &patched(&jpeg, frame + 5, &[0xFF; 4]), is_too_large);

    let gif = file("L.gif");
    check_refused("gif", &patched(&gif, 6, &[0xFF; 4]), is_too_large);

    let bmp = file("RGB.bmp");
    check_refused("bmp", &patched(&bmp, 18, &[0xFF, 0xFF, 0xFF, 0x7F]), is_too_large);

    let webp = file("lossless-exif-3.webp");
    let canvas = position(&webp, b"VP8X") + 12;
    check_refused("webp", &patched(&webp, canvas, &[0xFF; 6]), is_too_large);

    // Width is the first entry of the directory, and its value a number of 32 bits.
    let tiff = file("RGB-plain.tiff");
    let at = u32::from_le_bytes(tiff[4..8].try_into().expect("four bytes")) as usize;
    let wide = patched(&tiff, at + 2, &[0, 1, 4, 0, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F]);
    check_refused("tiff", &wide, is_too_large);
}

#[test]
fn a_frame_that_is_larger_than_its_screen_is_refused() {
    let gif = file("small-frame.gif");
    let frame = position(&gif, &[0x2C, 4, 0, 5, 0]);
    check_refused("gif", &patched(&gif, frame + 5, &[0xFF; 4]), is_broken);

    // The picture within says another size than the file around it.
    let webp = file("lossless-exif-3.webp");
    let at = position(&webp, b"VP8L");
    check_refused("webp", &patched(&webp, at + 9, &[0xFF, 0xFF, 0xFF, 0x0F]), is_broken);
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
fn a_jpeg_of_very_many_scans_is_refused() {
    let jpeg = file("420-progressive.jpg");
    let scan = position(&jpeg, &[0xFF, 0xDA]);
    let end = jpeg.len() - 2;
    let mut bytes = jpeg[..end].to_vec();
    for _ in 0..200 {
        bytes.extend(&jpeg[scan..end]);
    }
    bytes.extend([0xFF, 0xD9]);
    check_refused("scans", &bytes, |it| *it == ImageError::TooManyScans { limit: 100 });
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
fn a_tag_of_a_tiff_with_very_many_values_is_refused() {
    let mut tiff = file("RGB-plain.tiff");
    let first = u32::from_le_bytes([tiff[4], tiff[5], tiff[6], tiff[7]]) as usize;
    let photometric = (0..20).map(|it| first + 2 + it * 12).find(|at| tiff[*at..][..2] == [6, 1]);
    let at = photometric.expect("the kind of colours");
    tiff[at + 4..at + 8].copy_from_slice(&4000u32.to_le_bytes());
    check_refused("values", &tiff, |it| it.to_string().contains("tag 262 has 4000 values"));
}

#[test]
fn a_lossy_webp_whose_parts_would_be_longer_than_the_file_takes_no_memory_for_them() {
    // Eight partitions by its header, of whose sizes the file has nothing.
    let mut webp = b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0".to_vec();
    let tag = 8u32 << 5 | 1 << 4;
    webp.extend(&tag.to_le_bytes()[..3]);
    webp.extend(b"\x9d\x01\x2a\x10\0\x10\0");
    webp.extend([0, 3, 255, 255, 255, 255, 255, 255]);
    webp.extend([255; 6]);
    check_refused("partitions", &webp, |it| it.to_string().contains("longer than the file"));
}

/// A chunk of WebP.
fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_le_bytes();
    [name, &length[..], content, &[0][..content.len() % 2]].concat()
}

#[test]
fn a_lossy_frame_that_is_larger_than_its_canvas_takes_no_memory() {
    let lossy = file("lossy.webp");
    let at = position(&lossy, b"VP8 ") + 8;
    let size = 4_000u16.to_le_bytes();
    let large = chunk(b"VP8 ", &patched(&lossy[at..], 6, &[size, size].concat()));
    let webp = |flags: u8, chunks: &[&[u8]]| {
        let canvas = chunk(b"VP8X", &[flags, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let content = [b"WEBP", &canvas[..], &chunks.concat()].concat();
        chunk(b"RIFF", &content)
    };
    let other = chunk(b"none", b"");
    let animation = chunk(b"ANIM", &[0; 6]);
    let frame = |chunks: &[u8]| chunk(b"ANMF", &[&[0; 16], chunks].concat());
    // By its own length it reaches far beyond the frame that it is in.
    let hiding = frame(&[&b"none\xff\xff\xff\0"[..], &[0; 16]].concat());
    for (name, bytes) in [
        ("plain", webp(0, &[&large])),
        ("behind many", webp(0, &[&other.repeat(20_000), &large])),
        ("animated", webp(2, &[&animation, &frame(&large)])),
        ("behind a chunk that is too long", webp(0, &[&hiding, &large])),
    ] {
        check_refused(name, &bytes, |it| {
            it.to_string().ends_with("1x1 pixels is said to have 4000x4000 where it begins")
        });
    }
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
