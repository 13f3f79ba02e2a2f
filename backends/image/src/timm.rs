//! The preparation of timm's models, from `pretrained_cfg` of their `config.json`. That file has no switches; those of
//! other processors stand beside it where a graph takes bytes and makes numbers of them itself.

use serde_json::Value;

use crate::{
    crop::{Crop, CropRounding},
    error::ConfigError,
    fields::{Fields, length_of},
    filter::Filter,
    processor::{Pad, Processor},
    size::SizeRule,
    values::{ChannelOrder, Rescale, Values},
};

const MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f64; 3] = [0.229, 0.224, 0.225];

/// The processor of a `config.json` with `pretrained_cfg`.
pub(crate) fn from_config(outer: Fields<'_>) -> Result<Processor, ConfigError> {
    let fields = outer.get("pretrained_cfg").ok_or_else(|| {
        let remedy = "give the config.json that timm has saved";
        ConfigError::new("pretrained_cfg", "it is missing", remedy)
    })?;
    let fields = Fields::of(fields, "pretrained_cfg")?;
    let (height, width) = input_size(fields)?;
    let name = fields.text("interpolation").unwrap_or("bicubic");
    let filter = Filter::from_name(name).ok_or_else(|| {
        let remedy = format!("expected one of {}", Filter::ALL.map(Filter::name).join(", "));
        ConfigError::new("pretrained_cfg.interpolation", format!("'{name}' is no filter"), remedy)
    })?;
    let share = fields.number("crop_pct", 0.875)?;
    let share = if share == 0.0 { 0.875 } else { share };
    let scaled = |side: u32| (f64::from(side) / share).floor();
    if !(1.0..=f64::from(u16::MAX)).contains(&scaled(height))
        || !(1.0..=f64::from(u16::MAX)).contains(&scaled(width))
    {
        let problem = format!("{share} is no share");
        return Err(ConfigError::new("pretrained_cfg.crop_pct", problem, "write a number up to 1"));
    }
    let (scaled_height, scaled_width) = (scaled(height) as u32, scaled(width) as u32);
    let rule = match fields.text("crop_mode").unwrap_or("center") {
        "squash" => SizeRule::Exact { height: scaled_height, width: scaled_width },
        "border" => {
            let problem = "crop_mode 'border' is not known";
            return Err(ConfigError::new(
                "pretrained_cfg.crop_mode",
                problem,
                "expected center or squash",
            ));
        }
        _ if scaled_height == scaled_width => SizeRule::ShortestEdge(scaled_height),
        _ => SizeRule::Cover { height: scaled_height, width: scaled_width },
    };
    let mean = fields.channels("mean", MEAN)?;
    let deviation = fields.channels("std", DEVIATION)?;
    Ok(Processor {
        name: "TimmWrapperImageProcessor".to_owned(),
        resize: Some((rule, filter)),
        crops: vec![Crop { height, width, rounding: CropRounding::Torchvision }],
        values: values(outer, (mean, deviation))?,
        pad: Pad::None,
    })
}

fn values(outer: Fields<'_>, of_model: ([f32; 3], [f32; 3])) -> Result<Values, ConfigError> {
    let rescale = match outer.switch("do_rescale", true)? {
        true => Rescale::DivideBy255,
        false => Rescale::None,
    };
    let normalize = outer.switch("do_normalize", true)?.then_some(of_model);
    Ok(Values::new(rescale, normalize.as_slice(), ChannelOrder::Rgb))
}

fn input_size(fields: Fields<'_>) -> Result<(u32, u32), ConfigError> {
    const KEY: &str = "pretrained_cfg.input_size";
    match fields.get("input_size") {
        None => Ok((224, 224)),
        Some(Value::Array(sides)) if sides.len() == 3 && sides[0] == 3 => {
            Ok((length_of(KEY, &sides[1])?, length_of(KEY, &sides[2])?))
        }
        Some(other) => {
            Err(ConfigError::new(KEY, format!("{other} is no size"), "write [3, height, width]"))
        }
    }
}
