//! The server that all faults are tried on, what is asked of it, and what its process holds.

use std::{fs, net::SocketAddr, path::Path};

use crate::support::{
    Client, Group, NO_GPUS, Process, Reply, Repository, gpus::driver, infer, skip, workers::workers,
};

/// The parameter of a model in a process of its own.
const PROCESS: (&str, &str) = ("ISOLATION", "process");

/// The parameter of one whose process is replaced at 64 MiB, which is more than it needs at first.
const RECYCLE: (&str, &str) = ("MEMORY_RECYCLE_BYTES", "67108864");

/// The C library keeps a heap for each few threads. It grows to the most that those threads are ever asked for at once,
/// and which of them are is chance. With one heap memory is that of the requests.
const ONE_ARENA: (&str, &str) = ("MALLOC_ARENA_MAX", "1");

/// Memory of the group of the server and of its models' processes, where a group can be made. All models take a fourth
/// of it.
pub const MEMORY: u64 = 512 << 20;

/// The model that runs on a GPU, of two that are not there. All others run on the CPU.
const ON_GPU: &str = "on_gpu";

/// The longest run, in seconds: a machine that is busy with other things lets a process start and a run end by then.
pub const RUN_LIMIT: u32 = 3;

/// The server and what is asked of it.
pub struct Gate {
    pub http: SocketAddr,
    pub grpc: SocketAddr,
    pub process: Process,
    pub repository: Repository,
    /// Processes of models that it begins with.
    pub workers: usize,
    /// Which bounds its memory; the last to go. `None` where none can be made.
    pub group: Option<Group>,
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
pub struct Holdings {
    /// Bytes that the process has written to. Its code is not counted: the system reads it as it is first run, and
    /// takes it back.
    pub memory: u64,
    pub descriptors: usize,
    pub threads: usize,
    pub processes: usize,
}

impl Holdings {
    /// Does it hold more descriptors, threads or processes? Processes are to be the same.
    pub fn is_more_than(&self, other: &Holdings) -> bool {
        other.descriptors < self.descriptors
            || other.threads < self.threads
            || other.processes != self.processes
    }
}

impl Gate {
    pub fn start() -> Gate {
        let apart = |fault| [("fault", fault), ("fault_marker", "666"), PROCESS];
        let text = "backend: \"identity\" max_batch_size: 8
            input { name: \"INPUT0\" data_type: TYPE_STRING dims: [ 1 ] }
            output { name: \"OUTPUT0\" data_type: TYPE_STRING dims: [ 1 ] }";
        let any = "backend: \"identity\" max_batch_size: 8 dynamic_batching { }
            input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }
            output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }";
        let poisoned = "backend: \"identity\" max_batch_size: 8 dynamic_batching { }
            input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
            output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
            parameters { key: \"fault\" value: { string_value: \"fail\" } }
            parameters { key: \"fault_marker\" value: { string_value: \"666\" } }
            parameters { key: \"execute_delay_ms\" value: { string_value: \"50\" } }";
        let operators = "backend: \"onnxruntime\"
            model_operations { op_library_filename: \"/nowhere/libops.so\" }";
        let typo = "backend: \"identity\" max_batch_sise: 8";
        let repository = Repository::identity("canary", &[])
            .with_identity("canary_apart", &[PROCESS])
            .with_identity("killed", &apart("abort"))
            .with_identity("deaf", &apart("deaf"))
            .with_identity("fails", &[("fault", "fail")])
            .model("poisoned", poisoned)
            .with_identity("no_memory", &[("fault", "out_of_memory")])
            .with_identity("wrong_rows", &[("fault", "wrong_rows")])
            .with_identity("panics", &[("fault", "panic")])
            .with_identity("slow", &[("execute_delay_ms", "100")])
            .with_identity("other", &[])
            .with_identity(
                "leaks",
                &[("fault", "leak"), ("execute_delay_ms", "5"), PROCESS, RECYCLE],
            )
            .with_identity("still", &[PROCESS])
            .with_identity("takes_all", &[("fault", "leak"), ("execute_delay_ms", "1"), PROCESS])
            .with_identity(ON_GPU, &apart("lost_gpu"))
            .with_identity("hostile", &[("fault", "reach"), PROCESS])
            .with_identity("burns", &[("latency_alpha_us", "100000"), ("latency_mode", "burn")])
            .model("text", text)
            .model("any", any)
            .model("bytes", &any.replace("FP32", "UINT8"))
            .copy("less_mean", "tests/fixtures/mixing/less_mean")
            .copy("uploaded", "tests/fixtures/mixing/less_mean")
            .fixture("operators", "type_fp32")
            .file("operators/config.pbtxt", operators)
            .model("typo", typo)
            .file("corrupt/1/model.onnx", [7; 5000]);
        place(repository.path());
        let run_limit = format!("--run-limit-secs={RUN_LIMIT}");
        let flags = [
            "--model-control-mode=explicit",
            "--load-model=*",
            "--strict-readiness=false",
            &run_limit,
            "--header-timeout-secs=1",
            "--idle-timeout-secs=3",
            "--exit-timeout-secs=20",
            "--http-max-input-size=16MiB",
            "--max-inflight-bytes=1GiB",
            "--allow-client-shm=true",
            "--worker-sandbox=on",
            "--trace-config=triton,file=/dev/full",
            "--trace-config=rate=10",
            "--trace-config=level=TIMESTAMPS",
        ];
        let group = Group::make(MEMORY);
        if group.is_none() {
            skip("rows 29 and 55 of the gate: no control group can be made here");
        }
        let gpus = [("LD_LIBRARY_PATH", driver()), (NO_GPUS.0, "0,1")];
        let environment = [&[ONE_ARENA], &gpus[..]].concat();
        // The pages of a file are counted to whoever reads it first. Those of the program would be dropped and read
        // again for as long as memory is short, instead of a worker's end.
        drop(fs::read(env!("CARGO_BIN_EXE_muster")).unwrap());
        let mut process = Process::start_within(group.as_ref(), &repository, &flags, &environment);
        process.wait_ready();
        let [http, grpc] = ["http", "grpc"].map(|it| process.address(it));
        let workers = workers(process.id()).len();
        Gate { http, grpc, process, repository, workers, group }
    }

    /// Lines of the log that hold that.
    pub fn lines(&self, part: &str) -> usize {
        self.process.log().iter().filter(|it| it.contains(part)).count()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.http)
    }

    #[track_caller]
    pub fn post(&self, model: &str, body: &[u8]) -> Reply {
        self.client().post(&infer(model), &[], body)
    }

    #[track_caller]
    pub fn refused(&self, model: &str, body: &[u8], statuses: &[u16]) {
        let reply = self.post(model, body);
        assert!(statuses.contains(&reply.status), "{} {}", reply.status, reply.text());
    }

    #[track_caller]
    pub fn input(&self, name: &str, shape: &str, dtype: &str, data: &str, statuses: &[u16]) {
        let body = format!(
            r#"{{"inputs":[{{"name":"{name}","shape":{shape},"datatype":"{dtype}","data":[{data}]}}]}}"#
        );
        self.refused("canary", body.as_bytes(), statuses);
    }

    #[track_caller]
    pub fn binary(&self, model: &str, dtype: &str, columns: usize, data: &[u8], status: u16) {
        let json = format!(
            r#"{{"inputs":[{{"name":"INPUT0","shape":[1,{columns}],"datatype":"{dtype}","parameters":{{"binary_data_size":{}}}}}]}}"#,
            data.len()
        );
        let length = json.len().to_string();
        let headers = [("inference-header-content-length", &*length)];
        let reply = self.client().post(&infer(model), &headers, [json.as_bytes(), data].concat());
        assert_eq!(reply.status, status, "{}", reply.text());
    }

    /// Sends these bytes; where the server closes the connection before it has read them, that is an answer too.
    #[track_caller]
    pub fn raw(&self, bytes: &str, statuses: &[u16]) {
        let mut client = self.client();
        if client.send(bytes).is_ok() {
            let reply = client.reply();
            assert!(statuses.contains(&reply.status), "{} {}", reply.status, reply.text());
        }
    }

    pub fn zombies(&self) -> usize {
        let pids =
            fs::read_dir("/proc").unwrap().filter_map(|it| it.ok()?.file_name().into_string().ok());
        let parent = self.process.id().to_string();
        pids.filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
            fields.next() == Some("Z") && fields.next() == Some(&parent)
        })
        .count()
    }

    pub fn holdings(&self) -> Holdings {
        let id = self.process.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        Holdings {
            memory: (number("RssAnon:") + number("RssShmem:")) << 10,
            descriptors: fs::read_dir(format!("/proc/{id}/fd")).unwrap().count(),
            threads: number("Threads:") as usize,
            processes: workers(id).len(),
        }
    }
}

/// Says of all models of that repository where they run: without that each would be on all GPUs.
fn place(repository: &Path) {
    for model in fs::read_dir(repository).unwrap() {
        let folder = model.unwrap().path();
        let kind = if folder.ends_with(ON_GPU) { "KIND_GPU gpus: 1" } else { "KIND_CPU" };
        let path = folder.join("config.pbtxt");
        let config = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, format!("{config} instance_group {{ kind: {kind} }}")).unwrap();
    }
}
