//! The steps `image` and `detect`.

use std::{fs, io::Write, time::Duration};

use backend::{Backend, DataType, NamedTensor, Shape, Tensor};
use backend_steps::{FileBounds, Steps};
use inference::limits::Budget;

use crate::fixture::{
    Repository, fixture, floats, integers, numbers, refused, run, run_until, run_with, spec,
    strings,
};

fn picture(name: &str) -> Vec<u8> {
    fs::read(fixture("pictures").join(name)).unwrap()
}

fn images(files: &[Vec<u8>]) -> NamedTensor {
    let tensor = Tensor::from_strings(Shape::new(&[files.len(), 1]), files).unwrap();
    NamedTensor { name: "image".into(), tensor }
}

const VIT: [(&str, &str); 5] = [
    ("step", "image"),
    ("image_processor_type", "ViTImageProcessor"),
    ("size", "8,4"),
    ("image_mean", "0,0,0"),
    ("image_std", "1"),
];

#[test]
fn an_image_becomes_values_by_the_keys_of_a_processor() {
    let repository = Repository::new(&[]);
    let source = repository.source(&VIT);
    assert_eq!(spec(&source).outputs[0].dims, [None, Some(3), Some(8), Some(4)]);
    let pictures = [images(&[picture("96x64.png"), picture("40x56.png")])];
    let wanted = ["pixel_values", "size", "scale", "pixel_mask"];
    let made = run(&source, &pictures, &wanted).unwrap();
    assert_eq!(made[0].shape().dims(), [2, 3, 8, 4]);
    assert_eq!(integers(&made[1]), [64, 96, 56, 40]);
    assert_eq!(floats(&made[2])[..4], [4.0 / 96.0, 8.0 / 64.0, 0.0, 0.0]);
    assert_eq!(integers(&made[3]), [1; 64]);
    assert!(floats(&made[0]).iter().all(|it| (0.0..=1.0).contains(it)));
    // The same pixels as bytes, and with the channels last.
    let with = |more: &[(&str, &str)]| repository.source(&[&VIT[..], more].concat());
    let bytes = run(&with(&[("dtype", "UINT8")]), &pictures, &wanted[..1]).unwrap().remove(0);
    assert_eq!(bytes.dtype(), DataType::Uint8);
    let bytes = bytes.to_bytes();
    for (byte, value) in bytes.iter().zip(floats(&made[0])) {
        assert!((f32::from(*byte) / 255.0 - value).abs() < 1e-6);
    }
    let last = run(&with(&[("layout", "nhwc")]), &pictures, &wanted[..1]).unwrap().remove(0);
    assert_eq!(last.shape().dims(), [2, 8, 4, 3]);
    for at in 0..2 * 8 * 4 {
        let (row, pixel) = (at / 32, at % 32);
        for channel in 0..3 {
            let first = floats(&made[0])[row * 96 + channel * 32 + pixel];
            assert_eq!(floats(&last)[at * 3 + channel], first);
        }
    }
    let half = run(&with(&[("dtype", "FP16")]), &pictures, &wanted[..1]).unwrap().remove(0);
    assert_eq!(half.dtype(), DataType::Fp16);
    // OpenCV's filter is another one where the image becomes smaller.
    let other = run(&with(&[("resize", "opencv")]), &pictures, &wanted).unwrap();
    assert_eq!(floats(&other[2]), floats(&made[2]));
    assert_ne!(floats(&other[0]), floats(&made[0]));
}

#[test]
fn a_crop_is_part_of_the_scale() {
    let repository = Repository::new(&[]);
    let source = repository.source(&[
        ("step", "image"),
        ("image_processor_type", "CLIPImageProcessor"),
        ("size", "{\"shortest_edge\": 32}"),
        ("crop_size", "16"),
    ]);
    let made = run(&source, &[images(&[picture("96x64.png")])], &["scale", "size"]).unwrap();
    assert_eq!(floats(&made[0]), [0.5, 0.5, -16.0, -8.0]);
}

