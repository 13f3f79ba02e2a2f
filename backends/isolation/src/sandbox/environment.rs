//! Which variables of the server a worker is given. Pure.

use super::order::Sandbox;

/// Beginnings of names that are settings of the server, or of services that it asks.
const OF_THE_SERVER: [&str; 7] =
    ["MUSTER_", "AWS_", "AZURE_", "GOOGLE_", "TRITONCACHE_", "TRITON_", "KUBERNETES_"];

/// Words of names whose values are secrets.
const SECRET: [&str; 7] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS", "KEY"];

/// What a worker in a strict sandbox is given: what the loader, the C library and engines' libraries read.
const STRICT: [&str; 6] =
    ["LANG", "LD_LIBRARY_PATH", "PATH", "TZ", "RUST_BACKTRACE", "GLIBC_TUNABLES"];

/// The same, by the beginning of their names.
const STRICT_BEGINNINGS: [&str; 21] = [
    "ATEN_",
    "CUBLAS",
    "CUDA_",
    "CUDNN_",
    "DNNL_",
    "GOMP_",
    "KMP_",
    "LC_",
    "MALLOC_",
    "MKL_",
    "NVIDIA_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "ORT_",
    "PYTORCH_",
    "TF_",
    "TORCH_",
    "XLA_",
    "NCCL_",
    "TCMALLOC_",
];

/// Is a worker in that sandbox given the server's variable of that name?
pub fn passes(sandbox: Sandbox, name: &str) -> bool {
    match sandbox {
        Sandbox::Off => true,
        Sandbox::On => !is_of_the_server(name),
        Sandbox::Strict => {
            let is_listed =
                STRICT.contains(&name) || STRICT_BEGINNINGS.iter().any(|it| name.starts_with(it));
            is_listed && !is_of_the_server(name)
        }
    }
}

fn is_of_the_server(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    OF_THE_SERVER.iter().any(|it| name.starts_with(it))
        || name.split('_').any(|it| SECRET.contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, on: bool, strict: bool) {
        assert!(passes(Sandbox::Off, name));
        assert_eq!(passes(Sandbox::On, name), on, "{name}");
        assert_eq!(passes(Sandbox::Strict, name), strict, "{name}");
    }

    #[test]
    fn secrets_stay_in_the_server_and_a_strict_sandbox_has_a_list() {
        check("AWS_SECRET_ACCESS_KEY", false, false);
        check("MUSTER_ACCESS_TOKENS_FILE", false, false);
        check("HF_TOKEN", false, false);
        check("db_password", false, false);
        check("TF_SOME_TOKEN", false, false);
        check("MONKEY", true, false);
        check("DATABASE_URL", true, false);
        check("OMP_NUM_THREADS", true, true);
        check("TF_ENABLE_ONEDNN_OPTS", true, true);
        check("LD_LIBRARY_PATH", true, true);
        check("LD_PRELOAD", true, false);
    }
}
