//! Manifests of a registry of images: which layers an image has, and what each is. Pure.

use serde_json::Value;

use crate::{cache::is_inside, digest::Digest};

/// What is asked for: images and artifacts, and lists of them.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// The type of a layer that stands for none.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The annotation with the name of the file that a layer is, and the one that says that it is a folder.
const TITLE: &str = "org.opencontainers.image.title";
const IS_FOLDER: &str = "io.deis.oras.content.unpack";

/// Most layers of an image.
const MOST_LAYERS: usize = 10_000;

/// A manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Manifest {
    /// That of an image or an artifact.
    Image(Vec<Layer>),
    /// A list of such: the digest of the only one that may be meant.
    List(Digest),
}

/// A layer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) digest: Digest,
    /// Its bytes.
    pub(crate) size: u64,
    pub(crate) content: Content,
}

/// What a layer is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file of this path.
    File(String),
    /// An archive of files.
    Archive,
}

impl Manifest {
    /// Reads one.
    ///
    /// # Errors
    /// What was expected.
    pub(crate) fn parse(document: &[u8]) -> Result<Manifest, String> {
        let document: Value = serde_json::from_slice(document)
            .map_err(|it| format!("expected a manifest as JSON, it is none: {it}"))?;
        if let Some(all) = document["manifests"].as_array() {
            return only(all).map(Manifest::List);
        }
        let layers = document["layers"].as_array().filter(|it| it.len() <= MOST_LAYERS);
        let layers = layers.ok_or(
            "expected a manifest of version 2 with a list of layers; older ones are not read",
        )?;
        let real = layers.iter().filter(|it| it["mediaType"] != EMPTY);
        let layers = real.map(layer).collect::<Result<Vec<_>, _>>()?;
        match layers.is_empty() {
            true => Err("the image has no layers".to_owned()),
            false => Ok(Manifest::Image(layers)),
        }
    }
}

/// Of a list, the manifest that is for no platform, or the only one that holds an image.
fn only(all: &[Value]) -> Result<Digest, String> {
    let is_attestation =
        |it: &&Value| it["annotations"]["vnd.docker.reference.type"] == "attestation-manifest";
    let images: Vec<&Value> = all.iter().filter(|it| !is_attestation(it)).collect();
    let mut without = images.iter().filter(|it| it["platform"].is_null());
    match (&images[..], without.next(), without.next()) {
        (_, Some(one), None) | ([one], _, _) => digest(&one["digest"]),
        _ => {
            let each = images.iter().map(|it| {
                let part = |name: &str| it["platform"][name].as_str().unwrap_or("any").to_owned();
                let digest = it["digest"].as_str().unwrap_or_default();
                format!("{}/{} @{digest}", part("os"), part("architecture"))
            });
            let each: Vec<String> = each.collect();
            Err(format!(
                "it is a list of several images: name one by its digest: {}",
                each.join(", ")
            ))
        }
    }
}

fn layer(layer: &Value) -> Result<Layer, String> {
    let digest = digest(&layer["digest"])?;
    let size = layer["size"].as_u64();
    let size = size.ok_or_else(|| format!("expected the size of layer {digest}"))?;
    let title = layer["annotations"][TITLE].as_str();
    let is_folder = layer["annotations"][IS_FOLDER] == "true";
    let kind = layer["mediaType"].as_str().unwrap_or_default();
    let is_archive = [".tar", "+tar", ".tar.gzip", "+gzip", ".tar.zstd", "+zstd"]
        .iter()
        .any(|it| kind.ends_with(it));
    let content = match title.filter(|_| !is_folder) {
        Some(title) if is_inside(title) => Content::File(title.to_owned()),
        Some(title) => return Err(format!("its file {title:?} would lie outside of its folder")),
        None if is_archive => Content::Archive,
        None => {
            return Err(format!(
                "layer {digest} is of type '{kind}': expected a tar archive, perhaps with gzip or zstd, or a layer with the \
                 annotation {TITLE}"
            ));
        }
    };
    Ok(Layer { digest, size, content })
}