#[test]
fn a_letterbox_says_where_the_image_lies() {
    let repository = Repository::new(&[]);
    let parameters = [("step", "image"), ("letterbox", "128")];
    let source = repository.source(&parameters);
    let given = [images(&[picture("96x64.png"), picture("64x64.png")])];
    let made = run(&source, &given, &["pixel_values", "size", "scale"]).unwrap();
    assert_eq!(made[0].shape().dims(), [2, 3, 128, 128]);
    assert_eq!(integers(&made[1]), [64, 96, 64, 64]);
    let factors = [128.0 / 96.0, 85.0 / 64.0, 0.0, 21.0];
    assert_eq!(floats(&made[2])[..4], factors.map(|it: f64| it as f32));
    assert_eq!(floats(&made[2])[4..], [2.0, 2.0, 0.0, 0.0]);
    // Grey around.
    assert_eq!(floats(&made[0])[0], 114.0 / 255.0);
    let bytes = repository.source(&[&parameters[..], &[("dtype", "UINT8")]].concat());
    let bytes = run(&bytes, &given, &["pixel_values"]).unwrap().remove(0).to_bytes();
    assert_eq!(bytes[0], 114);
    for (byte, value) in bytes.iter().zip(floats(&made[0])) {
        assert_eq!(f32::from(*byte) / 255.0, *value);
    }
    // Of a graph of any size, rows are as large as they must be, and all alike.
    let free = repository.source(&[&parameters[..], &[("stride", "32")]].concat());
    let one = run(&free, &[images(&[picture("96x64.png")])], &["pixel_values"]).unwrap();
    assert_eq!(one[0].shape().dims(), [1, 3, 96, 128]);
    let error = run(&free, &given, &["pixel_values"]).unwrap_err();
    let expected =
        "input 'image': row 1: it becomes 128 x 128 pixels, and row 0 128 x 96; send images that";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn smaller_images_of_a_request_are_padded_where_the_processor_pads() {
    let repository = Repository::new(&[]);
    let parameters = [
        ("step", "image"),
        ("image_processor_type", "DetrImageProcessor"),
        ("size", "{\"shortest_edge\": 16, \"longest_edge\": 32}"),
    ];
    let source = repository.source(&parameters);
    let given = [images(&[picture("64x64.png"), picture("96x64.png")])];
    let made = run(&source, &given, &["pixel_values", "pixel_mask", "scale"]).unwrap();
    assert_eq!(made[0].shape().dims(), [2, 3, 16, 24]);
    let alone = run(&source, &[images(&[picture("64x64.png")])], &["pixel_values"]).unwrap();
    for line in 0..3 * 16 {
        let row = &floats(&made[0])[line * 24..(line + 1) * 24];
        assert_eq!(row[..16], floats(&alone[0])[line * 16..(line + 1) * 16]);
        assert_eq!(row[16..], [0.0; 8]);
    }
    let mask = integers(&made[1]);
    assert_eq!((mask[15], mask[16], mask[16 * 24 + 23]), (1, 0, 1));
    assert_eq!(floats(&made[2])[..4], [0.25, 0.25, 0.0, 0.0]);
    // Together they may not have more pixels than one image may.
    let bounded = repository.source(&[&parameters[..], &[("max_pixels", "6144")]].concat());
    assert!(run(&bounded, &given, &["pixel_values"]).is_ok());
    let many = [images(&vec![picture("96x64.png"); 17])];
    let error = run(&bounded, &many, &["pixel_values"]).unwrap_err();
    assert!(error.contains("row 16: with it the values have 6528 pixels, at most 6144"), "{error}");
}

#[test]
fn an_image_that_is_none_or_too_large_is_named_by_its_row() {
    let repository = Repository::new(&[]);
    let source = repository.source(&[&VIT[..], &[("max_pixels", "4096")]].concat());
    let good = picture("64x64.png");
    let ask = |second: Vec<u8>| {
        run(&source, &[images(&[good.clone(), second])], &["pixel_values"]).map(|_| ())
    };
    assert_eq!(ask(good.clone()), Ok(()));
    let error = ask(b"no image".to_vec()).unwrap_err();
    assert!(error.contains("input 'image': row 1: the bytes are no image"), "{error}");
    let error = ask(picture("96x64.png")).unwrap_err();
    assert!(
        error.contains("row 1: the image has 96 x 64 pixels, expected at most 4096"),
        "{error}"
    );
    let mut bomb = good.clone();
    bomb[16..24].copy_from_slice(&[0, 0, 255, 255, 0, 0, 255, 255]);
    assert!(ask(bomb).unwrap_err().contains("row 1: "));
}

#[test]
fn what_is_wrong_with_an_image_step_is_said() {
    let image = ("step", "image");
    refused(
        &[image, ("leterbox", "640")],
        "config.pbtxt:3: parameter 'leterbox': the step 'image' has no such parameter; the nearest is 'letterbox'",
    );
    refused(&[image], "parameter 'image_processor_type': it is missing; write one of ");
    refused(
        &[image, ("image_processor_type", "NougatImageProcessor")],
        "config.pbtxt:3: parameter 'image_processor_type': the image processor 'NougatImageProcessor' is not known",
    );
    refused(&[VIT[0], VIT[1], ("size", "0")], "config.pbtxt:4: parameter 'size': 0 is no number");
    refused(&[image, ("file", "sst2/config.json")], "parameter 'file': sst2/config.json: key");
    refused(&[image, ("file", "none.json")], "parameter 'file': there is no ");
    refused(&[image, ("letterbox", "640,x")], "it is '640,x', expected a side, or height and");
    refused(&[image, ("letterbox", "640"), ("size", "3")], "parameter 'size': a letterbox is the");
    refused(&[image, ("letterbox", "640"), ("resize", "pillow")], "'pillow' is none of opencv");
    refused(&[VIT[0], VIT[1], ("stride", "32")], "parameter 'stride': it is that of a letterbox");
    refused(&[VIT[0], VIT[1], ("dtype", "FP64")], "'FP64' is none of FP32, FP16, UINT8");
    refused(
        &[VIT[0], VIT[1], ("dtype", "UINT8"), ("do_rescale", "true")],
        "parameter 'do_rescale': dtype UINT8 has the bytes",
    );
    refused(
        &[VIT[0], VIT[1], ("resize", "opencv"), ("resample", "3")],
        "opencv resizes bilinearly, and resample is bicubic",
    );
    refused(&[VIT[0], VIT[1], ("max_pixels", "none")], "expected a whole number from 1 on");
}

#[test]
fn boxes_go_back_to_the_image_as_it_was_sent() {
    let repository = Repository::new(&[("names.txt", "cat\ndog\n")]);
    let parameters = [("step", "detect"), ("labels", "names.txt"), ("head", "yolo")];
    let source = repository.source(&parameters);
    assert_eq!(spec(&source).inputs[0].dims, [None, Some(6), None]);
    // Two boxes of the first image, of which one is too weak; two of the second.
    let output = vec![
        [20.0f32, 60.0],
        [40.0, 60.0],
        [20.0, 10.0],
        [20.0, 10.0],
        [0.9, 0.1],
        [0.2, 0.2],
        [20.0, 60.0],
        [40.0, 60.0],
        [20.0, 10.0],
        [20.0, 10.0],
        [0.3, 0.1],
        [0.2, 0.8],
    ];
    let given = [
        numbers("output0", &[2, 6, 2], output.concat()),
        numbers("size", &[2, 2], vec![50i64, 60, 100, 100]),
        numbers("scale", &[2, 4], vec![2.0f32, 2.0, 0.0, 20.0, 1.0, 1.0, 0.0, 0.0]),
    ];
    let wanted = ["box", "score", "class", "label", "result"];
    let made = run(&source, &given, &wanted).unwrap();
    assert_eq!(made[0].shape().dims(), [2, 2, 4]);
    assert_eq!(floats(&made[0])[..8], [5.0, 5.0, 15.0, 15.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(floats(&made[0])[8..], [55.0, 55.0, 65.0, 65.0, 10.0, 30.0, 30.0, 50.0]);
    assert_eq!(floats(&made[1]), [0.9, 0.0, 0.8, 0.3]);
    assert_eq!(integers(&made[2]), [0, -1, 1, 0]);
    assert_eq!(strings(&made[3]), ["cat", "", "dog", "cat"]);
    assert!(strings(&made[4])[0].contains(r#""box":{"xmin":5,"ymin":5,"xmax":15,"ymax":15}"#));
    let strict = repository.source(&[&parameters[..], &[("confidence", "0.5")]].concat());
    assert_eq!(integers(&run(&strict, &given, &wanted[2..3]).unwrap()[0]), [0, 1]);
    // What is no number, and what is no scale.
    let with = |at: usize, tensor: NamedTensor| {
        let mut given = given.clone();
        given[at] = tensor;
        run(&source, &given, &wanted[..1]).unwrap_err()
    };
    let error = with(0, numbers("output0", &[2, 6, 2], vec![f32::NAN; 24]));
    assert!(error.contains("'output0' is not a number"), "{error}");
    let error = with(1, numbers("size", &[2, 2], vec![50i64, 60, 0, 100]));
    assert!(error.contains("input 'size': row 1: [0, 100] is no height and width"), "{error}");
    let error = with(2, numbers("scale", &[2, 4], vec![0.0f32; 8]));
    assert!(error.contains("input 'scale': row 0: [0.0, 0.0, 0.0, 0.0] are not"), "{error}");
    let error = with(2, numbers("scale", &[1, 4], vec![1.0f32; 4]));
    assert!(error.contains("its shape is [1, 4], and 'output0' has 2 rows"), "{error}");
}

#[test]
fn boxes_of_queries_need_no_scale() {
    let config = r#"{"model_type": "rt_detr", "id2label": {"0": "cat", "1": "dog"}}"#;
    let repository = Repository::new(&[("config.json", config)]);
    let parameters = [("step", "detect"), ("labels", "config.json")];
    let given = [
        numbers("logits", &[1, 2, 2], vec![9.0f32, -9.0, -9.0, 1.0]),
        numbers("pred_boxes", &[1, 2, 4], vec![0.5f32, 0.5, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5]),
        numbers("size", &[1, 2], vec![100i64, 200]),
    ];
    let source = repository.source(&parameters);
    let made = run(&source, &given, &["box", "label"]).unwrap();
    assert_eq!(strings(&made[1]), ["cat", "dog"]);
    assert_eq!(floats(&made[0]), [0.0, 0.0, 200.0, 100.0, 50.0, 25.0, 150.0, 75.0]);
    // The classes of DETR have one more, which is nothing.
    let detr = repository.source(&[&parameters[..], &[("head", "detr")]].concat());
    assert_eq!(spec(&detr).inputs[0].dims, [None, None, Some(3)]);
}

#[test]
fn what_is_wrong_with_a_detector_is_said() {
    let (detect, labels) = (("step", "detect"), ("labels", "two.txt"));
    let repository = Repository::new(&[("two.txt", "a\nb\n")]);
    let source = repository.source(&[detect, labels]);
    let error = Steps::default().load(&source).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("parameter 'head' is missing: "), "{error}");
    refused(&[detect, ("head", "yolo")], "parameter 'labels' is missing");
    refused(
        &[detect, labels, ("head", "yolo_v4")],
        "config.pbtxt:4: parameter 'head': 'yolo_v4' is none of yolo, yolo_v5, end2end, detr, rt_detr; did you mean \
         'yolo_v5'?",
    );
    let yolo = [detect, labels, ("head", "yolo")];
    let with = |key, value| [yolo[0], yolo[1], yolo[2], (key, value)];
    refused(&with("confidense", "0.5"), "the nearest is 'confidence'");
    refused(&with("confidence", "2"), "config.pbtxt:5: parameter 'confidence': 2 is not between");
    refused(&with("iou", "NaN"), "parameter 'iou'");
    refused(&with("iou", "x"), "parameter 'iou': expected a number from 0 to 1");
    refused(&with("max_detections", "9999"), "parameter 'max_detections'");
    refused(
        &[detect, labels, ("head", "detr"), ("iou", "0.5")],
        "parameter 'iou': boxes of queries do not displace each other",
    );
}

#[test]
fn an_image_keeps_to_the_bounds_of_the_server_and_is_counted_in_its_budget() {
    let repository = Repository::new(&[]);
    let pictures = [images(&[black(300, 300), black(300, 300)])];
    let budget = Budget::new(8 << 20);
    let bounds = FileBounds { budget: Some(budget.clone()), ..FileBounds::default() };
    let run = |bounds: FileBounds, more: &[(&str, &str)]| {
        let source = repository.source(&[&VIT[..], more].concat());
        run_with(&Steps::within(bounds), &source, &pictures, &["pixel_values"])
    };
    let made = run(bounds.clone(), &[]).unwrap();
    assert_eq!(budget.used(), 2 * 3 * 8 * 4 * 4);
    drop(made);
    assert_eq!(budget.used(), 0);
    let other = budget.take((8 << 20) - 4096).unwrap();
    let error = run(bounds.clone(), &[]).unwrap_err();
    assert!(error.contains("--max-inflight-bytes"), "{error}");
    drop(other);
    // The parameter of a model makes the bound of the server no larger.
    let small = FileBounds { max_image_pixels: Some(6000), ..bounds };
    let error = run(small, &[("max_pixels", "50000000")]).unwrap_err();
    assert!(error.contains("at most 6000"), "{error}");
}

/// A black PNG of some megapixels, in some kilobytes.
fn black(width: u32, height: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8; 4], data: &[u8]| {
        let mut sum = flate2::Crc::new();
        sum.update(name);
        sum.update(data);
        png.extend((data.len() as u32).to_be_bytes());
        png.extend(name);
        png.extend(data);
        png.extend(sum.sum().to_be_bytes());
    };
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(b"IHDR", &[&size[..], &[8, 2, 0, 0, 0]].concat());
    let rows = vec![0u8; (1 + 3 * width as usize) * height as usize];
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&rows).unwrap();
    chunk(b"IDAT", &packed.finish().unwrap());
    chunk(b"IEND", &[]);
    png
}

#[test]
fn an_image_is_given_up_within_when_nobody_waits_for_it_any_more() {
    let repository = Repository::new(&[]);
    let (source, given) = (repository.source(&VIT), [images(&[black(6_000, 4_000)])]);
    let (engine, limit) = (Steps::default(), Some(Duration::from_millis(5)));
    let error = run_until(&engine, &source, &given, &["pixel_values"], limit).unwrap_err();
    assert!(error.contains("stopped"), "{error}");
}
