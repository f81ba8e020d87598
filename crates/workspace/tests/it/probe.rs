//! Attempts to leave the sandbox, made from inside, and a table of their results. `out` means that
//! a command did, saw or changed something outside the sandbox.
//!
//! To read the table: `cargo test -p codelab-workspace --test it probe -- --nocapture`

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use codelab_workspace::Sandbox;

use crate::lab::{CANARY, Lab, USER_FOLDER, launcher};
use crate::walls::{landlock_holds_signals, walls};

mod scripts;

use scripts::{kernel_files, planting, system_calls};

/// How an attempt shows that it succeeded.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    /// The command succeeded.
    Success,
    /// A secret is in the output.
    Secret,
    /// Something outside, or something protected inside, has changed.
    Change,
}

struct Way {
    group: &'static str,
    name: &'static str,
    sign: Sign,
    command: String,
}

impl Way {
    /// Whether this machine has the target of the attempt.
    fn is_testable(&self) -> bool {
        let needed: &[&str] = match self.name {
            "Docker" => &["/run/docker.sock"],
            "D-Bus" => &["/run/dbus/system_bus_socket"],
            "the kernel's log" => &["/dev/kmsg"],
            "the disk itself" => &["/dev/vda", "/dev/sda", "/dev/nvme0n1"],
            "physical memory" => &["/dev/mem"],
            "the kernel's memory" => &["/proc/kcore"],
            "what root alone may read" => &["/etc/shadow"],
            _ => return true,
        };
        needed.iter().any(|path| Path::new(path).exists())
    }
}

/// The machine around the workspace: secrets to read, sockets to reach and processes to disturb.
struct Machine {
    lab: Lab,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    _sockets: Vec<UnixListener>,
    shared: tempfile::TempDir,
    abstract_name: String,
    /// The key of memory that another program shares.
    shared_key: u32,
}