fn digest(value: &Value) -> Result<Digest, String> {
    let text = value.as_str().unwrap_or_default();
    let digest = text.parse().ok().filter(|it| matches!(it, Digest::Sha256(_)));
    digest.ok_or_else(|| format!("expected a digest of the form sha256:<hex>, found '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hex(letter: &str) -> String {
        format!("sha256:{}", letter.repeat(64))
    }

    fn layers(layer: &Value) -> Result<Manifest, String> {
        Manifest::parse(json!({"layers": [layer]}).to_string().as_bytes())
    }

    #[test]
    fn a_layer_is_a_file_by_its_title_or_an_archive_by_its_type() {
        let content = |kind: &str, annotations: Value| {
            let layer = json!({"mediaType": kind, "digest": hex("a"), "size": 7, "annotations": annotations});
            match layers(&layer) {
                Ok(Manifest::Image(mut layers)) => Ok(layers.remove(0).content),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error),
            }
        };
        let tar = "application/vnd.oci.image.layer.v1.tar";
        let docker = "application/vnd.docker.image.rootfs.diff.tar.gzip";
        let title = |it: &str| json!({TITLE: it});
        // ORAS pushes files by the type of an archive, and folders as archives with a title.
        assert_eq!(
            content(tar, title("a/model.onnx")),
            Ok(Content::File("a/model.onnx".to_owned()))
        );
        assert_eq!(content(tar, json!({TITLE: "model", IS_FOLDER: "true"})), Ok(Content::Archive));
        assert_eq!(content(tar, json!({})), Ok(Content::Archive));
        assert_eq!(content(docker, Value::Null), Ok(Content::Archive));
        assert!(content(tar, title("../x")).unwrap_err().contains("outside of its folder"));
        let zstd = content("application/vnd.oci.image.layer.v1.tar+zstd", json!({}));
        assert_eq!(zstd, Ok(Content::Archive));
        let xz = content("application/vnd.oci.image.layer.v1.tar+xz", json!({}));
        assert!(xz.unwrap_err().contains("tar+xz': expected a tar archive"));
    }

    #[test]
    fn of_a_list_the_only_image_is_taken_and_of_several_none() {
        let list = |all: Value| Manifest::parse(json!({"manifests": all}).to_string().as_bytes());
        let image = |letter: &str, os: &str| json!({"digest": hex(letter), "platform": {"os": os, "architecture": "arm64"}});
        let mut attestation = image("b", "unknown");
        attestation["annotations"] = json!({"vnd.docker.reference.type": "attestation-manifest"});
        let expected = Ok(Manifest::List(hex("a").parse().unwrap()));
        assert_eq!(list(json!([attestation, image("a", "linux")])), expected);
        assert_eq!(list(json!([{"digest": hex("a")}, image("b", "linux")])), expected);
        let several = list(json!([image("a", "linux"), image("c", "windows")])).unwrap_err();
        assert!(several.contains(&format!("windows/arm64 @{}", hex("c"))), "{several}");
    }

    #[test]
    fn what_is_no_manifest_is_refused_with_what_was_expected() {
        for (document, part) in [
            (json!([]), "expected a manifest of version 2"),
            (json!({"layers": []}), "has no layers"),
            (json!({"layers": [{"mediaType": EMPTY}]}), "has no layers"),
            (
                json!({"layers": [{"digest": "sha512:0", "size": 1}]}),
                "sha256:<hex>, found 'sha512:0'",
            ),
            (json!({"layers": [{"digest": hex("a"), "size": -1}]}), "expected the size"),
        ] {
            let error = Manifest::parse(document.to_string().as_bytes()).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(Manifest::parse(b"<html>").unwrap_err().contains("expected a manifest as JSON"));
    }
}
