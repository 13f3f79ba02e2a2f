//! What Pillow, OpenCV and transformers make of images, bit by bit. `make.py` has written what is compared with.

use std::{fs, path::Path};

use backend_image::{
    Decoder, Filter, JpegLibrary, Limits, Processor, Rgb, header,
    letterbox::{Letterbox, classify},
    resize, resize_bilinear,
};
use md5::{Digest, Md5};
use serde_json::Value;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

fn file(name: &str) -> Vec<u8> {
    fs::read(folder().join("files").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn golden(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(name)).expect("the golden file");
    serde_json::from_str(&text).expect("JSON")
}

/// Two numbers of a case.
fn pair(case: &Value, key: &str) -> (u32, u32) {
    let number = |at: usize| case[key][at].as_u64().expect("a number") as u32;
    (number(0), number(1))
}

/// The image that `make.py` computes by the same formula.
fn pattern((width, height): (u32, u32)) -> Rgb {
    let mut image = Rgb::new(width, height);
    for (at, pixel) in image.pixels.chunks_exact_mut(3).enumerate() {
        let (x, y) = (at as u32 % width, at as u32 / width);
        for (c, value) in (0..).zip(pixel) {
            *value = (((x * (3 + c) + y * (5 - c)) ^ ((x * y) >> 3)) + c * 61) as u8;
        }
    }
    image
}

fn digest(bytes: impl IntoIterator<Item = u8>) -> String {
    let bytes: Vec<u8> = bytes.into_iter().collect();
    Md5::digest(&bytes).iter().map(|it| format!("{it:02x}")).collect()
}

fn digest_of_values(values: &[f32]) -> String {
    digest(values.iter().flat_map(|it| it.to_le_bytes()))
}

/// By the library that `MUSTER_TEST_JPEG_LIBRARY` names, or by none where it says `none`.
fn decoder() -> Decoder {
    let library = match std::env::var_os("MUSTER_TEST_JPEG_LIBRARY") {
        None => JpegLibrary::Auto,
        Some(it) if it == "none" => JpegLibrary::None,
        Some(it) => JpegLibrary::File(it.into()),
    };
    Decoder::open(&library).expect("the library that was named")
}

/// Fails with all cases that are wrong.
fn check(cases: &[Value], wrong: impl Fn(&Value) -> Option<String>) {
    assert!(!cases.is_empty());
    let wrong: Vec<String> =
        cases.iter().filter_map(|it| Some(format!("{it}: {}", wrong(it)?))).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} are wrong:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn unequal(found: String, expected: &Value) -> Option<String> {
    (Some(&*found) != expected.as_str()).then_some(format!("found {found}"))
}

#[test]
fn resized_images_are_pillows() {
    check(&golden("resized.json"), |case| {
        let filter = Filter::from_name(case["filter"].as_str()?).expect("a filter");
        let (width, height) = pair(case, "to");
        let out = resize(&pattern(pair(case, "from")), width, height, filter);
        unequal(digest(out.pixels), &case["md5"])
    });
}

#[test]
fn images_that_opencv_makes_smaller_are_equal_and_others_differ_by_one() {
    check(&golden("opencv.json"), |case| {
        let (from, (width, height)) = (pair(case, "from"), pair(case, "to"));
        let out = resize_bilinear(&pattern(from), width, height);
        let wrong = unequal(digest(out.pixels.iter().copied()), &case["md5"])?;
        let is_reduction = width <= from.0 && height <= from.1;
        let Some(name) = case["file"].as_str().filter(|_| !is_reduction) else {
            return Some(wrong);
        };
        let expected = decoder().decode(&file(name), &Limits::default()).expect("a PNG");
        let far =
            out.pixels.iter().zip(&expected.pixels).filter(|(a, b)| a.abs_diff(**b) > 1).count();
        (far > 0).then_some(format!("{far} values differ by more than one"))
    });
}

#[test]
fn torchvision_differs_by_one_in_at_most_a_hundredth_of_the_values_of_a_smooth_picture() {
    let decoder = decoder();
    let read = |case: &Value, key: &str| {
        let name = case[key].as_str().expect("a name");
        decoder.decode(&file(name), &Limits::default()).expect("a PNG")
    };
    check(&golden("torchvision.json"), |case| {
        let filter = Filter::from_name(case["filter"].as_str()?).expect("a filter");
        let (width, height) = pair(case, "to");
        let found = resize(&read(case, "from"), width, height, filter);
        let expected = read(case, "file");
        let differences = found.pixels.iter().zip(&expected.pixels).map(|(a, b)| a.abs_diff(*b));
        let most = differences.clone().max()?;
        let (differing, all) = (differences.filter(|it| *it != 0).count(), found.pixels.len());
        (most > 1 || all < 100 * differing)
            .then(|| format!("{differing} of {all} values differ, by at most {most}"))
    });
}

#[test]
fn pixel_values_agree() {
    check(&golden("processors.json"), |case| {
        let processor = match Processor::from_config(&case["config"]) {
            Ok(it) => it,
            Err(error) => return Some(error.to_string()),
        };
        let found = match processor.apply(&pattern(pair(case, "from"))) {
            Ok(it) => it,
            Err(error) => return Some(error.to_string()),
        };
        if serde_json::json!(found.shape) != case["shape"] {
            return Some(format!("found the shape {:?}", found.shape));
        }
        let mask = found.mask.map_or(Value::Null, |it| serde_json::json!(it));
        if mask != case["mask"] {
            return Some(format!("found the mask {mask}"));
        }
        let step = (found.values.len() / 5).max(1);
        let samples: Vec<f32> = found.values.iter().copied().step_by(step).take(6).collect();
        Some(format!(
            "{}; samples {samples:?}",
            unequal(digest_of_values(&found.values), &case["md5"])?
        ))
    });
}

#[test]
fn letterboxes_agree() {
    check(&golden("letterboxed.json"), |case| {
        let (height, width) = pair(case, "to");
        let letterbox = match case["stride"].as_u64() {
            Some(stride) => Letterbox::dynamic(height, width, stride as u32),
            None => Letterbox::fixed(height, width),
        };
        let image = pattern(pair(case, "from"));
        let pixels = letterbox.apply(&image).expect("a size");
        let placement = pixels.placement.expect("a letterbox has one");
        let [_, boxed_height, boxed_width] = pixels.shape.map(|it| it as u32);
        let place = serde_json::json!([placement.gain, placement.left, placement.top]);
        if place != serde_json::json!([case["gain"], case["left"], case["top"]])
            || (boxed_height, boxed_width) != pair(case, "size")
        {
            return Some(format!("found {placement:?} in {:?}", pixels.shape));
        }
        // Values are bytes divided by 255, channel by channel.
        let byte = |it: f32| (it * 255.0).round() as u8;
        let count = pixels.values.len() / 3;
        let boxed =
            (0..count).flat_map(|at| [0, 1, 2].map(|it| byte(pixels.values[it * count + at])));
        unequal(digest(boxed), &case["md5"])
            .or_else(|| unequal(digest_of_values(&pixels.values), &case["values"]))
    });
}

#[test]
fn the_middle_of_an_image_is_cut_out_as_for_ultralytics_classifiers() {
    check(&golden("classified.json"), |case| {
        let (height, width) = pair(case, "to");
        let pixels = classify(height, width).apply(&pattern(pair(case, "from"))).expect("a size");
        if pixels.shape != [3, height as usize, width as usize] {
            return Some(format!("found the shape {:?}", pixels.shape));
        }
        unequal(digest_of_values(&pixels.values), &case["md5"])
    });
}

/// Decodes a file and compares its size with the golden one; the image, or what is wrong.
fn decoded(decoder: &Decoder, case: &Value) -> Result<Rgb, String> {
    let bytes = file(case["file"].as_str().expect("a name"));
    let header = header(&bytes).map_err(|it| it.to_string())?;
    let image = decoder.decode(&bytes, &Limits::default()).map_err(|it| it.to_string())?;
    let size = pair(case, "size");
    if (image.width, image.height) != size || header.upright() != (size.1, size.0) {
        return Err(format!("found {image:?}"));
    }
    Ok(image)
}

#[test]
fn files_without_loss_decode_as_in_pillow() {
    let cases = golden("others.json");
    let cases: Vec<Value> =
        cases.into_iter().filter(|it| !it["file"].to_string().contains("lossy")).collect();
    let decoder = decoder();
    check(&cases, |case| match decoded(&decoder, case) {
        Ok(image) => unequal(digest(image.pixels), &case["md5"]),
        Err(error) => Some(error),
    });
}

#[test]
fn jpegs_decode_as_in_pillow() {
    let decoder = decoder();
    if !decoder.is_exact() {
        let text = "JPEG as in Pillow: there is no libturbojpeg.so.0, which MUSTER_TEST_JPEG_LIBRARY may name";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{text}");
        // Past the capturing of the test harness, which would hide it from a run that passes.
        let line = format!("SKIPPED: {text}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        return;
    }
    check(&golden("jpegs.json"), |case| match decoded(&decoder, case) {
        Ok(image) => unequal(digest(image.pixels), &case["md5"]),
        Err(error) => Some(error),
    });
}

/// Compares files with the pixels that Pillow has of them: at most `most` in one value, and `mean` on average.
fn check_near(decoder: &Decoder, names: &[&str], most: u8, mean: f64) {
    for name in names {
        let found = decoder.decode(&file(name), &Limits::default()).expect(name);
        let expected = decoder.decode(&file(&format!("{name}.expected.png")), &Limits::default());
        let expected = expected.expect("a PNG");
        let differences = found.pixels.iter().zip(&expected.pixels).map(|(a, b)| a.abs_diff(*b));
        let found_most = differences.clone().max().expect("pixels");
        let found_mean = differences.map(f64::from).sum::<f64>() / found.pixels.len() as f64;
        println!("{name}: at most {found_most}, {found_mean:.3} on average");
        assert!(found_most <= most && found_mean <= mean, "{name}: {found_most}, {found_mean}");
    }
}

#[test]
fn jpegs_without_the_library_are_near() {
    let decoder = Decoder::open(&JpegLibrary::None).expect("nothing to open");
    assert_eq!(decoder.jpeg(), "zune-jpeg");
    let cases = golden("jpegs.json");
    check(&cases, |case| decoded(&decoder, case).err());
    let names = ["420-q75.jpg", "444-q75.jpg", "420-progressive.jpg", "grey.jpg", "cmyk.jpg"];
    check_near(&decoder, &names, 8, 0.5);
}

#[test]
fn lossy_webp_is_near() {
    check_near(&decoder(), &["lossy.webp", "lossy-alpha.webp"], 2, 0.1);
}
