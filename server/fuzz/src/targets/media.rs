//! Files of images and of sounds: what their headers say, and what decoding them takes.

use std::{fs, path::Path, sync::LazyLock};

use audio::Wav2Vec2;
use image::{Decoder, JpegLibrary};

use super::Target;
use crate::{oracle, seen::Seen};

/// Most pixels of an image: few, so that many are tried.
const PIXELS: image::Limits = image::Limits { max_pixels: 1 << 16 };

/// Bytes that reading a header takes at most.
const HEADER: usize = 1 << 20;

/// The same of a sound, whose tables may be many.
const HEADER_OF_SOUND: usize = 4 << 20;

/// Longest example in bytes: others are cut by mutations anyhow.
const LONGEST: u64 = 1 << 15;

/// Images by the decoders inside.
pub(super) const IMAGE: Target = Target {
    name: "image",
    decode: |data| {
        static DECODER: LazyLock<Decoder> =
            LazyLock::new(|| Decoder::open(&JpegLibrary::None).expect("it is inside"));
        decode_image(data, &DECODER)
    },
    examples: images,
    words: WORDS_OF_IMAGES,
};

/// Images, and JPEG by the library that the system has.
pub(super) const IMAGE_BY_LIBRARY: Target = Target {
    name: "image-by-library",
    decode: |data| {
        static DECODER: LazyLock<Decoder> =
            LazyLock::new(|| Decoder::open(&JpegLibrary::Auto).expect("none is named"));
        decode_image(data, &DECODER)
    },
    examples: images,
    words: WORDS_OF_IMAGES,
};

const WORDS_OF_IMAGES: &[&str] = &[
    "IHDR", "IDAT", "PLTE", "tRNS", "eXIf", "VP8 ", "VP8L", "VP8X", "ALPH", "ANMF", "II*\0",
    "MM\0*", "Exif\0\0",
];

fn decode_image(data: &[u8], decoder: &Decoder) -> Seen {
    let mut seen = Seen::default();
    let header = oracle::within_asked(HEADER, || image::header(data));
    let Some(header) = seen.result(header) else { return seen };
    seen.fact(header.format.to_string());
    let checked = header.check(&PIXELS);
    let decoded = match seen.result(checked).is_some() {
        // As much as the server takes of its budget for it.
        true => {
            let asked = usize::try_from(header.decoded_bytes).expect("few pixels");
            oracle::within_asked(asked, || decoder.decode(data, &PIXELS))
        }
        false => oracle::within_asked(HEADER, || decoder.decode(data, &PIXELS)),
    };
    if let Some(image) = seen.result(decoded) {
        assert_eq!((image.height, image.width), header.upright(), "the header says its size");
        let bytes = image.width as usize * image.height as usize * 3;
        assert_eq!(image.pixels.len(), bytes, "every pixel is there");
    }
    seen
}

/// Sounds of all forms.
pub(super) const SOUND: Target = Target {
    name: "sound",
    decode: |data| {
        let mut seen = Seen::default();
        let limits = audio::Limits { max_seconds: 4.0, ..audio::Limits::default() };
        let rate = Wav2Vec2::default().sampling_rate;
        let header = oracle::within_asked(HEADER_OF_SOUND, || audio::inspect(data, &limits));
        let Some(header) = seen.result(header) else { return seen };
        seen.fact(header.format.to_string());
        let asked = usize::try_from(header.most_bytes(rate, &limits)).expect("few seconds");
        let read = oracle::within_asked(asked, || audio::read(data, rate, &limits));
        if let Some(samples) = seen.result(read) {
            assert!(
                !samples.is_empty() && samples.iter().all(|it| it.is_finite()),
                "all are numbers"
            );
        }
        seen
    },
    examples: || files("tests/fixtures/pipelines/sounds"),
    words: &["RIFF", "WAVE", "fmt ", "data", "fLaC", "OggS", "ID3", "Xing", "LAME", "vorbis"],
};

fn images() -> Vec<Vec<u8>> {
    let mut all = files("backends/image/tests/golden/files");
    all.extend(files("tests/fixtures/pipelines/pictures"));
    all
}

/// The files of a folder of the project that are no text.
pub(super) fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .filter_map(|it| it.ok().map(|it| it.path()))
        .filter(|it| it.extension().is_none_or(|it| it != "jsonl"))
        .filter(|it| it.metadata().is_ok_and(|it| it.is_file() && it.len() <= LONGEST))
        .collect();
    paths.sort();
    paths.iter().filter_map(|it| fs::read(it).ok()).collect()
}
