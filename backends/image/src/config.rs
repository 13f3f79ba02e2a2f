//! A `preprocessor_config.json`, as Hugging Face's libraries of all generations write it, to a [`Processor`].

use serde_json::Value;

use crate::{
    crop::{Crop, CropRounding},
    defaults::{DefaultSize, Defaults, KNOWN, Kind},
    error::ConfigError,
    fields::{Fields, length_of},
    filter::Filter,
    processor::{Pad, Processor},
    size::SizeRule,
    timm,
    values::{ChannelOrder, Rescale, Values},
};

/// Edges from which on ConvNeXT warps the image and cuts nothing off.
const CONVNEXT_WARPS_FROM: u32 = 384;
/// The longest edge of DETR's where the configuration is older than the key.
const DETR_LONGEST: f64 = 1333.0;
/// What YOLOS cuts sides down to multiples of.
const YOLOS_MULTIPLE: u32 = 16;

impl Processor {
    /// The processor that a configuration names: a `preprocessor_config.json`, a `processor_config.json` with
    /// `image_processor` in it, or a `config.json` of timm's with `pretrained_cfg`.
    ///
    /// # Errors
    ///
    /// The class is not known, or a value is none that its library takes. Nothing is approximated.
    pub fn from_config(json: &Value) -> Result<Processor, ConfigError> {
        let outer = Fields::of(json, "preprocessor_config.json")?;
        let json = outer.get("image_processor").unwrap_or(json);
        let fields = Fields::of(json, "image_processor")?;
        let class =
            fields.text("image_processor_type").or_else(|| fields.text("feature_extractor_type"));
        let class = match class {
            Some(class) => without_suffix(class),
            None if fields.get("pretrained_cfg").is_some() => "TimmWrapper",
            None => {
                let remedy = format!("write one of {}", names());
                return Err(ConfigError::new("image_processor_type", "it is missing", remedy));
            }
        };
        if class == "TimmWrapper" {
            return timm::from_config(fields);
        }
        let defaults = KNOWN.iter().find(|it| it.name == class);
        let defaults = defaults.ok_or_else(|| {
            let problem = format!("the image processor '{class}ImageProcessor' is not known");
            let remedy = format!("expected one of {}", names());
            ConfigError::new("image_processor_type", problem, remedy)
        })?;
        Reading { fields, defaults }.processor()
    }
}

/// `ViT` of `ViTImageProcessorFast`, `ViTImageProcessorPil` and `ViTFeatureExtractor`.
fn without_suffix(class: &str) -> &str {
    let class = class.strip_suffix("Fast").or_else(|| class.strip_suffix("Pil")).unwrap_or(class);
    class
        .strip_suffix("ImageProcessor")
        .or_else(|| class.strip_suffix("FeatureExtractor"))
        .unwrap_or(class)
}

fn names() -> String {
    let names = KNOWN.iter().map(|it| it.name).chain(["TimmWrapper"]);
    names.map(|it| format!("{it}ImageProcessor")).collect::<Vec<_>>().join(", ")
}

/// A configuration and the defaults of its class.
struct Reading<'a> {
    fields: Fields<'a>,
    defaults: &'a Defaults,
}

