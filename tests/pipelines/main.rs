//! Texts, images and sounds: folders of Hugging Face's libraries, and the addresses of the servers that others have for
//! them.
// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]
// What only tests of something that was left out of this build use.
#![cfg_attr(
    not(all(
        feature = "isolation",
        feature = "pipelines",
        feature = "pytorch",
        feature = "stores",
        feature = "tensorflow",
        feature = "trees"
    )),
    allow(dead_code, unused_imports)
)]

use test_support as support; // start a server, talk to it, make model repositories

#[cfg(feature = "pipelines")]
mod bombs;
#[cfg(feature = "pipelines")]
mod explain; // the ensembles that do the same as such folders
#[cfg(all(feature = "pipelines", feature = "tensorflow"))]
mod hub_cache; // models in the cache of Hugging Face's hub
#[cfg(feature = "pipelines")]
mod hub_routes; // pipelines in the form of Hugging Face's hub
#[cfg(feature = "pipelines")]
mod image_bodies; // an image in every form that clients send
#[cfg(feature = "pipelines")]
mod image_pipelines;
#[cfg(feature = "pipelines")]
mod image_towers; // images to labels and boxes, against what transformers and Ultralytics say
#[cfg(feature = "pipelines")]
mod noted_statuses; // the status of a failure in the line of its request, beside the one that its client gets
#[cfg(feature = "pipelines")]
mod pipeline_bounds; // how long texts may be, and how many rows a request may make
#[cfg(feature = "pipelines")]
mod pipeline_csv; // texts as CSV, and what pipelines say of them as CSV
#[cfg(feature = "pipelines")]
mod pipeline_faults; // pipelines that fail, and clients that leave theirs
#[cfg(feature = "pipelines")]
mod pipeline_metrics; // what text models count
#[cfg(feature = "pipelines")]
mod pipeline_refusals; // what each kind of client of texts is told where it is refused
#[cfg(feature = "pipelines")]
mod pipeline_routes; // what clients of OpenAI and of Text Embeddings Inference ask, and how they are refused
#[cfg(feature = "pipelines")]
mod pipelines; // folders of Hugging Face's libraries, against what those say
#[cfg(feature = "pipelines")]
mod rerank_routes; // rankings, scores and classes, in the form of those who have clients for them
#[cfg(feature = "pipelines")]
mod sound_pipelines; // sounds to words and labels, against what transformers says
#[cfg(feature = "pipelines")]
mod steps; // ensembles of steps before and behind a graph
#[cfg(feature = "pipelines")]
mod tei_routes; // what clients of Text Embeddings Inference see that others need not
#[cfg(feature = "pipelines")]
mod text_folders; // folders whose graphs or surroundings are unusual // files that say more of themselves than they hold
#[cfg(feature = "pipelines")]
mod weights; // folders that have weights and no graph
