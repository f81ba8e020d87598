//! Ways out of the sandbox that are one script and need nothing else.

/// Calls that need no file, only a number. A negative result is the wanted one.
pub fn system_calls(victim: u32) -> Vec<(&'static str, String)> {
    let call = |number: libc::c_long, arguments: &str| {
        format!("perl -e '$a = \"\\0\" x 256; exit(syscall({number}{arguments}) >= 0 ? 0 : 1)'")
    };
    vec![
        (
            "ptrace",
            call(libc::SYS_ptrace, &format!(", 16, {victim}, 0, 0")),
        ),
        (
            "process_vm_readv",
            call(
                libc::SYS_process_vm_readv,
                &format!(", {victim}, $a, 0, $a, 0, 0"),
            ),
        ),
        ("pidfd_getfd", call(libc::SYS_pidfd_getfd, ", 0, 0, 0")),
        ("keyctl", call(libc::SYS_keyctl, ", 0, -3, 1")),
        (
            "add_key",
            format!(
                "perl -e '$t = \"user\"; $d = \"probe\"; exit(syscall({}, $t, $d, $d, 5, -3) >= 0 ? 0 : 1)'",
                libc::SYS_add_key
            ),
        ),
        ("request_key", call(libc::SYS_request_key, ", $a, $a, 0, 0")),
        (
            "io_uring_setup",
            format!(
                "perl -e '$a = \"\\0\" x 256; exit(syscall({}, 4, $a) >= 0 ? 0 : 1)'",
                libc::SYS_io_uring_setup
            ),
        ),
        ("bpf", call(libc::SYS_bpf, ", 0, $a, 64")),
        (
            "perf_event_open",
            call(libc::SYS_perf_event_open, ", $a, 0, -1, -1, 0"),
        ),
        ("userfaultfd", call(libc::SYS_userfaultfd, ", 1")),
        ("unshare a user namespace", "unshare -Ur true".to_owned()),
        ("unshare a mount namespace", "unshare -m true".to_owned()),
        (
            "clone a user namespace",
            format!(
                "perl -e '$p = syscall({}, 0x10000011, 0, 0, 0, 0); exit 0 if $p == 0; exit($p > 0 ? 0 : 1)'",
                libc::SYS_clone
            ),
        ),
        ("join a namespace", format!("nsenter -t {victim} -m true")),
        ("chroot", "chroot / true".to_owned()),
        ("mount", "mount -t tmpfs none src && umount src".to_owned()),
        ("mount by the new calls", call(libc::SYS_fsopen, ", $a, 0")),
        (
            "a kernel module",
            call(libc::SYS_init_module, ", $a, 0, $a").replace(">= 0", ">= 0 || $!{ENOEXEC}"),
        ),
        ("a device", "mknod src/disk b 1 0".to_owned()),
        ("the clock", "date -s \"@$(date +%s.%N)\"".to_owned()),
        (
            "the host's name",
            format!(
                "perl -e '$n = `hostname`; chomp $n; exit(syscall({}, $n, length $n) == 0 ? 0 : 1)'",
                libc::SYS_sethostname
            ),
        ),
    ]
}

/// Each write puts back what it read, so that it does no harm without a sandbox.
pub fn kernel_files() -> Vec<(&'static str, String)> {
    let rewrite = |path: &str| format!("v=$(cat {path}) && echo \"$v\" > {path}");
    vec![
        ("a setting of the kernel", rewrite("/proc/sys/vm/swappiness")),
        ("the handler of crashes", rewrite("/proc/sys/kernel/core_pattern")),
        ("the kernel's memory", "head -c 1 /proc/kcore | wc -c | grep -q 1".to_owned()),
        ("the kernel's keys", "test -s /proc/keys && grep -q . /proc/keys".to_owned()),
        ("the kernel's log", "head -c 1 /dev/kmsg".to_owned()),
        ("the system request key", "test -w /proc/sysrq-trigger && echo ? > /proc/sysrq-trigger".to_owned()),
        ("control groups", "d=/sys/fs/cgroup/probe-$$; mkdir $d && rmdir $d".to_owned()),
        ("settings in /sys", "f=$(find /sys/module -name '*' -path '*/parameters/*' -perm -200 2>/dev/null | head -1); test -n \"$f\" && v=$(cat $f) && echo \"$v\" > $f".to_owned()),
        ("the disk itself", "for d in /dev/vda /dev/sda /dev/nvme0n1; do head -c 1 $d > /dev/null 2>&1 && exit 0; done; exit 1".to_owned()),
        (
            "any other device",
            "for d in $(find /dev -type c -o -type b); do case $d in \
             /dev/null|/dev/zero|/dev/full|/dev/random|/dev/urandom|/dev/tty|/dev/ptmx|/dev/pts/*|/dev/console) ;; \
             *) (exec 3< $d) 2> /dev/null && exit 0 ;; esac; done; exit 1"
                .to_owned(),
        ),
        ("filling the devices' folder", "echo x > /dev/fill-$$ && rm /dev/fill-$$".to_owned()),
        ("physical memory", "head -c 1 /dev/mem > /dev/null".to_owned()),
    ]
}

/// Files that another program runs later.
pub fn planting() -> Vec<(&'static str, String)> {
    [
        ("a git hook", "echo evil > .git/hooks/pre-commit"),
        (
            "git's settings",
            "git config core.fsmonitor ./evil; printf '[core]\\n\\tfsmonitor = ./evil\\n' >> .git/config",
        ),
        ("another git folder", "mv .git old; cp -r old .git; echo evil > .git/hooks/pre-commit"),
        ("git's attributes", "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes"),
        ("the folder that core.hooksPath names", "echo evil >> hooks/pre-push; echo evil > hooks/pre-commit"),
        (
            "a repository in a subfolder",
            "git init -q src; mkdir -p src/.git/hooks; echo evil > src/.git/hooks/post-checkout",
        ),
        ("a hook runner's folder", "mkdir -p .husky; echo evil > .husky/pre-commit"),
        ("an editor's tasks", "echo evil > .vscode/tasks.json"),
        ("continuous integration", "echo evil > .github/workflows/ci.yml; echo evil > .github/workflows/new.yml"),
        ("a shell's folder settings", "echo evil > .envrc"),
        ("tool servers", "echo evil > .mcp.json"),
        ("a compiler's settings", "mkdir -p .cargo; echo evil > .cargo/config.toml"),
        ("CodeLab's settings", "echo evil > codelab.toml"),
    ]
    .map(|(name, command)| (name, command.to_owned()))
    .into()
}
