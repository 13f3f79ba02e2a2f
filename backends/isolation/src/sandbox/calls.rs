//! Which calls of the system a worker is refused: those that reach other processes, the network or the machine's state,
//! and those that would start another program.
//!
//! Refused calls are listed, not allowed ones: a list of allowed calls would have to know what every version of three
//! libraries and of a driver does. Sockets of any kind are among them, since a socket that is a file leads to every
//! daemon of the machine. So are changes of permissions and owners of files, which landlock does not know.

use std::{collections::BTreeMap, io};

use libc::{c_long, c_ulong};
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, sock_filter,
};

/// The conditions under which each call is refused; always, where there are none.
type Refused = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused on every architecture.
#[rustfmt::skip]
const ALWAYS: &[c_long] = &[
    // Other processes: their memory, their descriptors, signals to threads by number alone.
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_process_madvise,
    libc::SYS_process_mrelease, libc::SYS_kcmp, libc::SYS_pidfd_open, libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal, libc::SYS_tkill,
    // The kernel.
    libc::SYS_kexec_load, libc::SYS_kexec_file_load, libc::SYS_init_module, libc::SYS_finit_module,
    libc::SYS_delete_module, libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_reboot, libc::SYS_syslog, libc::SYS_acct,
    libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_quotactl, libc::SYS_quotactl_fd, libc::SYS_settimeofday,
    libc::SYS_clock_settime, libc::SYS_clock_adjtime, libc::SYS_adjtimex, libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // File systems and namespaces.
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_fsopen, libc::SYS_fsconfig,
    libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_move_mount, libc::SYS_open_tree, libc::SYS_mount_setattr,
    libc::SYS_setns, libc::SYS_unshare, libc::SYS_open_by_handle_at, libc::SYS_fanotify_init,
    // Keys, and what has a name that all processes share.
    libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key, libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl,
    libc::SYS_semget, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_semctl, libc::SYS_msgget, libc::SYS_msgsnd,
    libc::SYS_msgrcv, libc::SYS_msgctl, libc::SYS_mq_open, libc::SYS_mq_unlink,
    // Of files, what landlock knows nothing of.
    libc::SYS_fchmod, libc::SYS_fchmodat, FCHMODAT2, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_setxattr,
    libc::SYS_lsetxattr, libc::SYS_fsetxattr, libc::SYS_removexattr, libc::SYS_lremovexattr, libc::SYS_fremovexattr,
    SETXATTRAT, REMOVEXATTRAT, libc::SYS_truncate,
    // Other programs.
    libc::SYS_execve, libc::SYS_execveat,
];

/// Numbers that are the same on every architecture, and that not every C library has a name for.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;

/// Calls of older days, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[c_long] = &[
    libc::SYS_fork, libc::SYS_vfork, libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime,
    libc::SYS_utimes, libc::SYS_futimesat, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// x86-64 has most calls a second time, with this bit, and some with numbers of their own: execve, ptrace,
/// rt_sigqueueinfo, kexec_load, move_pages, rt_tgsigqueueinfo, process_vm_readv, process_vm_writev, execveat.
#[cfg(target_arch = "x86_64")]
pub(super) const X32: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
pub(super) const X32: Option<i64> = None;
const ONLY_X32: [i64; 9] = [520, 521, 524, 528, 533, 536, 539, 540, 545];

/// Which sockets a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    None,
    /// Unix sockets that nothing ever comes through: CUDA's library does not start without one that it listens on, and
    /// looks by another for its service for several processes, MPS, which is not there.
    Unconnected,
    /// Unix sockets, as MPS is there: to all that are files, as a filter does not see of a path what it is.
    Unix,
}

