//! Archives of arrays, whole and broken.

use std::io::Write;

use backend::Shape;
use flate2::{Compression, Crc, write::DeflateEncoder};
use proptest::prelude::*;

use super::*;
use crate::{
    npy,
    samples::{model, show_inputs},
};
use inference::error::Kind;

/// A file of an archive: its name, what is in it, and whether it is deflated.
type Given<'a> = (&'a str, Vec<u8>, bool);

/// An archive as Python's zipfile writes it.
fn archive(files: &[Given<'_>]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, data, deflated) in files {
        let mut crc = Crc::new();
        crc.update(data);
        let packed = match deflated {
            true => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            false => data.clone(),
        };
        let mut common = vec![0, 0];
        common.extend(if *deflated { 8u16 } else { 0 }.to_le_bytes());
        common.extend([0; 4]);
        common.extend(crc.sum().to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((data.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        let offset = archive.len() as u32;
        archive.extend(b"PK\x03\x04\x14\x00");
        archive.extend(&common);
        archive.extend([3, 0]);
        archive.extend(name.as_bytes());
        archive.extend(b"xyz");
        archive.extend(packed);
        directory.extend(b"PK\x01\x02\x14\x03\x14\x00");
        directory.extend(&common);
        directory.extend([0; 12]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let start = archive.len() as u32;
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([(files.len() as u16).to_le_bytes(); 2].concat());
    archive.extend((directory.len() as u32).to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([2, 0, b'o', b'k']);
    archive
}

fn array<T: backend::Element + Send>(dims: &[usize], values: Vec<T>) -> Vec<u8> {
    npy::encode(&Tensor::from_vec(Shape::new(dims), values).unwrap()).unwrap().concat()
}

fn matrix(form: &str, columns: Vec<i32>, starts: Vec<i32>, shape: Vec<i64>) -> Vec<u8> {
    let count = columns.len();
    let values: Vec<f64> = (1..=count).map(|it| it as f64).collect();
    let (rows, dims) = (starts.len(), shape.len());
    archive(&[
        ("indices.npy", array(&[count], columns), true),
        ("indptr.npy", array(&[rows], starts), true),
        ("format.npy", [npy::MAGIC, b"\x01\x00..", form.as_bytes()].concat(), true),
        ("shape.npy", array(&[dims], shape), true),
        ("data.npy", array(&[count], values), true),
    ])
}

fn read(signature: &Signature, body: &[u8]) -> Result<String, Error> {
    decode(signature, &Bytes::copy_from_slice(body), Some(1 << 30), &Grant::all(0))
        .map(|it| show_inputs(&it))
}

#[track_caller]
fn refused(signature: &Signature, body: &[u8], part: &str) {
    let error = read(signature, body).unwrap_err();
    assert!(error.to_string().contains(part), "{error}");
    assert_eq!(error.kind(), Kind::InvalidArgument);
}

fn one() -> Signature {
    model(8, &["x FP32 [3]"], &[])
}

fn two() -> Signature {
    model(8, &["a FP32 [2]", "b INT64 [1]"], &[])
}

#[test]
fn arrays_are_inputs_by_name_or_by_number() {
    let floats = array(&[2, 2], vec![1f64, 2.0, 3.0, 4.0]);
    let numbers = array(&[2, 1], vec![7i64, 8]);
    let expected = "b INT64 [2,1] [7,8]\na FP32 [2,2] [1.0,2.0,3.0,4.0]\n";
    for (a, b) in [("a.npy", "b.npy"), ("arr_0.npy", "arr_1.npy")] {
        for deflated in [true, false] {
            let files = [(b, numbers.clone(), deflated), (a, floats.clone(), deflated)];
            assert_eq!(read(&two(), &archive(&files)).unwrap(), expected);
        }
    }
    refused(&two(), &archive(&[("a.npy", floats, true), ("c.npy", numbers, true)]), "array 'c'");
}

#[test]
fn a_lone_array_is_the_only_input() {
    let body = archive(&[("whatever.npy", array(&[3], vec![1f32, 2.0, 3.0]), true)]);
    assert_eq!(read(&one(), &body).unwrap(), "x FP32 [1,3] [1.0,2.0,3.0]\n");
    refused(&one(), &archive(&[]), "no arrays");
}

#[test]
fn an_array_in_fortran_order_is_transposed() {
    let mut columns = array(&[2, 3], vec![1f64, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let at = columns.windows(5).position(|it| it == b"False").unwrap();
    columns[at..at + 5].copy_from_slice(b"True ");
    for deflated in [true, false] {
        let body = archive(&[("x.npy", columns.clone(), deflated)]);
        let expected = "x FP32 [2,3] [1.0,2.0,3.0,4.0,5.0,6.0]\n";
        assert_eq!(read(&one(), &body).unwrap(), expected);
    }
}

#[test]
fn a_sparse_matrix_becomes_dense_rows() {
    let body = matrix("csr", vec![0, 2, 1], vec![0, 2, 2, 3], vec![3, 3]);
    let expected = "x FP32 [3,3] [1.0,0.0,2.0,0.0,0.0,0.0,0.0,3.0,0.0]\n";
    assert_eq!(read(&one(), &body).unwrap(), expected);
    refused(&two(), &body, "a sparse matrix is one input");
    let csc = matrix("csc", vec![0], vec![0, 1], vec![1, 3]);
    refused(&one(), &csc, "expected a matrix in the form csr");
}

#[test]
fn a_sparse_matrix_that_does_not_hold_together_is_refused() {
    let refused = |columns, starts, shape, part: &str| {
        refused(&one(), &matrix("csr", columns, starts, shape), part);
    };
    refused(vec![3], vec![0, 1], vec![1, 3], "row 0 has a column 3, of 3");
    refused(vec![1, 1], vec![0, 2], vec![1, 3], "row 0 has column 1 twice");
    refused(vec![1], vec![0, 2], vec![1, 3], "indptr is wrong at row 0");
    refused(vec![1], vec![1, 0], vec![1, 3], "indptr is wrong at row 0");
    refused(vec![1], vec![0, 1], vec![2, 3], "indptr has 2 numbers for 2 rows");
    refused(vec![-1], vec![0, 1], vec![1, 3], "'indices' has a number below 0");
    refused(vec![1], vec![0, 1], vec![3], "expected a shape of 2 numbers, given 1");
}

#[test]
fn what_grows_too_much_is_refused_before_it_is_made() {
    let zeros = archive(&[("x.npy", array(&[1, 80 << 20], vec![0u8; 80 << 20]), true)]);
    let error = read(&one(), &zeros).unwrap_err();
    assert!(matches!(error, Error::BodyExpands { .. }), "{error}");
    let wide = matrix("csr", vec![], vec![0; 1 << 16], vec![(1 << 16) - 1, 1 << 20]);
    let error = read(&one(), &wide).unwrap_err();
    assert!(matches!(error, Error::BodyExpands { .. }), "{error}");
    // An array of bytes is eight times as large as one of the model's type.
    let bytes = array(&[1, 24 << 20], (0..24 << 20).map(|it: u32| (it >> 7) as u8).collect());
    let doubles = model(8, &["x FP64 [-1]"], &[]);
    let error = read(&doubles, &archive(&[("x.npy", bytes, true)])).unwrap_err();
    assert!(matches!(error, Error::BodyExpands { ratio: 256, .. }), "{error}");
    let body = archive(&[("x.npy", array(&[3], vec![1f32, 2.0, 3.0]), false)]);
    let error = decode(&one(), &body.into(), Some(100), &Grant::all(0)).unwrap_err();
    assert!(matches!(error, Error::BodyTooLarge { limit: 100, .. }), "{error}");
}

#[test]
fn files_that_share_their_bytes_are_refused() {
    let one = archive(&[("arr_0.npy", array(&[1, 1000], vec![1f32; 1000]), false)]);
    let at = one.windows(4).position(|it| it == b"PK\x01\x02").unwrap();
    let end = one.windows(4).position(|it| it == b"PK\x05\x06").unwrap();
    let entry = &one[at..end];
    for (times, part) in [(1, ""), (2, "some share their bytes"), (1000, "some share their bytes")]
    {
        let mut body = [&one[..at], &entry.repeat(times), &one[end..]].concat();
        let end = body.len() - 24;
        body[end + 8..end + 12].copy_from_slice(&[(times as u16).to_le_bytes(); 2].concat());
        let signature = model(8, &["x FP32 [1000]"], &[]);
        match read(&signature, &body) {
            Ok(_) => assert_eq!(times, 1),
            Err(error) => assert!(error.to_string().contains(part), "{error}"),
        }
    }
}

#[test]
fn whatever_is_damaged_is_refused() {
    for deflated in [true, false] {
        let body = archive(&[("x.npy", array(&[1, 3], vec![1f32, 2.0, 3.0]), deflated)]);
        assert!(read(&one(), &body).is_ok());
        for length in 0..body.len() {
            assert!(read(&one(), &body[..length]).is_err(), "cut at {length}");
        }
        for at in 0..body.len() {
            let mut other = body.clone();
            other[at] ^= 0x41;
            // Names and dates may change; the data may not.
            if let Ok(text) = read(&one(), &other) {
                assert_eq!(text, "x FP32 [1,3] [1.0,2.0,3.0]\n", "byte {at}");
            }
        }
    }
    refused(&one(), b"PK\x03\x04", "the archive has no end");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in any::<Vec<u8>>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let _ = read(&one(), &body);
        let mut body = matrix("csr", vec![0, 2, 1], vec![0, 2, 2, 3], vec![3, 3]);
        let at = at.index(body.len());
        body[at] = byte;
        let _ = read(&one(), &body);
    }
}

#[test]
fn an_archive_takes_room_for_what_its_elements_become_and_no_more() {
    let signature = model(8, &["x FP32 [-1]"], &[]);
    let count = 100_000;
    let own = 4 * count;
    let granted = |body: &[u8]| {
        let grant = Grant::all(0);
        decode(&signature, &Bytes::copy_from_slice(body), None, &grant).unwrap();
        grant.granted()
    };
    let bound = |file: &Vec<u8>, deflated| granted(&archive(&[("x.npy", file.clone(), deflated)]));
    let (floats, doubles) =
        (array(&[count], vec![0f32; count]), array(&[count], vec![0f64; count]));
    // Ports, the list of files, and what inflates one.
    let little = 8 << 10;
    let inflation = 64 << 10;
    assert!(bound(&floats, false) < little, "it is a slice of the archive");
    let stored = bound(&doubles, false);
    assert!((own..own + little).contains(&stored), "{stored}");
    let deflated = bound(&doubles, true) - doubles.len();
    assert!((own..own + inflation + little).contains(&deflated), "{deflated}");
    // Eight rows of eight columns, by its shape.
    let starts: Vec<i32> = vec![0; 9];
    let sparse = granted(&matrix("csr", vec![], starts, vec![8, 8]));
    assert!(sparse < inflation + little, "{sparse}");
}
