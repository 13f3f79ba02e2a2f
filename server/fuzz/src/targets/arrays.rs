//! NumPy's files and archives.

use std::io::Write;

use flate2::{Compression, write::DeflateEncoder};

use super::{
    Target,
    invocations::{examples, invoke},
};

const WORDS: &[&str] = &[
    "'descr': '",
    "'<f4'",
    "'>f8'",
    "'|u1'",
    "'|b1'",
    "'<i8'",
    "'|S3'",
    "'<U2'",
    "'<f2'",
    "'fortran_order': ",
    "True",
    "False",
    "'shape': (",
    "()",
    "(1,)",
    "(1, 2)",
    ", ",
    "\n",
    "\u{93}NUMPY",
    "PK\u{1}\u{2}",
    "PK\u{3}\u{4}",
    "PK\u{5}\u{6}",
    "x.npy",
    "indptr.npy",
    "indices.npy",
    "data.npy",
    "shape.npy",
    "format.npy",
    "csr",
    "csc",
    "coo",
];

fn npy(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0".as_slice(), &length, header.as_bytes(), data].concat()
}

fn files() -> Vec<Vec<u8>> {
    let one = 1.0f32.to_le_bytes();
    vec![
        npy("<f4", "False", "(1, 2)", &one.repeat(2)),
        npy("<f4", "True", "(2, 3)", &one.repeat(6)),
        npy(">f8", "False", "(1, 3)", &[0; 24]),
        npy("<i8", "False", "(2, 1)", &[1; 16]),
        npy("|u1", "False", "(3,)", &[1, 2, 3]),
        npy("|b1", "False", "(1, 1)", &[1]),
        npy("<U2", "False", "(1, 1)", &[97, 0, 0, 0, 98, 0, 0, 0]),
        npy("|S3", "True", "(2, 1)", b"abcde\0"),
        npy("<f2", "False", "(1, 2)", &[0, 60, 0, 60]),
        [b"\x93NUMPY\x02\0\x10\0\0\0".as_slice(), b"{'descr': '<f4'}"].concat(),
    ]
}

/// One array.
pub(super) const NPY: Target = Target {
    name: "npy",
    decode: |data| invoke(Some("application/x-npy"), data),
    examples: || examples(&files()),
    words: WORDS,
};

/// An archive of these files.
fn archive(files: &[(&str, Vec<u8>)], deflate: bool) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in files {
        let mut packed = data.clone();
        if deflate {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(data).expect("memory does not fail");
            packed = encoder.finish().expect("memory does not fail");
        }
        let mut common = vec![20, 0, 0, 0, if deflate { 8 } else { 0 }, 0, 0, 0, 0, 0];
        common.extend(crc32fast::hash(data).to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((data.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(packed);
    }
    let (start, length) =
        ((out.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let count = (files.len() as u16).to_le_bytes();
    out.extend(directory);
    out.extend(
        [b"PK\x05\x06\0\0\0\0".as_slice(), &count, &count, &length, &start, &[0, 0]].concat(),
    );
    out
}

/// Several arrays, or a sparse matrix.
pub(super) const NPZ: Target = Target {
    name: "npz",
    decode: |data| invoke(Some("application/x-npz"), data),
    examples: || {
        let integers = |values: &[i64]| {
            let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
            npy("<i8", "False", &format!("({},)", values.len()), &data)
        };
        let sparse = |format: &str| {
            vec![
                (
                    "format.npy",
                    npy(&format!("|S{}", format.len()), "False", "()", format.as_bytes()),
                ),
                ("shape.npy", integers(&[2, 3])),
                ("indptr.npy", integers(&[0, 1, 2])),
                ("indices.npy", integers(&[0, 2])),
                ("data.npy", npy("<f4", "False", "(2,)", &[0; 8])),
            ]
        };
        let mut bodies = Vec::new();
        for deflate in [false, true] {
            bodies.extend(files().into_iter().map(|it| archive(&[("x.npy", it)], deflate)));
            bodies.push(archive(&[("x.npy", integers(&[1])), ("y.npy", integers(&[2]))], deflate));
            bodies.extend(["csr", "csc", "coo"].map(|it| archive(&sparse(it), deflate)));
        }
        examples(&bodies)
    },
    words: WORDS,
};