impl Reading<'_> {
    fn processor(&self) -> Result<Processor, ConfigError> {
        let mut crops = Vec::new();
        let mut resize = None;
        if self.fields.switch("do_resize", true)? {
            let (rule, crop) = self.resize()?;
            resize = Some((rule, self.filter()?));
            crops.extend(crop);
        }
        let is_detr = matches!(self.defaults.kind, Kind::Detr | Kind::Yolos);
        if !is_detr && self.fields.switch("do_center_crop", self.defaults.crops)? {
            crops.push(self.crop()?);
        }
        Ok(Processor {
            name: format!("{}ImageProcessor", self.defaults.name),
            resize,
            crops,
            values: self.values()?,
            pad: self.pad()?,
        })
    }

    fn filter(&self) -> Result<Filter, ConfigError> {
        let Some(value) = self.fields.get("resample") else { return Ok(self.defaults.filter) };
        value.as_u64().and_then(Filter::from_number).ok_or_else(|| {
            let numbers = Filter::ALL
                .iter()
                .enumerate()
                .map(|(number, it)| format!("{number} ({})", it.name()));
            let remedy = format!("write one of {}", numbers.collect::<Vec<_>>().join(", "));
            ConfigError::new("resample", format!("{value} is no filter"), remedy)
        })
    }

    /// How the image is resized, and what is cut off at once.
    fn resize(&self) -> Result<(SizeRule, Option<Crop>), ConfigError> {
        let rule = self.size()?;
        let kind = self.defaults.kind;
        match (kind, rule) {
            (Kind::ConvNext, SizeRule::ShortestEdge(edge)) if edge >= CONVNEXT_WARPS_FROM => {
                Ok((SizeRule::Exact { height: edge, width: edge }, None))
            }
            (Kind::ConvNext, SizeRule::ShortestEdge(edge)) => {
                let share = self.fields.number("crop_pct", 224.0 / 256.0)?;
                let resized = f64::from(edge) / share;
                if !(1.0..=f64::from(u16::MAX)).contains(&resized) {
                    return Err(ConfigError::new(
                        "crop_pct",
                        format!("{share} is no share"),
                        "write a number up to 1",
                    ));
                }
                let crop = Crop { height: edge, width: edge, rounding: CropRounding::Transformers };
                Ok((SizeRule::ShortestEdge(resized as u32), Some(crop)))
            }
            (Kind::ConvNext, _) => Err(self.wrong_size("shortest_edge")),
            (Kind::Levit, SizeRule::ShortestEdge(edge)) => {
                Ok((SizeRule::ShortestEdge((256.0 / 224.0 * f64::from(edge)) as u32), None))
            }
            (Kind::Levit, SizeRule::Exact { .. }) => Ok((rule, None)),
            (Kind::Levit, _) => Err(self.wrong_size("shortest_edge, or height and width")),
            (Kind::Detr | Kind::Yolos, SizeRule::ShortestEdge(_)) => {
                Err(self.wrong_size("shortest_edge and longest_edge, or height and width"))
            }
            _ => Ok((rule, None)),
        }
    }

    fn wrong_size(&self, keys: &str) -> ConfigError {
        let problem = format!("{}ImageProcessor cannot resize to it", self.defaults.name);
        ConfigError::new("size", problem, format!("write an object with {keys}"))
    }

    fn size(&self) -> Result<SizeRule, ConfigError> {
        let is_yolos = self.defaults.kind == Kind::Yolos;
        let multiple = if is_yolos { YOLOS_MULTIPLE } else { 1 };
        let edges = |shortest, longest| SizeRule::Edges { shortest, longest, multiple };
        let exact = |height, width| SizeRule::Exact { height, width };
        let Some(size) = self.fields.get("size") else {
            return Ok(match self.defaults.size {
                DefaultSize::Square(side) => exact(side, side),
                DefaultSize::Shortest(edge) => SizeRule::ShortestEdge(edge),
                DefaultSize::Edges(shortest, longest) => edges(shortest, longest),
            });
        };
        match size {
            Value::Number(_) => {
                let side = length_of("size", size)?;
                let longest = self.fields.number("max_size", DETR_LONGEST)? as u32;
                if matches!(self.defaults.kind, Kind::Detr | Kind::Yolos) {
                    return Ok(edges(side, longest.max(1)));
                }
                let is_square = self.fields.switch("default_to_square", self.defaults.is_square)?;
                Ok(if is_square { exact(side, side) } else { SizeRule::ShortestEdge(side) })
            }
            Value::Array(sides) if sides.len() == 2 => {
                Ok(exact(length_of("size", &sides[0])?, length_of("size", &sides[1])?))
            }
            _ => {
                let size = Fields::of(size, "size")?;
                if let Some([height, width]) = size.lengths("size", ["height", "width"])? {
                    Ok(exact(height, width))
                } else if let Some([edge]) = size.lengths("size", ["shortest_edge"])? {
                    Ok(SizeRule::ShortestEdge(edge))
                } else if let Some([shortest, longest]) =
                    size.lengths("size", ["shortest_edge", "longest_edge"])?
                {
                    Ok(edges(shortest, longest))
                } else if let Some([height, width]) =
                    size.lengths("size", ["max_height", "max_width"])?
                {
                    Ok(SizeRule::Within { height, width })
                } else {
                    Err(self.wrong_size(
                        "height and width, shortest_edge with or without longest_edge, \
                         or max_height and max_width",
                    ))
                }
            }
        }
    }

    /// A field that is a size without a ratio: one number, two, or an object of both.
    fn exact(&self, key: &str) -> Result<Option<(u32, u32)>, ConfigError> {
        let Some(size) = self.fields.get(key) else { return Ok(None) };
        match size {
            Value::Number(_) => {
                let side = length_of(key, size)?;
                Ok(Some((side, side)))
            }
            Value::Array(sides) if sides.len() == 2 => {
                Ok(Some((length_of(key, &sides[0])?, length_of(key, &sides[1])?)))
            }
            _ => match Fields::of(size, key)?.lengths(key, ["height", "width"])? {
                Some([height, width]) => Ok(Some((height, width))),
                None => Err(ConfigError::new(
                    key,
                    "it is no size",
                    "write an object with height and width",
                )),
            },
        }
    }

    fn crop(&self) -> Result<Crop, ConfigError> {
        let size = self.exact("crop_size")?.or(self.defaults.crop.map(|side| (side, side)));
        let (height, width) = size.ok_or_else(|| {
            ConfigError::new(
                "crop_size",
                "it is missing, and do_center_crop is true",
                "write a size",
            )
        })?;
        Ok(Crop { height, width, rounding: CropRounding::Transformers })
    }

    fn values(&self) -> Result<Values, ConfigError> {
        let kind = self.defaults.kind;
        let factor = self.fields.number("rescale_factor", 1.0 / 255.0)?;
        let has_offset =
            kind == Kind::EfficientNet && self.fields.switch("rescale_offset", false)?;
        let rescale = if self.fields.switch("do_rescale", true)? {
            Rescale::Factor { factor, offset: if has_offset { -1.0 } else { 0.0 } }
        } else {
            Rescale::None
        };
        let mean = self.fields.channels("image_mean", self.defaults.mean)?;
        let deviation = self.fields.channels("image_std", self.defaults.deviation)?;
        if deviation.contains(&0.0) {
            return Err(ConfigError::new("image_std", "it has a zero", "write numbers above zero"));
        }
        let mut normalize = Vec::new();
        // MobileViT has the switch, and does nothing by it.
        if kind != Kind::MobileVit
            && self.fields.switch("do_normalize", self.defaults.normalizes)?
        {
            normalize.push((mean, deviation));
        }
        if kind == Kind::EfficientNet && self.fields.switch("include_top", true)? {
            normalize.push(([0.0; 3], deviation));
        }
        let is_flipped =
            kind == Kind::MobileVit && self.fields.switch("do_flip_channel_order", true)?;
        let order = if is_flipped { ChannelOrder::Bgr } else { ChannelOrder::Rgb };
        Ok(Values::new(rescale, &normalize, order))
    }

    fn pad(&self) -> Result<Pad, ConfigError> {
        let kind = self.defaults.kind;
        let is_detr = matches!(kind, Kind::Detr | Kind::Yolos);
        let older = if is_detr {
            self.fields.switch("pad_and_return_pixel_mask", self.defaults.pads)?
        } else {
            false
        };
        if !self.fields.switch("do_pad", older)? || !(is_detr || kind == Kind::Common) {
            return Ok(Pad::None);
        }
        Ok(match self.exact("pad_size")? {
            Some((height, width)) => Pad::To { height, width, mask: is_detr },
            None if is_detr => Pad::ToLargest,
            None => Pad::None,
        })
    }
}