/// Restricts the calling thread, and those that it starts.
///
/// # Errors
/// Where the kernel takes no filter.
pub(super) fn restrict(sockets: Sockets) -> Result<(), Error> {
    apply(refused(sockets)?, libc::EPERM)?;
    if sockets == Sockets::Unconnected {
        // What CUDA's library is told where there is no MPS.
        apply(Refused::from([(libc::SYS_connect, Vec::new())]), libc::ENOENT)?;
    }
    // The C library then starts threads by a call whose flags can be looked at.
    apply(Refused::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

/// Refused to code of users: what reaches into other processes, or changes the kernel.
#[rustfmt::skip]
const OF_PROGRAMS: &[c_long] = &[
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_process_madvise,
    libc::SYS_kcmp, libc::SYS_pidfd_getfd, libc::SYS_kexec_load, libc::SYS_kexec_file_load, libc::SYS_init_module,
    libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_reboot,
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_move_mount, libc::SYS_open_tree,
    libc::SYS_fsmount, libc::SYS_setns, libc::SYS_open_by_handle_at, libc::SYS_keyctl, libc::SYS_add_key,
    libc::SYS_request_key,
];

/// Restricts the calling thread, those that it starts, and the programs that it becomes or starts, as far as code of
/// users is restricted.
///
/// # Errors
/// Where the kernel takes no filter.
pub(super) fn restrict_program() -> Result<(), Error> {
    apply(OF_PROGRAMS.iter().map(|it| (*it, Vec::new())).collect(), libc::EPERM)
}

fn apply(mut refused: Refused, error: i32) -> Result<(), Error> {
    if let Some(bit) = X32 {
        let numbers: Vec<i64> = refused.keys().copied().collect();
        refused.extend(numbers.into_iter().map(|it| (it | bit, Vec::new())));
    }
    let arch = std::env::consts::ARCH.try_into()?;
    let error = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(refused, SeccompAction::Allow, error, arch)?;
    let program: BpfProgram = filter.try_into()?;
    let as_kernel =
        |it: &sock_filter| libc::sock_filter { code: it.code, jt: it.jt, jf: it.jf, k: it.k };
    let mut steps: Vec<libc::sock_filter> = program.iter().map(as_kernel).collect();
    install(&mut steps, 0).map(drop).map_err(Error::Seccomp)
}

/// A filter from now on, for the calling thread and those that it starts. What comes back is what the flags ask for.
pub(super) fn install(steps: &mut [libc::sock_filter], flags: c_ulong) -> io::Result<c_long> {
    let len = u16::try_from(steps.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    // Kernels before Linux 5.16 make threads with a filter slower unless they are told not to: they would guard what a
    // process keeps from code of its own, and here all of a process is one model's.
    let flags = flags | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel copies `len` steps from there, which live until it has returned.
    let outcome = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}

fn refused(sockets: Sockets) -> Result<Refused, BackendError> {
    let always = ALWAYS.iter().chain(OLDER).map(|it| (*it, Vec::new()));
    let mut refused: Refused = always.collect();
    if let Some(bit) = X32 {
        refused.extend(ONLY_X32.map(|it| (it | bit, Vec::new())));
    }
    let own = u64::from(std::process::id());
    let others = || rule(&[(0, SeccompCmpOp::Ne, own)]);
    for call in
        [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo]
    {
        refused.insert(call, vec![others()?]);
    }
    // Zero is this process too.
    let others = || rule(&[(0, SeccompCmpOp::Ne, own), (0, SeccompCmpOp::Ne, 0)]);
    for call in [libc::SYS_prlimit64, libc::SYS_move_pages, libc::SYS_migrate_pages] {
        refused.insert(call, vec![others()?]);
    }
    let threads = libc::CLONE_THREAD as u64;
    let is_process = rule(&[(0, SeccompCmpOp::MaskedEq(threads), 0)])?;
    refused.insert(libc::SYS_clone, vec![is_process]);
    // Times of files by path; of those that are open, their owner may.
    refused.insert(libc::SYS_utimensat, vec![rule_of_pointer(1)?]);
    let is_foreign = rule(&[(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)])?;
    // A datagram has its address with it; raw sockets are the same. The rest of a type are flags.
    let is_type = |it: i32| rule(&[(1, SeccompCmpOp::MaskedEq(0xf), it as u64)]);
    let (datagram, raw) = (is_type(libc::SOCK_DGRAM)?, is_type(libc::SOCK_RAW)?);
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let when = match sockets {
            Sockets::None => Vec::new(),
            Sockets::Unconnected => vec![is_foreign.clone(), datagram.clone(), raw.clone()],
            Sockets::Unix => vec![is_foreign.clone()],
        };
        refused.insert(call, when);
    }
    if sockets != Sockets::Unix {
        refused.extend([libc::SYS_accept, libc::SYS_accept4].map(|it| (it, Vec::new())));
    }
    Ok(refused)
}

/// All of these conditions hold for 32 bits of arguments.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// That argument is a pointer to something.
fn rule_of_pointer(argument: u8) -> Result<SeccompRule, BackendError> {
    let is_some = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    SeccompRule::new(vec![is_some])
}
