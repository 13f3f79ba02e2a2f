//! Images that lie about themselves: small files that say, or lead to, much more than they hold.

use std::{fs, path::Path};

/// A file, and a part of what is said of it when it is refused.
pub struct Bomb {
    /// What is wrong with it.
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub refused: &'static str,
}

/// All of them, made of the golden files of this folder.
pub fn bombs(files: &Path) -> Vec<Bomb> {
    let file = |name: &str| {
        let path = files.join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut all = Vec::new();
    let mut bomb = |name, refused, bytes| all.push(Bomb { name, bytes, refused });

    const PIXELS: &str = "expected at most 50000000 pixels";
    let png = file("rgb-8.png");
    let size = [0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0xFF];
    bomb("a PNG of 65,535 x 65,535 pixels", PIXELS, patched(&png, 16, &size));
    let jpeg = file("420-q75.jpg");
    let frame = position(&jpeg, &[0xFF, 0xC0]);
    bomb("a JPEG of 65,535 x 65,535 pixels", PIXELS, patched(&jpeg, frame + 5, &[0xFF; 4]));
    let gif = file("L.gif");
    bomb("a GIF of 65,535 x 65,535 pixels", PIXELS, patched(&gif, 6, &[0xFF; 4]));
    let bmp = file("RGB.bmp");
    bomb("a BMP that is 2 billion wide", PIXELS, patched(&bmp, 18, &[0xFF, 0xFF, 0xFF, 0x7F]));
    let webp = file("lossless-exif-3.webp");
    let canvas = position(&webp, b"VP8X") + 12;
    bomb("a WebP of 16,777,216 x 16,777,216", PIXELS, patched(&webp, canvas, &[0xFF; 6]));
    // Width is the first entry of the directory, and its value a number of 32 bits.
    let tiff = file("RGB-plain.tiff");
    let first = u32::from_le_bytes([tiff[4], tiff[5], tiff[6], tiff[7]]) as usize;
    let width = [0, 1, 4, 0, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F];
    bomb("a TIFF that is 2 billion wide", PIXELS, patched(&tiff, first + 2, &width));

    let small = file("small-frame.gif");
    let frame = position(&small, &[0x2C, 4, 0, 5, 0]);
    bomb("a frame of a GIF beyond its screen", "GIF", patched(&small, frame + 5, &[0xFF; 4]));
    // The picture within says another size than the file around it.
    let at = position(&webp, b"VP8L");
    let within = patched(&webp, at + 9, &[0xFF, 0xFF, 0xFF, 0x0F]);
    bomb("a WebP beyond its canvas", "WebP", within);
    let progressive = file("420-progressive.jpg");
    bomb("a JPEG of 200 times its scans", "more than 100 scans", scans(&progressive, 200));
    let tag = (0..20).map(|it| first + 2 + it * 12).find(|at| tiff[*at..][..2] == [6, 1]);
    let tag = tag.expect("the kind of colours");
    let values = patched(&tiff, tag + 4, &4000u32.to_le_bytes());
    bomb("a tag of a TIFF with 4,000 values", "tag 262 has 4000 values", values);
    bomb("a WebP of parts beyond its end", "longer than the file", partitions());
    for (name, bytes) in large_frames(&file("lossy.webp")) {
        bomb(name, "1x1 pixels is said to have 4000x4000 where it begins", bytes);
    }
    all
}

/// The bytes with others in their place from `at` on.
pub fn patched(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

/// Where these bytes begin in others, which have them.
pub fn position(bytes: &[u8], of: &[u8]) -> usize {
    bytes.windows(of.len()).position(|it| it == of).expect("it is there")
}

/// A JPEG whose scans stand there so many times more.
fn scans(jpeg: &[u8], times: usize) -> Vec<u8> {
    let scan = position(jpeg, &[0xFF, 0xDA]);
    let (whole, end) = jpeg.split_at(jpeg.len() - 2);
    [whole, &whole[scan..].repeat(times), end].concat()
}

/// A lossy WebP of eight partitions by its header, of whose sizes the file has nothing.
fn partitions() -> Vec<u8> {
    let mut webp = b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0".to_vec();
    let tag = 8u32 << 5 | 1 << 4;
    webp.extend(&tag.to_le_bytes()[..3]);
    webp.extend(b"\x9d\x01\x2a\x10\0\x10\0");
    webp.extend([0, 3, 255, 255, 255, 255, 255, 255]);
    webp.extend([255; 6]);
    webp
}

/// A chunk of WebP.
fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_le_bytes();
    [name, &length[..], content, &[0][..content.len() % 2]].concat()
}

/// Files of one pixel with a lossy frame of 4,000 x 4,000, at several places.
fn large_frames(lossy: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let at = position(lossy, b"VP8 ") + 8;
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
    [
        ("a lossy frame of a WebP beyond its canvas", webp(0, &[&large])),
        ("the same behind 20,000 chunks", webp(0, &[&other.repeat(20_000), &large])),
        ("the same in an animation", webp(2, &[&animation, &frame(&large)])),
        ("the same behind a chunk that is too long", webp(0, &[&hiding, &large])),
    ]
}
