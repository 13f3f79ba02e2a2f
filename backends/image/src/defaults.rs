//! The image processors that are known, and what each does where its configuration says nothing.

use crate::filter::Filter;

/// What a class does beyond the common chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing; it can pad.
    Common,
    /// Nothing; it ignores padding.
    Unpadded,
    ConvNext,
    EfficientNet,
    Levit,
    MobileVit,
    /// DETR and those that came from it, YOLOS with sides that are multiples of 16, and RT-DETR.
    Detr,
    Yolos,
}

/// The defaults of one class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    /// Without `ImageProcessor`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) filter: Filter,
    pub(crate) mean: [f64; 3],
    pub(crate) deviation: [f64; 3],
    pub(crate) size: DefaultSize,
    /// Is a size that is one number a square?
    pub(crate) is_square: bool,
    pub(crate) crop: Option<u32>,
    pub(crate) crops: bool,
    pub(crate) normalizes: bool,
    pub(crate) pads: bool,
}

/// The default of `size`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DefaultSize {
    Square(u32),
    Shortest(u32),
    Edges(u32, u32),
}

const HALF: [f64; 3] = [0.5; 3];
const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const IMAGENET_DEVIATION: [f64; 3] = [0.229, 0.224, 0.225];
const CLIP_MEAN: [f64; 3] = [0.48145466, 0.4578275, 0.40821073];
const CLIP_DEVIATION: [f64; 3] = [0.26862954, 0.26130258, 0.27577711];

const VIT: Defaults = Defaults {
    name: "ViT",
    kind: Kind::Common,
    filter: Filter::Bilinear,
    mean: HALF,
    deviation: HALF,
    size: DefaultSize::Square(224),
    is_square: true,
    crop: None,
    crops: false,
    normalizes: true,
    pads: false,
};

const CLIP: Defaults = Defaults {
    name: "CLIP",
    filter: Filter::Bicubic,
    mean: CLIP_MEAN,
    deviation: CLIP_DEVIATION,
    size: DefaultSize::Shortest(224),
    is_square: false,
    crop: Some(224),
    crops: true,
    ..VIT
};

const MOBILE_NET_V1: Defaults = Defaults {
    name: "MobileNetV1",
    size: DefaultSize::Shortest(256),
    is_square: false,
    crop: Some(224),
    crops: true,
    ..VIT
};

const DETR: Defaults = Defaults {
    name: "Detr",
    kind: Kind::Detr,
    mean: IMAGENET_MEAN,
    deviation: IMAGENET_DEVIATION,
    size: DefaultSize::Edges(800, 1333),
    is_square: false,
    pads: true,
    ..VIT
};

/// All classes. timm's wrapper is read from another file, and has no defaults of this kind.
pub(crate) const KNOWN: [Defaults; 20] = [
    VIT,
    Defaults {
        name: "DeiT",
        filter: Filter::Bicubic,
        size: DefaultSize::Square(256),
        crop: Some(224),
        crops: true,
        ..VIT
    },
    CLIP,
    Defaults { name: "ChineseCLIP", ..CLIP },
    Defaults { name: "Siglip", filter: Filter::Bicubic, is_square: false, ..VIT },
    Defaults {
        name: "Blip",
        filter: Filter::Bicubic,
        mean: CLIP_MEAN,
        deviation: CLIP_DEVIATION,
        size: DefaultSize::Square(384),
        ..VIT
    },
    Defaults { name: "Bit", ..CLIP },
    Defaults {
        name: "Pvt",
        filter: Filter::Bicubic,
        mean: IMAGENET_MEAN,
        deviation: IMAGENET_DEVIATION,
        ..VIT
    },
    MOBILE_NET_V1,
    Defaults { name: "MobileNetV2", kind: Kind::Unpadded, ..MOBILE_NET_V1 },
    Defaults {
        name: "Beit",
        kind: Kind::Unpadded,
        filter: Filter::Bicubic,
        crop: Some(224),
        ..VIT
    },
    Defaults {
        name: "ConvNext",
        kind: Kind::ConvNext,
        filter: Filter::Bicubic,
        size: DefaultSize::Shortest(384),
        is_square: false,
        ..VIT
    },
    Defaults {
        name: "EfficientNet",
        kind: Kind::EfficientNet,
        filter: Filter::Bicubic,
        size: DefaultSize::Square(346),
        crop: Some(289),
        ..VIT
    },
    Defaults {
        name: "Levit",
        kind: Kind::Levit,
        filter: Filter::Bicubic,
        mean: IMAGENET_MEAN,
        deviation: IMAGENET_DEVIATION,
        size: DefaultSize::Shortest(224),
        is_square: false,
        crop: Some(224),
        crops: true,
        ..VIT
    },
    Defaults {
        name: "MobileViT",
        kind: Kind::MobileVit,
        filter: Filter::Bicubic,
        size: DefaultSize::Shortest(224),
        is_square: false,
        crop: Some(256),
        crops: true,
        normalizes: false,
        ..VIT
    },
    DETR,
    Defaults { name: "ConditionalDetr", ..DETR },
    Defaults { name: "DeformableDetr", ..DETR },
    Defaults { name: "Yolos", kind: Kind::Yolos, ..DETR },
    Defaults {
        name: "RTDetr",
        size: DefaultSize::Square(640),
        normalizes: false,
        pads: false,
        ..DETR
    },
];
