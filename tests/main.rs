//! The whole server, from its sockets inwards: in this process with all ports at 0, or as a child process
//! where signals, the log or the exit code matter.
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

mod support; // start a server, talk to it, make model repositories

mod architecture; // which crate and which file imports which, and what the code does not say

#[cfg(feature = "tensorflow")]
mod any_rank; // inputs of which it is not known how many dimensions they have
mod converted; // models in the form in which converters write them
#[cfg(all(feature = "pytorch", feature = "tensorflow"))]
mod engines; // every fixture by ONNX Runtime, against what Python's said
#[cfg(feature = "trees")]
mod estimators; // classifiers of XGBoost that stopped early, and categories that have names
#[cfg(feature = "trees")]
mod feature_names; // columns by the names that a file of trees has for its features
#[cfg(feature = "tensorflow")]
mod instead_of_tfs; // what an operator of TensorFlow Serving has, as it is
#[cfg(feature = "tensorflow")]
mod savedmodel_broken; // files of a SavedModel that are cut, missing or in another form
#[cfg(feature = "tensorflow")]
mod savedmodel_examples; // examples to signatures of SavedModels that parse them, and the metadata of all signatures
#[cfg(feature = "tensorflow")]
mod savedmodel_hosted; // which SavedModels of a hosting platform's folder serve, and in which versions
#[cfg(feature = "tensorflow")]
mod savedmodel_keras; // what Keras exports, against what its `predict` says; that a library is fetched once
#[cfg(all(feature = "isolation", feature = "tensorflow"))]
mod savedmodel_safety; // which files and libraries a SavedModel may reach
#[cfg(feature = "tensorflow")]
mod savedmodel_settings; // which graph of a SavedModel runs, in which precision, and parameters without effect
#[cfg(feature = "tensorflow")]
mod savedmodel_signatures; // the signatures of a SavedModel by name: which one runs, what it takes, its metadata
#[cfg(feature = "tensorflow")]
mod savedmodel_warmup; // the requests that a SavedModel brings along
#[cfg(feature = "tensorflow")]
mod savedmodels; // TensorFlow behind the server: types, strings, tables, state, refusals
#[cfg(feature = "trees")]
mod sklearn_outputs; // outputs of scikit-learn's estimators by the names of their methods
#[cfg(all(feature = "pytorch", feature = "tensorflow"))]
mod torchscript; // the libtorch engine behind the server: the same answers, models without a configuration, refusals
#[cfg(feature = "trees")]
mod trees; // files of XGBoost and LightGBM, found and answered as their libraries do

#[cfg(not(any(
    feature = "isolation",
    feature = "pipelines",
    feature = "pytorch",
    feature = "stores",
    feature = "tensorflow",
    feature = "trees"
)))]
mod left_out; // a build without any feature

mod compatibility; // the table of everything that Triton has, and what becomes of it

