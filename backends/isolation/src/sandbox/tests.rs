//! What a thread in the sandbox reaches. Landlock, seccomp and capabilities are those of a thread, so that each test
//! has one of its own.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::Path,
    process::Command,
    sync::mpsc,
    thread,
};

use rustix::{
    io::Errno,
    process::{getpid, getppid, test_kill_process},
    thread::{CapabilitySet, capabilities, set_no_new_privs},
};

use super::{
    calls::{self, Sockets},
    kernel::Kernel,
    limits,
    reach::Reach,
    rules, threads,
};
use crate::whose::Whose;

/// Runs that on a thread that reads in `readable` and writes in `writable`; both are given, and a directory beside
/// them. Not where the kernel has no sandbox.
fn within(sockets: Sockets, test: impl FnOnce(&Path, &Path, &Path) + Send + 'static) {
    let kernel = Kernel::ask();
    if !(kernel.has_landlock && kernel.has_seccomp) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let names = ["readable", "writable", "beside", "opened"];
    let [readable, writable, beside, opened] = names.map(|it| {
        let folder = dir.path().join(it);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), "text").unwrap();
        folder
    });
    let reach = Reach {
        reads: vec!["/proc/self".into(), "/dev/urandom".into(), readable.clone()],
        writes: vec![writable.clone()],
        opened: vec![opened.clone()],
        devices: vec!["/dev/null".into()],
        ..Reach::default()
    };
    let inside = move || {
        let _pins = rules::restrict(&reach).unwrap();
        calls::restrict(sockets).unwrap();
        test(&readable, &writable, &beside);
    };
    thread::spawn(inside).join().unwrap();
}