impl Machine {
    fn new(sandbox: &Sandbox) -> Self {
        let lab = Lab::behind(sandbox);
        for (path, content) in [
            (".ssh/id_ed25519", CANARY),
            (".bashrc", CANARY),
            (".bash_history", CANARY),
            (".config/gh/hosts.yml", CANARY),
            (".cargo/credentials.toml", CANARY),
            ("src/other/.env", CANARY),
        ] {
            let path = lab.home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::write(lab.data.join("master.key"), CANARY).unwrap();
        lab.write("src/a.txt", "one\n");
        lab.write(".vscode/tasks.json", "{}");
        lab.write(".github/workflows/ci.yml", "on: push\n");
        lab.write("codelab.toml", "");
        lab.write("hooks/pre-push", "#!/bin/sh\n");
        lab.git(&["init", "-q", "-b", "main", "."]);
        lab.git(&["config", "core.hooksPath", "hooks"]);
        let shared = tempfile::tempdir().unwrap();
        fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(shared.path().join("secret"), CANARY).unwrap();
        let abstract_name = format!("codelab-probe-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(abstract_name.as_bytes()).unwrap();
        let sockets = vec![
            UnixListener::bind(lab.home.join("agent.sock")).unwrap(),
            UnixListener::bind(shared.path().join("service.sock")).unwrap(),
            UnixListener::bind_addr(&address)
                .unwrap_or_else(|_| UnixListener::bind(lab.home.join("spare")).unwrap()),
        ];
        let (tcp, udp) = (
            TcpListener::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        udp.set_nonblocking(true).unwrap();
        let victim = Command::new("sleep")
            .arg("600")
            .env("CANARY", CANARY)
            .spawn()
            .unwrap();
        static OTHERS: AtomicU32 = AtomicU32::new(0);
        let shared_key = std::process::id() * 16 + OTHERS.fetch_add(1, Ordering::SeqCst) % 16;
        let share = format!(
            "$i = shmget({shared_key}, 64, 0666 | 01000) // die; shmwrite($i, \"{CANARY}\", 0, {}) or die",
            CANARY.len()
        );
        assert!(
            Command::new("perl")
                .args(["-e", &share])
                .status()
                .unwrap()
                .success()
        );
        Self {
            lab,
            victim,
            tcp,
            udp,
            _sockets: sockets,
            shared,
            abstract_name,
            shared_key,
        }
    }

    fn ways(&self) -> Vec<Way> {
        let mut ways = Vec::new();
        let mut add = |group, sign, list: Vec<(&'static str, String)>| {
            ways.extend(list.into_iter().map(|(name, command)| Way {
                group,
                name,
                sign,
                command,
            }));
        };
        add("files", Sign::Secret, self.reading());
        add("files", Sign::Change, self.writing());
        add("process", Sign::Secret, self.looking_into_processes());
        add("process", Sign::Success, self.disturbing_processes());
        add("kernel", Sign::Success, system_calls(self.victim.id()));
        add("kernel", Sign::Success, kernel_files());
        add("sockets", Sign::Success, self.sockets());
        add("hooks", Sign::Change, planting());
        ways
    }

    fn reading(&self) -> Vec<(&'static str, String)> {
        let (home, data, outside) = (
            self.lab.home.display(),
            self.lab.data.display(),
            self.lab.outside.display(),
        );
        let shared = self.shared.path().display();
        vec![
            (
                "a file beside the workspace",
                format!("cat {outside}/secret.txt"),
            ),
            (
                "a file beside it, by dots",
                "cat ../outside/secret.txt".to_owned(),
            ),
            (
                "a file beside it, by a link",
                format!("ln -s {outside} src/l; cat src/l/secret.txt"),
            ),
            ("a key of the person", format!("cat {home}/.ssh/id_ed25519")),
            ("a shell's settings", format!("cat {home}/.bashrc")),
            ("a shell's history", format!("cat {home}/.bash_history")),
            (
                "a token of another tool",
                format!("cat {home}/.config/gh/hosts.yml"),
            ),
            (
                "credentials beside a toolchain",
                format!("cat {home}/.cargo/credentials.toml"),
            ),
            (
                "another project's secrets",
                format!("cat {home}/src/other/.env"),
            ),
            ("everything at home", format!("grep -rs {CANARY} {home}")),
            ("CodeLab's own data", format!("cat {data}/master.key")),
            (
                "a file in the shared temporary folder",
                format!("cat {shared}/secret"),
            ),
            (
                "the root of the first process",
                format!("cat /proc/1/root{outside}/secret.txt"),
            ),
            (
                "the root of its own process",
                format!("cat /proc/self/root{outside}/secret.txt"),
            ),
            (
                "a hard link",
                format!("ln {outside}/secret.txt src/hard && cat src/hard"),
            ),
            (
                "a file by its handle",
                format!(
                    "perl -e 'syscall({}, -100, 0, 0)'; cat {outside}/secret.txt",
                    libc::SYS_open_by_handle_at
                ),
            ),
            (
                "what root alone may read",
                "test -e /etc/shadow && wc -c < /etc/shadow | grep -v '^0$' && echo CANARY_OF_ROOT"
                    .replace("CANARY_OF_ROOT", CANARY),
            ),
        ]
    }

    fn writing(&self) -> Vec<(&'static str, String)> {
        let (home, outside) = (self.lab.home.display(), self.lab.outside.display());
        vec![
            (
                "a file beside the workspace",
                format!("echo x > {outside}/planted"),
            ),
            (
                "a file beside it, by dots",
                "echo x > ../outside/planted".to_owned(),
            ),
            (
                "a file beside it, by a link",
                format!("ln -sf {outside} src/w; echo x > src/w/planted"),
            ),
            ("emptying a file", format!(": > {outside}/secret.txt")),
            ("a shell's settings", format!("echo x >> {home}/.bashrc")),
            (
                "a program for every login",
                format!(
                    "mkdir -p {home}/.config/autostart; echo x > {home}/.config/autostart/x.desktop"
                ),
            ),
            (
                "keys that may log in",
                format!("echo x > {home}/.ssh/authorized_keys"),
            ),
            (
                "by the root of its own process",
                format!("echo x > /proc/self/root{outside}/planted"),
            ),
            (
                "a mount over a folder",
                format!(
                    "mount -t tmpfs none {outside} && echo x > {outside}/planted && umount {outside}"
                ),
            ),
            (
                "taking a mount away",
                format!("umount -l {home}; umount -l .git; echo x > {home}/.bashrc"),
            ),
        ]
    }

    fn looking_into_processes(&self) -> Vec<(&'static str, String)> {
        let (victim, client) = (self.victim.id(), std::process::id());
        let outside = self.lab.outside.display();
        vec![
            (
                "the environment of another process",
                format!("tr '\\0' '\\n' < /proc/{victim}/environ"),
            ),
            (
                "every environment there is",
                "cat /proc/[0-9]*/environ | tr '\\0' '\\n'".to_owned(),
            ),
            ("ps with environments", "ps eww -A".to_owned()),
            (
                "the files of the client",
                format!(
                    "cat /proc/{client}/cwd/../*/secret.txt /proc/{client}/root{outside}/secret.txt"
                ),
            ),
            (
                "memory that another program shares",
                format!(
                    "perl -e '$i = shmget({}, 64, 0); shmread($i, $t, 0, 64); print $t'",
                    self.shared_key
                ),
            ),
            (
                "open files of the client",
                format!("cat /proc/{client}/fd/*< /dev/null"),
            ),
        ]
    }

    fn disturbing_processes(&self) -> Vec<(&'static str, String)> {
        let (victim, client) = (self.victim.id(), std::process::id());
        vec![
            (
                "a signal to another process",
                format!("kill -CONT {victim}"),
            ),
            ("a signal to the client", format!("kill -0 {client}")),
            (
                "another process's priority",
                format!("perl -e 'exit(setpriority(0, {victim}, 19) ? 0 : 1)'"),
            ),
            (
                "a limit on another process",
                format!(
                    "perl -e '$l = pack(\"QQ\", 500, 500); exit(syscall({}, {victim}, 7, $l, 0) == 0 ? 0 : 1)'",
                    libc::SYS_prlimit64
                ),
            ),
            (
                "how another process is scheduled",
                format!(
                    "perl -e '$p = pack(\"i\", 0); exit(syscall({}, {victim}, 0, $p) == 0 ? 0 : 1)'",
                    libc::SYS_sched_setscheduler
                ),
            ),
            (
                "hiding what it uses",
                format!(
                    "perl -e 'exit(syscall({}, 4, 0, 0, 0, 0) == 0 ? 0 : 1)'",
                    libc::SYS_prctl
                ),
            ),
            (
                "the memory of another process",
                format!("exec 3<>/proc/{victim}/mem"),
            ),
            ("typing into a terminal", "exec 3<>/dev/tty".to_owned()),
            (
                "writing to other terminals",
                "for t in /dev/pts/[0-9]*; do echo x > $t && exit 0; done; exit 1".to_owned(),
            ),
            (
                "a superuser's program",
                "test \"$(su -c 'id -u' < /dev/null)\" = 0 && test \"$(id -u)\" != 0".to_owned(),
            ),
        ]
    }

    fn sockets(&self) -> Vec<(&'static str, String)> {
        let unix = |address: String| {
            format!(
                "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 1; connect(S, {address}) or exit 1'"
            )
        };
        let named = |path: PathBuf| unix(format!("sockaddr_un(\"{}\")", path.display()));
        let open = |family: libc::c_int, kind: libc::c_int| {
            format!(
                "perl -e 'exit(syscall({}, {family}, {kind}, 0) >= 0 ? 0 : 1)'",
                libc::SYS_socket
            )
        };
        let (tcp, udp) = (
            self.tcp.local_addr().unwrap().port(),
            self.udp.local_addr().unwrap().port(),
        );
        vec![
            ("a socket at home", named(self.lab.home.join("agent.sock"))),
            (
                "a socket in the shared temporary folder",
                named(self.shared.path().join("service.sock")),
            ),
            (
                "an abstract socket",
                unix(format!(
                    "pack(\"S a*\", AF_UNIX, \"\\0{}\")",
                    self.abstract_name
                )),
            ),
            ("Docker", named("/run/docker.sock".into())),
            ("D-Bus", named("/run/dbus/system_bus_socket".into())),
            (
                "a server on this machine",
                format!("exec 3<>/dev/tcp/127.0.0.1/{tcp}"),
            ),
            ("a raw socket", open(libc::AF_INET, libc::SOCK_RAW)),
            ("a netlink socket", open(libc::AF_NETLINK, libc::SOCK_DGRAM)),
            ("a packet socket", open(libc::AF_PACKET, libc::SOCK_DGRAM)),
            (
                "a socket to the hypervisor",
                open(libc::AF_VSOCK, libc::SOCK_STREAM),
            ),
            (
                "a kernel crypto socket",
                open(libc::AF_ALG, libc::SOCK_SEQPACKET),
            ),
            // Sending always succeeds. Whether it arrived is checked afterwards.
            (
                "a datagram to this machine",
                format!("echo x > /dev/udp/127.0.0.1/{udp}; exit 1"),
            ),
        ]
    }

    /// Everything that no command may change.
    fn state(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut state = BTreeMap::new();
        for folder in [&self.lab.home, &self.lab.outside] {
            collect(folder, &mut state);
        }
        for protected in [
            ".git/config",
            ".git/hooks",
            ".git/info",
            ".vscode",
            ".github",
            ".husky",
            "hooks",
            "codelab.toml",
            ".envrc",
            ".mcp.json",
            "src/.git",
            ".gitmodules",
            ".cargo",
            ".git/HEAD",
        ] {
            collect(&self.lab.root.join(protected), &mut state);
        }
        state
    }

    async fn try_all(&mut self, sandbox: &Sandbox) -> Vec<(Way, bool)> {
        let mut rows = Vec::new();
        for way in self.ways() {
            let before = self.state();
            let result = self.lab.command(&way.command).await;
            let said = format!("{}{}", result["stdout"], result["stderr"]);
            let is_out = match way.sign {
                Sign::Success => result["exit_code"] == 0,
                Sign::Secret => said.contains(CANARY),
                Sign::Change => self.state() != before,
            };
            let mut packet = [0; 8];
            let is_out = is_out || self.udp.recv(&mut packet).is_ok();
            let became = match is_out {
                true => "out",
                false if !way.is_testable() => "not testable here",
                false => "held",
            };
            eprintln!(
                "{:<14} {:<8} {:<40} {became}",
                sandbox.as_str(),
                way.group,
                way.name
            );
            rows.push((way, is_out));
        }
        assert!(
            self.victim.try_wait().unwrap().is_none(),
            "{sandbox:?}: a process outside was ended"
        );
        rows
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let remove = format!("shmctl(shmget({}, 64, 0), 0, 0)", self.shared_key);
        let _ = Command::new("perl").args(["-e", &remove]).status();
    }
}

fn collect(path: &Path, state: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return;
    };
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), state);
        }
    } else if metadata.is_file() {
        state.insert(path.to_owned(), fs::read(path).unwrap());
    } else {
        state.insert(path.to_owned(), Vec::new());
    }
}

