//! What a person at a terminal sees of the log, and a file does not: colours, and how far the loads have come.

use std::process::Command;

use crate::support::Repository;

/// Runs its arguments at a terminal of 24 lines until they say that they serve, and prints all that came. Python's
/// standard library has such terminals.
const AT_A_TERMINAL: &str = "
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen, asked = b'', False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    seen += part
    if not asked and b'ready to serve' in seen:
        asked = True
        os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
sys.stdout.buffer.write(seen)
";

/// What a server over that repository writes.
fn seen(repository: &Repository, variables: &[(&str, &str)]) -> String {
    let path = repository.path().display().to_string();
    let output = Command::new("python3")
        .args(["-c", AT_A_TERMINAL, env!("CARGO_BIN_EXE_muster")])
        .args(["--model-repository", &path, "--http-port=0", "--grpc-port=0", "--sagemaker-port=0"])
        .args(["--metrics-port=0", "--drain-delay-secs=0"])
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied())
        .output()
        .expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_terminal_has_colours_and_one_line_about_loads() {
    let repository = Repository::identity("first", &[]).with_identity("other", &[]);
    let text = seen(&repository, &[]);
    assert!(text.contains("\x1b[32mINFO \x1b[0m"), "{text:?}");
    let steps: Vec<&str> = text.split("\r\x1b[K").skip(1).collect();
    for number in ["loading 1 of 2: ", "loading 2 of 2: "] {
        assert!(steps.iter().any(|it| it.starts_with(number)), "{number}: {text:?}");
    }
    // What comes last there is no load: the line is gone when they are over.
    assert!(steps.last().is_some_and(|it| !it.starts_with("loading")), "{text:?}");
    let plain = seen(&repository, &[("NO_COLOR", "1")]);
    assert!(plain.contains(" INFO ") && !plain.contains("\x1b[32m"), "{plain:?}");
}