#[track_caller]
fn denied<T>(outcome: io::Result<T>) {
    let error = outcome.err().expect("denied");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

#[test]
fn files_that_are_not_named_are_neither_read_nor_written() {
    within(Sockets::None, |readable, writable, beside| {
        assert_eq!(fs::read(readable.join("file")).unwrap(), b"text");
        assert_eq!(fs::read_dir(readable).unwrap().count(), 1);
        denied(fs::read(beside.join("file")));
        denied(fs::read_dir(beside));
        denied(fs::read("/etc/passwd"));
        // By a link, and by the way of another directory.
        std::os::unix::fs::symlink(beside.join("file"), writable.join("link")).unwrap();
        denied(fs::read(writable.join("link")));
        denied(fs::read(readable.join("../beside/file")));
        denied(fs::read(format!("/proc/self/root{}", beside.join("file").display())));
        // The kernel calls it another device.
        fs::hard_link(beside.join("file"), writable.join("hard")).unwrap_err();
        fs::rename(readable.join("file"), writable.join("moved")).unwrap_err();

        fs::create_dir(writable.join("folder")).unwrap();
        fs::write(writable.join("folder/other"), "text").unwrap();
        fs::rename(writable.join("folder/other"), writable.join("other")).unwrap();
        fs::remove_file(writable.join("other")).unwrap();
        denied(fs::write(readable.join("other"), "text"));
        denied(fs::write(beside.join("other"), "text"));
        denied(fs::remove_file(readable.join("file")));
        denied(OpenOptions::new().append(true).open(readable.join("file")));
        denied(fs::set_permissions(readable.join("file"), PermissionsExt::from_mode(0o777)));
        denied(fs::create_dir(std::env::temp_dir().join("muster-not-there")));
        // What a setting names: all but a link, which would lead the next worker out of it.
        let opened = beside.with_file_name("opened");
        fs::write(opened.join("other"), "text").unwrap();
        fs::remove_file(opened.join("file")).unwrap();
        denied(std::os::unix::fs::symlink(beside, opened.join("link")));
        std::os::unix::fs::symlink(beside, writable.join("link of its own")).unwrap();
        denied(fs::rename(writable.join("link of its own"), opened.join("link")));
        File::create("/dev/null").unwrap().write_all(b"gone").unwrap();
    });
}

#[test]
fn a_place_that_has_become_a_link_is_not_opened() {
    if !Kernel::ask().has_landlock {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [beside, named] = ["beside", "named"].map(|it| dir.path().join(it));
    fs::create_dir_all(beside.join("folder")).unwrap();
    fs::write(beside.join("folder/file"), "text").unwrap();
    std::os::unix::fs::symlink(&beside, &named).unwrap();
    let opened = vec![named.clone(), named.join("folder")];
    let reach = Reach { opened, ..Reach::default() };
    let inside = move || {
        let _pins = rules::restrict(&reach).unwrap();
        denied(fs::read(named.join("folder/file")));
    };
    thread::spawn(inside).join().unwrap();
}

#[test]
fn a_process_sees_itself_and_no_other() {
    within(Sockets::None, |_, _, _| {
        assert!(fs::read_to_string("/proc/thread-self/status").unwrap().contains("NoNewPrivs:\t1"));
        assert!(0 < fs::read_dir("/proc/self/task").unwrap().count());
        let parent = getppid().unwrap();
        denied(fs::read(format!("/proc/{}/environ", parent.as_raw_pid())));
        denied(fs::read(format!("/proc/{}/cmdline", parent.as_raw_pid())));
        denied(fs::read_dir("/proc"));
        assert_eq!(test_kill_process(parent), Err(Errno::PERM));
        test_kill_process(getpid()).unwrap();
    });
}

#[test]
fn there_is_no_network_and_no_socket() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    within(Sockets::None, move |_, writable, _| {
        denied(TcpStream::connect(address));
        denied(TcpListener::bind("127.0.0.1:0"));
        denied(UdpSocket::bind("127.0.0.1:0"));
        denied(UnixStream::pair());
        denied(UnixListener::bind(writable.join("socket")));
    });
    for sockets in [Sockets::Unconnected, Sockets::Unix] {
        within(sockets, move |_, writable, _| {
            denied(TcpStream::connect(address));
            denied(UdpSocket::bind("127.0.0.1:0"));
            UnixStream::pair().unwrap();
            // No socket is made where others could find it.
            denied(UnixListener::bind(writable.join("socket")));
        });
    }
}

#[test]
fn sockets_of_cuda_reach_no_daemon_where_its_service_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let [stream, datagrams] = ["stream", "datagrams"].map(|it| dir.path().join(it));
    let _daemon = UnixListener::bind(&stream).unwrap();
    let _log = UnixDatagram::bind(&datagrams).unwrap();
    let connects = |it: &Path| UnixStream::connect(it).map(drop);
    let sends = |it: &Path| UnixDatagram::unbound()?.send_to(b"text", it).map(drop);
    {
        let (stream, datagrams) = (stream.clone(), datagrams.clone());
        within(Sockets::Unconnected, move |_, _, _| {
            assert_eq!(connects(&stream).unwrap_err().kind(), ErrorKind::NotFound);
            denied(sends(&datagrams));
            denied(UnixDatagram::pair());
            // As CUDA's library listens: by a name of no file. Nobody is let in.
            let name = format!("muster-cuda-uvmfd-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(name).unwrap();
            let listens = UnixListener::bind_addr(&address).unwrap();
            listens.set_nonblocking(true).unwrap();
            denied(listens.accept());
        });
    }
    within(Sockets::Unix, move |_, _, _| {
        connects(&stream).unwrap();
        sends(&datagrams).unwrap();
    });
}

#[test]
fn no_program_is_started_and_threads_are() {
    within(Sockets::None, |_, _, _| {
        denied(Command::new("/bin/true").spawn());
        assert_eq!(thread::spawn(|| 7).join().unwrap(), 7);
        thread::spawn(|| denied(fs::read("/etc/passwd"))).join().unwrap();
    });
}

/// What comes of a thread that one in the sandbox starts, where the file by which the kernel asks is with `asked`.
fn start_of_a_thread(asked: impl FnOnce(OwnedFd)) -> io::Result<i32> {
    let (sender, asks) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let inside = thread::spawn(move || {
        set_no_new_privs(true).unwrap();
        calls::restrict(Sockets::None).unwrap();
        sender.send(threads::ask().unwrap()).unwrap();
        may_go_on.recv().unwrap();
        thread::Builder::new().spawn(|| 7).map(|it| it.join().unwrap())
    });
    asked(asks.recv().unwrap());
    go_on.send(()).unwrap();
    inside.join().unwrap()
}

#[test]
fn a_thread_starts_where_the_server_lets_it_and_nowhere_else() {
    if !threads::can_be_asked() {
        return;
    }
    let whose = Whose { model: "m".to_owned(), version: 1, device: None };
    let own = std::process::id();
    let answered = start_of_a_thread(|asks| threads::answer(asks, &whose, own).unwrap());
    assert_eq!(answered.unwrap(), 7);
    assert!(start_of_a_thread(drop).is_err());
}

/// What the call says that is given nothing but zeros.
fn error_of(call: i64) -> Option<i32> {
    // SAFETY: no call that is asked for reads or writes memory by a null pointer without failing.
    let outcome = unsafe { libc::syscall(call, 0, 0, 0, 0, 0, 0) };
    (outcome < 0).then(|| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[test]
fn calls_that_reach_beyond_the_process_are_refused() {
    within(Sockets::Unconnected, |_, _, _| {
        for call in [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_kexec_load,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_io_uring_setup,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_keyctl,
            libc::SYS_userfaultfd,
            libc::SYS_shmget,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_truncate,
            libc::SYS_kill,
        ] {
            assert_eq!(error_of(call), Some(libc::EPERM), "{call}");
        }
        assert_eq!(error_of(libc::SYS_clone3), Some(libc::ENOSYS));
        assert_eq!(error_of(libc::SYS_getpid), None);
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_second_set_of_calls_of_x86_is_refused_as_the_first() {
    within(Sockets::Unconnected, |_, _, _| {
        let bit = 0x4000_0000;
        for call in [libc::SYS_socketpair, libc::SYS_clone, libc::SYS_bpf, 520, 521] {
            assert_eq!(error_of(call | bit), Some(libc::EPERM), "{call}");
        }
        assert_eq!(error_of(libc::SYS_clone3 | bit), Some(libc::ENOSYS));
    });
}

#[test]
fn rights_of_root_are_given_up_but_for_reading() {
    thread::spawn(|| {
        limits::drop_capabilities().unwrap();
        let left = capabilities(None).unwrap();
        let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        assert!(kept.contains(left.permitted) && kept.contains(left.effective));
    })
    .join()
    .unwrap();
}