/// What this kernel's Landlock cannot prevent if it is the only sandbox. `SECURITY.md` lists the
/// same.
fn is_known_gap(sandbox: &Sandbox, way: &Way) -> bool {
    let is_signal = ["a signal to another process", "a signal to the client"].contains(&way.name);
    *sandbox == Sandbox::Landlock && is_signal && !landlock_holds_signals()
}

#[tokio::test]
async fn no_way_leads_out() {
    for sandbox in walls("probe").await {
        let rows = Machine::new(&sandbox).try_all(&sandbox).await;
        let tried = rows.iter().filter(|(way, _)| way.is_testable()).count();
        assert!(tried >= 60, "only {tried} ways were tried");
        let out: Vec<&str> = rows
            .iter()
            .filter(|(way, is_out)| *is_out && !is_known_gap(&sandbox, way))
            .map(|(way, _)| way.name)
            .collect();
        assert!(out.is_empty(), "{sandbox:?}: these led out: {out:?}");
    }
}

/// The attempts are real: without a sandbox many of them succeed.
#[tokio::test]
async fn without_a_wall_many_ways_lead_out() {
    let rows = Machine::new(&Sandbox::None).try_all(&Sandbox::None).await;
    let out = rows.iter().filter(|(_, is_out)| *is_out).count();
    let expected = if rustix_is_root() { 50 } else { 30 };
    assert!(
        out >= expected,
        "only {out} of {} ways led out without a wall",
        rows.len()
    );
}