#[cfg(all(feature = "pipelines", feature = "stores", feature = "tensorflow"))]
mod aws_facade; // what clients of SageMaker's runtime call
mod aws_suites; // what the tests of AWS's containers ask over HTTP
mod bench; // the load generator against this server
#[cfg(all(feature = "pipelines", feature = "tensorflow"))]
mod clients; // tritonclient, requests and the Prometheus parser, in Python
#[cfg(feature = "pipelines")]
mod every_byte; // sizes drawn at random in all protocols, in a server with little memory
#[cfg(feature = "pipelines")]
mod explain; // the ensembles that do the same as such folders
mod extensions; // statistics, settings of traces and of the log, every address of Triton's table
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod gate; // the faults of docs/reliability.md, one after the other against one server
mod generate; // generate and generate_stream
mod giving_way; // where there is no room for more, the slowest gives way
mod grpc; // every call over gRPC, what is wrong with each, streams, broken peers
mod hosting; // what a hosting platform starts, sets and asks, and its variables
#[cfg(all(feature = "pipelines", feature = "tensorflow"))]
mod hub_cache; // models in the cache of Hugging Face's hub
#[cfg(feature = "pipelines")]
mod hub_routes; // pipelines in the form of Hugging Face's hub
mod hung_runs; // runs that never end
#[cfg(feature = "pipelines")]
mod image_bodies; // an image in every form that clients send
#[cfg(feature = "pipelines")]
mod image_pipelines;
#[cfg(feature = "pipelines")]
mod image_towers; // images to labels and boxes, against what transformers and Ultralytics say
mod invocation_bodies; // every body that the containers of SageMaker have taught clients to send
#[cfg(feature = "isolation")]
mod isolation; // models in processes of their own
mod kserve_v2; // health, metadata, inference as JSON and as binary tensors
#[cfg(feature = "trees")]
mod many_forests; // hundreds of tree models that come and go in one process
mod multi_model; // multi-model endpoints: models that a platform loads and unloads by keys
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
mod recommend; // which settings and which machine suit a model
mod recommend_api; // the same by SageMaker's operations
#[cfg(feature = "pipelines")]
mod rerank_routes; // rankings, scores and classes, in the form of those who have clients for them
#[cfg(feature = "isolation")]
mod run_limits; // how long a run of a model may take by its configuration
#[cfg(feature = "pipelines")]
mod run_room; // what runs take beside their bodies, and what they leave
mod sagemaker; // /ping and /invocations, content types, the layouts of a hosting platform
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod sandbox; // what such a process can reach
mod shared_memory; // inputs and outputs in memory that clients share
#[cfg(feature = "pipelines")]
mod steps; // ensembles of steps before and behind a graph
mod streaming; // replies that are streams, and large ones
#[cfg(feature = "pipelines")]
mod text_folders; // folders whose graphs or surroundings are unusual
mod tfs; // TensorFlow Serving's REST API
mod tfs_grpc; // TensorFlow Serving's services over gRPC
mod tfs_metrics; // metrics with TensorFlow Serving's names
mod vertex; // the port of Vertex AI
mod websocket; // conversations in which each message is a request
#[cfg(feature = "isolation")]
mod worker_batches; // batches whose process is killed, and a system without shared memory
#[cfg(feature = "isolation")]
mod worker_devices; // models with a process on each of several devices
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod worker_engines; // TorchScript models and SavedModels whose processes are killed
#[cfg(feature = "isolation")]
mod worker_faults; // native code that crashes, and servers that stop in the middle of that
#[cfg(feature = "isolation")]
mod worker_lanes; // instances in the next process, made and warmed before they get requests
#[cfg(feature = "isolation")]
mod worker_loads; // loads in processes of their own that do not end, or end their process
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod worker_places; // where models run whose first runs decide it
#[cfg(feature = "isolation")]
mod worker_policies; // what a configuration says of the process of its model
#[cfg(feature = "isolation")]
mod worker_sequences; // sequences whose process is killed
#[cfg(feature = "isolation")]
mod worker_soaks; // the same faults a hundred thousand times, and how soon a model is back; not part of every run
#[cfg(feature = "isolation")]
mod worker_standby; // a process that is kept ready for the place of one that is killed
#[cfg(feature = "isolation")]
mod worker_templates; // processes that are forked where it is found out where models run
#[cfg(feature = "trees")]
mod xgboost; // bodies and replies of XGBoost's container and of AWS's algorithms

mod access; // tokens, restricted categories, forwarded headers
mod compression; // gzip and deflate, in both directions
mod foreign_pages; // what browsers ask for pages of other sites
mod tls; // encryption, certificates of clients, renewed files

#[cfg(all(feature = "pipelines", feature = "stores", feature = "tensorflow"))]
mod store_control; // models of such repositories, loaded by request and while the server runs
#[cfg(all(feature = "pipelines", feature = "stores", feature = "tensorflow"))]
mod stores; // repositories in object stores, against one that speaks S3

mod gpus; // where instances run on a machine with GPUs, and what is read of those

mod batching; // what a configuration says about batches, queues and instances
mod cache; // answers that are kept
mod cancellation; // clients that leave
mod drain; // stopping under load
mod ensembles; // models that are made of other models
#[cfg(feature = "isolation")]
mod idle_signals; // signals that ask for nothing
mod in_place_runs; // which runs are made on the thread that read their request, and few clients of a slow model
mod large_requests; // requests of more rows than a run has
mod lifecycle; // starting, and starts that fail
mod merging; // which models have the rows of several requests in one run

mod changing_files; // files of models that change while they serve, with equal lengths and times
mod config_sizes; // numbers in configurations that become sizes, and files that come with a load
mod control; // loading and unloading by request
mod model_config_file; // models that are named one by one, their versions and reloads
mod on_demand; // loading at the first request, and making room
mod poll; // following the repository
mod reload; // what changes while requests come

mod log_settings; // the log, changed while it is written
mod metrics; // the metrics page
#[cfg(feature = "pipelines")]
mod noted_statuses; // the status of a failure in the line of its request, beside the one that its client gets
mod observability; // lines of metrics on standard output, captured data
mod statistics; // what is counted of a model
mod tracing; // traces of requests, in files, at a collector and in the log

mod model_config; // alternatives, checksums, libraries, files by name, priorities, buckets
mod ragged; // batches of requests whose shapes differ
mod rate_limit; // resources that instances share
mod sequences; // sequences of requests: state, controls, seats
mod sessions; // stateful sessions on /invocations
#[cfg(feature = "pipelines")]
mod sound_pipelines; // sounds to words and labels, against what transformers says

mod amplification; // what one client costs all others
mod bad_input; // whatever is wrong is refused by name, and harms nobody else
#[cfg(feature = "pipelines")]
mod bombs; // files that say more of themselves than they hold
#[cfg(all(feature = "isolation", feature = "pytorch", feature = "tensorflow"))]
mod broken_models; // what does not load says why, and the others serve
mod buffers; // bytes of one request are in no answer to another
mod expansion; // what small bodies become, counted before it is there
mod faults; // what clients and models do wrong
mod limits; // what one client may take
mod storms; // clients that come again and again, memory that is nearly used up
