//! What neither a view of the file system nor Landlock can say: which sockets may be made, and that
//! no system call leads around the wall.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Never needed by a build or a test, each a way out or a large part of the kernel.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// New namespaces, each with its own bit among the flags of `clone`.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Memory and messages between processes that have names outside the file system. Only a namespace
/// of their own keeps a command from those of other programs.
const SHARED_BETWEEN_PROCESSES: &[libc::c_long] = &[
    libc::SYS_mq_getsetattr,
    libc::SYS_mq_notify,
    libc::SYS_mq_open,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];

/// Calls about a process that is named by a number, each with the place of the number; 0 is the
/// caller itself. Without a namespace of processes the number may be the supervisor's, which a
/// limit on its processor time would end.
const ABOUT_OTHERS: [(libc::c_long, u8); 7] = [
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
];

/// Typing into a terminal or a console on behalf of its user.
const TERMINAL_INPUT: [libc::Ioctl; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Which sockets a command may make. Connected pairs are always possible: a command may talk to
/// itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    None,
    Internet,
    InternetAndUnix,
}

/// Whether namespaces keep other processes, and what they share, out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    OutOfReach,
    Reachable,
}

/// Restricts the calling thread and what it starts from now on.
pub(super) fn restrict(sockets: Sockets, others: Others) -> io::Result<()> {
    for program in [missing(), unsupported(), walls(sockets, others)] {
        seccompiler::apply_filter(&program.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The newer way to start a process hides its flags from a filter, so it is said not to exist;
/// programs then use the older one.
fn missing() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = numbers(libc::SYS_clone3)
        .into_iter()
        .map(|number| (number, Vec::new()))
        .collect();
    program(rules, libc::ENOSYS)
}

/// Room on a disk that is taken without writing would escape the limit on written bytes; programs
/// then write zeros.
fn unsupported() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = numbers(libc::SYS_fallocate)
        .into_iter()
        .map(|number| (number, Vec::new()))
        .collect();
    program(rules, libc::EOPNOTSUPP)
}

fn walls(sockets: Sockets, others: Others) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut forbid = |call: libc::c_long, conditions: Vec<SeccompRule>| {
        for number in numbers(call) {
            rules.insert(number, conditions.clone());
        }
    };
    for call in FORBIDDEN {
        forbid(*call, Vec::new());
    }
    forbid(libc::SYS_socket, forbidden_sockets(sockets)?);
    let mut with_namespace = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        let is_set = SeccompCondition::new(
            0,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(flag),
            flag,
        )?;
        with_namespace.push(SeccompRule::new(vec![is_set])?);
    }
    forbid(libc::SYS_clone, with_namespace);
    let mut typing = Vec::new();
    for request in TERMINAL_INPUT {
        typing.push(SeccompRule::new(vec![equal(1, request)?])?);
    }
    forbid(libc::SYS_ioctl, typing);
    // What a process uses could not be read any more.
    let hiding = SeccompRule::new(vec![
        equal(0, libc::PR_SET_DUMPABLE as libc::Ioctl)?,
        equal(1, 0)?,
    ])?;
    forbid(libc::SYS_prctl, vec![hiding]);
    if others == Others::Reachable {
        for call in SHARED_BETWEEN_PROCESSES {
            forbid(*call, Vec::new());
        }
        for (call, place) in ABOUT_OTHERS {
            let is_other =
                SeccompCondition::new(place, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
            forbid(call, vec![SeccompRule::new(vec![is_other])?]);
        }
    }
    program(rules, libc::EACCES)
}

/// No rules at all forbid the whole call.
fn forbidden_sockets(sockets: Sockets) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let families: &[libc::c_int] = match sockets {
        Sockets::None => return Ok(Vec::new()),
        Sockets::Internet => &[libc::AF_INET, libc::AF_INET6],
        Sockets::InternetAndUnix => &[libc::AF_INET, libc::AF_INET6, libc::AF_UNIX],
    };
    let mut other_family = Vec::new();
    for family in families {
        let family = u64::from(family.unsigned_abs());
        other_family.push(SeccompCondition::new(
            0,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Ne,
            family,
        )?);
    }
    // Flags share the argument with the type.
    const TYPE_MASK: u64 = 0xf;
    let raw = u64::from(libc::SOCK_RAW.unsigned_abs());
    let is_raw = SeccompCondition::new(
        1,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(TYPE_MASK),
        raw,
    )?;
    Ok(vec![
        SeccompRule::new(other_family)?,
        SeccompRule::new(vec![is_raw])?,
    ])
}

fn equal(argument: u8, value: libc::Ioctl) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        u64::from(value as u32),
    )
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: i32,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let denied = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?.try_into()
}

/// On x86-64 every call has a second number, that of the x32 convention.
fn numbers(call: libc::c_long) -> Vec<i64> {
    const X32: i64 = 0x4000_0000;
    if cfg!(target_arch = "x86_64") {
        vec![call, call | X32]
    } else {
        vec![call]
    }
}
