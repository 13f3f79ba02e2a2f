//! Numbers as text, against the standard library's.

use std::str::FromStr;

use proptest::prelude::*;

use super::{window::WINDOW, *};

#[track_caller]
fn check<T: Number + FromStr + PartialEq + fmt::Debug>(text: &str) {
    let (value, length) = both_ways::<T>(text).unwrap();
    assert_eq!(length, text.len(), "{text}");
    let expected = text.parse::<T>().ok().unwrap();
    assert_eq!(bytemuck::bytes_of(&value), bytemuck::bytes_of(&expected), "{text}");
}

#[track_caller]
fn refused<T: Number + PartialEq + fmt::Debug>(text: &str, fault: Fault) {
    assert_eq!(both_ways::<T>(text), Err(fault), "{text}");
}

#[test]
fn corners_read_as_the_standard_library_reads_them() {
    for text in [
        "0",
        "-0",
        "0.0",
        "-0.0",
        "1",
        "0.1",
        "0.3",
        "16777217",
        "16777219",
        "9007199254740993",
        "16777217.000000000000000000000001",
        "16777216.999999999999999999999999",
        "1.00000005960464477539",
        "1.00000005960464477540",
        "1.000000059604644775390625",
        "1.1754943508222875e-38",
        "1.1754942106924411e-38",
        "1.401298464324817e-45",
        "7.006492321624085e-46",
        "7.006492321624086e-46",
        "3.4028234663852886e38",
        "3.4028235677973365e38",
        "1e-400",
        "-1e-99999999999999999999",
        "123456789012345678901234567890",
        "0.000000000000000000000000000012345678",
        "1e22",
        "1e23",
        "8388608.5",
        "0.5e-3",
        "1E+2",
        "0e99999999999999999999999",
    ] {
        check::<f32>(text);
        check::<f64>(text);
    }
    for text in ["1e308", "1.7976931348623157e308", "2.2250738585072011e-308", "4.9e-324", "2e-324"]
    {
        check::<f64>(text);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_never_wraps() {
    for text in ["1e400", "-1e400", "1e99999999999999999999"] {
        refused::<f64>(text, Fault::Range);
    }
    refused::<f32>("3.4028235677973367e38", Fault::Range);
    refused::<u8>("256", Fault::Range);
    refused::<u8>("-1", Fault::Range);
    refused::<i8>("-129", Fault::Range);
    refused::<u64>("18446744073709551616", Fault::Range);
    refused::<i64>("-9223372036854775809", Fault::Range);
    refused::<i64>("99999999999999999999999999999999", Fault::Range);
    check::<u64>("18446744073709551615");
    check::<i64>("-9223372036854775808");
    assert_eq!(u8::read(b"-0"), Ok((0, 2)));
}

#[test]
fn only_what_json_calls_a_number_is_one() {
    for text in ["", "-", "+1", "01", "-01", ".5", "1.", "1.e5", "1e", "1e+", "nan", "inf", "--1"] {
        refused::<f32>(text, Fault::Syntax);
    }
    assert_eq!(f32::read(b"1,"), Ok((1.0, 1)));
    assert_eq!(f32::read(b"1 "), Ok((1.0, 1)));
}

#[test]
fn an_integer_type_takes_no_fraction_and_no_exponent() {
    refused::<i32>("1.0", Fault::Fraction);
    refused::<i32>("1e3", Fault::Fraction);
    refused::<i32>("1.", Fault::Syntax);
    refused::<i32>("NaN", Fault::Syntax);
}

#[test]
fn the_bare_words_read_and_write() {
    for (text, value) in [("Infinity", f32::INFINITY), ("-Infinity", f32::NEG_INFINITY)] {
        assert_eq!(f32::read(text.as_bytes()), Ok((value, text.len())));
        let mut out = Vec::new();
        value.write(&mut out);
        assert_eq!(out, text.as_bytes());
    }
    assert!(f64::read(b"NaN").unwrap().0.is_nan());
    let mut out = Vec::new();
    f64::NAN.write(&mut out);
    assert_eq!(out, b"NaN");
}

#[test]
fn a_hundred_thousand_digits_round_exactly() {
    let tail = "0".repeat(100_000);
    let above = format!("1.000000059604644775390625{tail}1");
    assert_eq!(f32::read(above.as_bytes()).unwrap().0, 1.000_000_1);
    let middle = format!("1.000000059604644775390625{tail}");
    assert_eq!(f32::read(middle.as_bytes()).unwrap().0, 1.0);
}

#[test]
fn megabytes_of_digits_are_one_number_on_a_small_stack() {
    const MANY: usize = 4_000_000;
    let cases = || {
        let nines = "9".repeat(MANY);
        let zeros = "0".repeat(MANY);
        refused::<f32>(&nines, Fault::Range);
        refused::<i64>(&nines, Fault::Range);
        refused::<f32>(&format!("1e{nines}"), Fault::Range);
        refused::<f32>(&format!("1{zeros}.0"), Fault::Range);
        refused::<f32>(&format!("{zeros}1"), Fault::Syntax);
        for (text, value) in [
            (format!("0.{nines}"), 1.0),
            (format!("-1e-{nines}"), -0.0),
            (format!("0.{zeros}1"), 0.0),
            // The standard library takes so long a mantissa only with an exponent below 2^16.
            (format!("1{}e-60000", "0".repeat(60_000)), 1.0),
            (format!("0.{zeros}1e{}", MANY + 1), 1.0),
        ] {
            assert_eq!(both_ways::<f32>(&text), Ok((value, text.len())));
        }
        // Letters end a number, however many follow.
        assert_eq!(f32::read(format!("1.5{}", "x".repeat(MANY)).as_bytes()), Ok((1.5, 3)));
    };
    let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(cases);
    thread.unwrap().join().unwrap();
}

#[test]
fn output_is_the_shortest_text() {
    let mut out = Vec::new();
    for value in [0.1f32, 1.0, -0.0, 1e-7, 3.4028235e38, 16777216.0] {
        value.write(&mut out);
        out.push(b' ');
    }
    assert_eq!(std::str::from_utf8(&out), Ok("0.1 1.0 -0.0 1e-7 3.4028235e+38 16777216.0 "));
}

/// The text of a value, which must be what zmij writes and read back as the same value.
#[track_caller]
fn survives(bits: u32, out: &mut Vec<u8>) {
    let value = f32::from_bits(bits);
    out.clear();
    value.write(out);
    let mut buffer = zmij::Buffer::new();
    assert_eq!(out.as_slice(), buffer.format_finite(value).as_bytes(), "{bits:#x}");
    // Behind a comma there is room for a window.
    out.extend_from_slice(&[b','; WINDOW]);
    let (back, length) = f32::read(out).unwrap();
    assert_eq!((back.to_bits(), length + WINDOW), (bits, out.len()), "{bits:#x}");
}

#[test]
fn a_dense_sample_of_floats_is_written_shortest_and_read_back() {
    let mut out = Vec::new();
    // The stride is prime, so that all exponents and all endings occur.
    for bits in (0..f32::INFINITY.to_bits()).step_by(10_007) {
        survives(bits, &mut out);
        survives(bits | 1 << 31, &mut out);
    }
    for exponent in 0..255 {
        for fraction in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x7f_fffe, 0x7f_ffff] {
            survives(exponent << 23 | fraction, &mut out);
        }
    }
    for small in 0..100_000 {
        survives((small as f32).to_bits(), &mut out);
        survives((small as f32 / 1e5).to_bits(), &mut out);
    }
}

#[test]
#[ignore = "all floats, half an hour: cargo test --release -p muster --lib every_float_is_written -- --ignored"]
fn every_float_is_written_shortest_and_read_back() {
    let mut out = Vec::new();
    for bits in 0..f32::INFINITY.to_bits() {
        survives(bits, &mut out);
        survives(bits | 1 << 31, &mut out);
    }
}

/// Reads the text with nothing behind it, and with more behind it than any window needs.
#[track_caller]
fn both_ways<T: Number + PartialEq + fmt::Debug>(text: &str) -> Result<(T, usize), Fault> {
    let bare = T::read(text.as_bytes());
    for tail in [",", "]", " ", "}"] {
        let behind = T::read(format!("{text}{}", tail.repeat(WINDOW)).as_bytes());
        assert_eq!(bare, behind, "{text}{tail}");
    }
    bare
}

proptest! {
    #[test]
    fn every_float_survives_the_text(bits in any::<u32>()) {
        let value = f32::from_bits(bits);
        let mut out = Vec::new();
        value.write(&mut out);
        let (back, _) = f32::read(&out).unwrap();
        prop_assert!(back.to_bits() == bits || (back.is_nan() && value.is_nan()));
    }

    #[test]
    fn a_float_printed_as_a_double_is_the_same_float(bits in 0..f32::INFINITY.to_bits()) {
        let value = f32::from_bits(bits);
        let text = format!("{:?}", f64::from(value));
        prop_assert_eq!(both_ways::<f32>(&text), Ok((value, text.len())));
    }

    #[test]
    fn every_double_survives_the_text(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        let mut out = Vec::new();
        value.write(&mut out);
        let (back, _) = f64::read(&out).unwrap();
        prop_assert!(back.to_bits() == bits || (back.is_nan() && value.is_nan()));
    }

    #[test]
    fn floats_near_a_middle_round_as_the_standard_library_rounds(
        bits in 0u32..0x7f7f_ffff, nudge in -6i64..=6, digits in 1usize..24,
    ) {
        let low = f64::from(f32::from_bits(bits));
        let high = f64::from(f32::from_bits(bits + 1));
        let middle = ((low + high) / 2.0).to_bits().wrapping_add_signed(nudge);
        let middle = f64::from_bits(middle);
        prop_assume!(middle.is_finite() && middle.is_sign_positive());
        check::<f32>(&format!("{middle:.digits$e}"));
        check::<f32>(&format!("{middle}"));
    }

    #[test]
    fn any_decimal_reads_as_the_standard_library_reads_it(
        text in "-?(0|[1-9][0-9]{0,22})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?",
    ) {
        check::<f64>(&text);
        if text.parse::<f32>().unwrap().is_finite() {
            check::<f32>(&text);
        } else {
            refused::<f32>(&text, Fault::Range);
        }
    }

    #[test]
    fn every_integer_survives_the_text(value in any::<i64>(), other in any::<u64>()) {
        check::<i64>(&value.to_string());
        check::<u64>(&other.to_string());
        let narrow = i16::read(value.to_string().as_bytes()).map(|it| it.0);
        prop_assert_eq!(narrow, i16::try_from(value).map_err(|_| Fault::Range));
    }
}
