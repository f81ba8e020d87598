//! What Landlock cannot say: no sockets, and none of the calls that would lead around the wall.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::options::Network;

/// Never needed by a build or a test, each a way out or a large part of the kernel.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
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
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Restricts the calling thread and what it starts from now on. Needs `no_new_privs`, which Landlock has set.
pub(super) fn restrict(network: Network) -> io::Result<()> {
    for program in [namespaces(), walls(network)] {
        seccompiler::apply_filter(&program.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The newer way to start a process hides its flags from a filter, so it is said not to exist; programs then use the
/// older one.
fn namespaces() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = numbers(libc::SYS_clone3).into_iter().map(|number| (number, Vec::new())).collect();
    program(rules, libc::ENOSYS)
}

fn walls(network: Network) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut forbid = |call: libc::c_long, conditions: Vec<SeccompRule>| {
        for number in numbers(call) {
            rules.insert(number, conditions.clone());
        }
    };
    for call in FORBIDDEN {
        forbid(*call, Vec::new());
    }
    // Sockets of this machine lead to its services. Pairs of connected ones stay: a command may talk to itself.
    forbid(
        libc::SYS_socket,
        match network {
            Network::Off => Vec::new(),
            Network::On => vec![SeccompRule::new(vec![SeccompCondition::new(
                0,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::Eq,
                libc::AF_UNIX as u64,
            )?])?],
        },
    );
    let new_user = libc::CLONE_NEWUSER as u64;
    let with_new_user = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(new_user), new_user)?;
    forbid(libc::SYS_clone, vec![SeccompRule::new(vec![with_new_user])?]);
    program(rules, libc::EACCES)
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let denied = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?.try_into()
}

/// On x86-64 every call has a second number, that of the x32 convention.
fn numbers(call: libc::c_long) -> Vec<i64> {
    const X32: i64 = 0x4000_0000;
    if cfg!(target_arch = "x86_64") { vec![call, call | X32] } else { vec![call] }
}