fn rustix_is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The same sandboxes for an ordinary user: this program runs itself again as one.
#[test]
fn the_walls_hold_for_an_ordinary_user_as_well() {
    const NOBODY: u32 = 65534;
    if !rustix_is_root() || std::env::var_os(USER_FOLDER).is_some() {
        return;
    }
    let folder = tempfile::Builder::new()
        .prefix("codelab-user-")
        .tempdir_in("/var/lib")
        .unwrap();
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    let tests = folder.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    fs::copy(launcher().program, own.join("codelab-sandbox-exec")).unwrap();
    for path in [
        folder.path(),
        &own,
        &tests,
        &own.join("codelab-sandbox-exec"),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    // The last ones run alone: the kernel counts the processes of a user, whichever test started
    // them.
    for chosen in [
        &[
            "probe::no_way",
            "probe::without_a_wall",
            "walls::",
            "layers::",
            "guarded::",
            "planted::",
        ][..],
        &["bounds::"],
    ] {
        let done = Command::new(&tests)
            .arg("--nocapture")
            .args(chosen)
            .env(USER_FOLDER, &own)
            .env("HOME", &own)
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir(&own)
            .output()
            .unwrap();
        let (said, told) = (
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr),
        );
        assert!(
            done.status.success() && !said.contains(" 0 passed"),
            "{said}\n{told}"
        );
    }
}
