//! What a configuration says wrong is an error that names the key, and nothing is approximated.

use backend_image::{OutputShape, Processor};
use serde_json::{Value, json};

#[track_caller]
fn check_wrong(config: Value, key: &str, problem: &str) {
    let error = Processor::from_config(&config).expect_err("it is wrong");
    assert_eq!(error.key, key, "{error}");
    assert!(error.to_string().contains(problem), "{error}");
    assert!(!error.remedy.is_empty());
}

fn vit(key: &str, value: Value) -> Value {
    json!({"image_processor_type": "ViTImageProcessor", key: value})
}

#[test]
fn an_unknown_processor_is_named_with_those_that_are_known() {
    let config = json!({"image_processor_type": "SamImageProcessorFast"});
    check_wrong(config.clone(), "image_processor_type", "'SamImageProcessor' is not known");
    check_wrong(config, "image_processor_type", "ViTImageProcessor, DeiTImageProcessor");
    check_wrong(json!({}), "image_processor_type", "it is missing");
    check_wrong(json!([1]), "preprocessor_config.json", "it is no JSON object");
}

#[test]
fn each_key_that_is_wrong_is_named() {
    check_wrong(vit("size", json!({"longest_edge": 3})), "size", "height and width");
    check_wrong(vit("size", json!({"height": 3})), "size", "height and width");
    check_wrong(
        vit("size", json!({"height": 3, "width": -1})),
        "size.width",
        "no number of pixels",
    );
    check_wrong(vit("size", json!(100_000)), "size", "no number of pixels");
    check_wrong(vit("size", json!("large")), "size", "no JSON object");
    check_wrong(vit("resample", json!(6)), "resample", "2 (bilinear)");
    check_wrong(vit("image_mean", json!([1, 2])), "image_mean", "3 channels");
    check_wrong(vit("image_std", json!([0.5, 0, 0.5])), "image_std", "zero");
    check_wrong(vit("do_resize", json!("yes")), "do_resize", "true or false");
    check_wrong(vit("do_center_crop", json!(true)), "crop_size", "it is missing");
    let convnext = json!({"image_processor_type": "ConvNextImageProcessor", "size": {"height": 3, "width": 3}});
    check_wrong(convnext, "size", "shortest_edge");
    let detr = json!({"image_processor_type": "DetrImageProcessor", "size": {"shortest_edge": 3}});
    check_wrong(detr, "size", "longest_edge");
    let timm = |key: &str, value: Value| json!({"pretrained_cfg": {key: value}});
    check_wrong(timm("interpolation", json!("random")), "pretrained_cfg.interpolation", "bicubic");
    check_wrong(timm("crop_mode", json!("border")), "pretrained_cfg.crop_mode", "center");
    check_wrong(timm("input_size", json!([1, 28, 28])), "pretrained_cfg.input_size", "[3, height");
    check_wrong(timm("crop_pct", json!(-1)), "pretrained_cfg.crop_pct", "up to 1");
}

#[test]
fn older_and_nested_names_mean_the_same() {
    let expected = Processor::from_config(&json!({"image_processor_type": "ViTImageProcessor"}));
    let expected = expected.expect("a processor");
    for config in [
        json!({"feature_extractor_type": "ViTFeatureExtractor"}),
        json!({"image_processor_type": "ViTImageProcessorFast"}),
        json!({"image_processor_type": "ViTImageProcessorPil", "size": null, "do_resize": null}),
        json!({"processor_class": "X", "image_processor": {"image_processor_type": "ViTImageProcessor"}}),
    ] {
        assert_eq!(Processor::from_config(&config).expect("a processor"), expected, "{config}");
    }
}

#[test]
fn the_shape_of_the_values_is_known_before_where_it_is_fixed() {
    let shape = |config: Value| Processor::from_config(&config).expect("a processor").output();
    let of = |class: &str| shape(json!({"image_processor_type": format!("{class}ImageProcessor")}));
    assert_eq!(of("ViT"), OutputShape::Fixed([3, 224, 224]));
    assert_eq!(of("CLIP"), OutputShape::Fixed([3, 224, 224]));
    assert_eq!(of("ConvNext"), OutputShape::Fixed([3, 384, 384]));
    assert_eq!(of("RTDetr"), OutputShape::Fixed([3, 640, 640]));
    assert_eq!(of("Detr"), OutputShape::Varies);
    assert_eq!(shape(vit("size", json!({"shortest_edge": 9}))), OutputShape::Varies);
    let detr = Processor::from_config(&json!({"image_processor_type": "DetrImageProcessor"}));
    assert_eq!(detr.expect("a processor").target(480, 640), (800, 1066));
}
