//! What a command can do in each sandbox that this machine supports.

use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

use codelab_workspace::{Network, Sandbox};
use serde_json::json;

use crate::commands::{marker, running, wait_until};
use crate::lab::{CANARY, Lab, folder, launcher};

/// Every sandbox that works here. One that does not is printed.
pub async fn walls(test: &str) -> Vec<Sandbox> {
    let mut found = Vec::new();
    let bwrap = |is_recent, with_landlock| Sandbox::Bwrap {
        program: "/usr/bin/bwrap".into(),
        is_recent,
        with_landlock,
    };
    for sandbox in [bwrap(true, true), bwrap(true, false), Sandbox::Landlock] {
        match sandbox.probe(&launcher()).await {
            Ok(()) => found.push(sandbox),
            Err(reason) => eprintln!("{test}: not behind {}: {reason}", sandbox.as_str()),
        }
    }
    // Otherwise every test of a sandbox would pass without one.
    let is_expected = std::env::var_os("CODELAB_TEST_WITHOUT_WALLS").is_none();
    assert!(
        !found.is_empty() || !is_expected,
        "{test}: no wall works here; CODELAB_TEST_WITHOUT_WALLS=1 accepts that"
    );
    found
}

/// Needs Linux 6.12 or later.
pub fn landlock_holds_signals() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release
        .split(['.', '-'])
        .take(2)
        .map(|part| part.parse().unwrap())
        .collect();
    numbers >= vec![6, 12]
}

fn repository(lab: &Lab) {
    lab.write("src/main.rs", "fn main() {}\n");
    lab.write(".git/HEAD", "ref: refs/heads/main\n");
    lab.write(".git/config", "[core]\n");
    lab.write(".git/hooks/pre-commit.sample", "sample");
    lab.write(".git/modules/part/HEAD", "ref: refs/heads/main\n");
    lab.write(".git/modules/part/config", "[core]\n");
    lab.write(".git/modules/part/hooks/sample", "");
    lab.write("codelab.toml", "mine");
}

#[tokio::test]
async fn the_strongest_wall_that_works_is_found() {
    let found = Sandbox::detect(&launcher()).await;
    let expected = walls("detect")
        .await
        .first()
        .cloned()
        .unwrap_or(Sandbox::None);
    assert_eq!(found.sandbox.as_str(), expected.as_str(), "{found:?}");
    if found.sandbox.is_none() {
        assert!(!found.refused.is_empty(), "{found:?}");
    }
}

#[tokio::test]
async fn ordinary_work_is_possible() {
    // What bubblewrap before 0.8 supports.
    let old = Sandbox::Bwrap {
        program: "/usr/bin/bwrap".into(),
        is_recent: false,
        with_landlock: false,
    };
    let is_there = old.probe(&launcher()).await.is_ok();
    for sandbox in walls("work")
        .await
        .into_iter()
        .chain(is_there.then_some(old))
    {
        let lab = Lab::behind(&sandbox);
        repository(&lab);
        fs::write(
            lab.root.join(std::ffi::OsStr::from_bytes(b"not \xff text")),
            "",
        )
        .unwrap();
        for (command, expected) in [
            ("cat /proc/self/oom_score_adj", "500\n"),
            ("cat src/main.rs", "fn main() {}\n"),
            (
                "echo new > src/new.txt && mkdir src/deep && mv src/new.txt src/deep/ && cat src/deep/new.txt",
                "new\n",
            ),
            ("printf 'a\\nb\\n' | sort -r | tr -d '\\n'", "ba"),
            ("cat .git/HEAD codelab.toml", "ref: refs/heads/main\nmine"),
            (
                "cat /etc/hostname > /dev/null && test -x /usr/bin/env && echo yes",
                "yes\n",
            ),
            (
                "f=$(mktemp) && echo temporary > $f && cat $f",
                "temporary\n",
            ),
            ("echo x > /dev/null; head -c 3 /dev/zero | wc -c", "3\n"),
            ("cd src && pwd | sed 's:.*/::'", "src\n"),
            (
                "timeout 20 sh -c 'echo inner'; setsid sh -c 'echo session'",
                "inner\nsession\n",
            ),
        ] {
            let result = lab.command(command).await;
            assert_eq!(
                (&result["stdout"], &result["success"]),
                (&json!(expected), &json!(true)),
                "{sandbox:?} {command}: {result}"
            );
        }
        assert_eq!(lab.read("src/deep/new.txt"), "new\n");
    }
}

#[tokio::test]
async fn nothing_outside_is_changed_or_read() {
    for sandbox in walls("outside").await {
        nothing_leads_out(&sandbox, Lab::behind(&sandbox)).await;
    }
}

#[tokio::test]
async fn nothing_leads_out_of_a_workspace_among_temporary_files() {
    for sandbox in walls("outside, temporary").await {
        let folder = tempfile::tempdir().unwrap();
        let lab = Lab::within(folder, |options| options.sandbox = sandbox.clone());
        nothing_leads_out(&sandbox, lab).await;
    }
}

async fn nothing_leads_out(sandbox: &Sandbox, lab: Lab) {
    // There the folder above the workspace is the command's own, and empty.
    let has_own_parent = matches!(sandbox, Sandbox::Bwrap { .. }) && lab.root.starts_with("/tmp");
    repository(&lab);
    fs::create_dir_all(lab.home.join(".ssh")).unwrap();
    fs::create_dir_all(lab.home.join(".config/gh")).unwrap();
    for secret in [".ssh/id_ed25519", ".netrc", ".config/gh/hosts.yml"] {
        fs::write(lab.home.join(secret), CANARY).unwrap();
    }
    fs::write(lab.home.join("notes.txt"), CANARY).unwrap();
    fs::write(lab.data.join("codelab.env"), CANARY).unwrap();
    lab.link("src/out", &lab.outside);
    let (outside, home, data) = (
        lab.outside.display(),
        lab.home.display(),
        lab.data.display(),
    );
    let client = std::process::id();
    for command in [
        format!("echo x > {outside}/planted"),
        format!("echo x > {outside}/secret.txt"),
        format!(": > {outside}/secret.txt"),
        format!("truncate -s 0 {outside}/secret.txt"),
        format!("rm {outside}/secret.txt"),
        format!("mv {outside}/secret.txt src/"),
        format!("ln {outside}/secret.txt src/hard && echo x > src/hard"),
        format!("mkdir {outside}/planted"),
        "echo x > src/out/planted".to_owned(),
        "echo x > ../outside/planted".to_owned(),
        "echo x > ../planted".to_owned(),
        format!("cd {outside} && echo x > planted"),
        format!("cat {home}/.ssh/id_ed25519"),
        format!("cat {home}/.netrc {home}/.config/gh/hosts.yml"),
        format!("cat {home}/notes.txt"),
        format!("cat {outside}/secret.txt"),
        format!("cat {data}/codelab.env"),
        format!("cp -r {home}/.ssh src/copy && cat src/copy/*"),
        format!("ln -s {data} src/data && cat src/data/codelab.env"),
        format!("cat /proc/self/root{data}/codelab.env /proc/{client}/root{data}/codelab.env"),
        format!("grep -z . /proc/{client}/environ"),
        "exec 3<>/dev/tty".to_owned(),
        "mount -t tmpfs none src".to_owned(),
    ] {
        let result = lab.command(&command).await;
        if !(has_own_parent && command.contains("../planted")) {
            assert_ne!(result["exit_code"], 0, "{sandbox:?} {command}: {result}");
        }
        assert!(
            !result.to_string().contains(CANARY),
            "{sandbox:?} {command}: {result}"
        );
        lab.assert_outside_untouched(&command);
    }
    if matches!(sandbox, Sandbox::Bwrap { .. }) || landlock_holds_signals() {
        assert_ne!(
            lab.command(&format!("kill -0 {client}")).await["exit_code"],
            0,
            "{sandbox:?}"
        );
    }
    assert_ne!(
        lab.command("unshare -Ur true").await["exit_code"],
        0,
        "{sandbox:?}"
    );
    let planted = format!("/tmp/codelab-planted-{client}");
    lab.command(&format!("echo x > {planted}")).await;
    assert!(
        !fs::exists(&planted).unwrap(),
        "{sandbox:?}: the shared folder for temporary files was written"
    );
    let result = lab
        .command("grep -c 'NoNewPrivs:.*1' /proc/self/status")
        .await;
    assert_eq!(result["stdout"], "1\n", "{sandbox:?}: {result}");
}

#[tokio::test]
async fn hooks_configuration_and_codelab_s_own_files_cannot_be_changed() {
    for sandbox in walls("protected").await {
        let lab = Lab::behind(&sandbox);
        repository(&lab);
        fs::create_dir(lab.root.join("evil")).unwrap();
        for command in [
            "echo evil > .git/hooks/pre-commit",
            "echo evil >> .git/hooks/pre-commit.sample",
            "echo evil >> .git/config",
            "rm .git/config",
            "rm -rf .git/hooks",
            "mv .git/hooks .git/old",
            "mv .git old && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
            "echo evil > src/c && mv src/c .git/config",
            "echo evil > src/c && ln -f src/c .git/hooks/pre-commit",
            "ln -s ../../evil .git/hooks/pre-commit",
            "ln .git/config src/alias && echo evil >> src/alias",
            "cd .git && echo evil >> config",
            "echo evil >> .git/modules/part/config",
            "echo evil > .git/modules/part/hooks/post-checkout",
            "mv .git/modules/part .git/modules/other && mkdir .git/modules/part",
            "echo evil > codelab.toml",
            "mv codelab.toml src/",
        ] {
            let result = lab.command(command).await;
            assert_eq!(result["success"], false, "{sandbox:?} {command}: {result}");
            assert!(
                result["error"]
                    .as_str()
                    .is_some_and(|error| error.contains("sandbox") || error.contains("put back")),
                "{sandbox:?} {command}: {result}"
            );
            let kept = [".git/config", ".git/modules/part/config", "codelab.toml"]
                .map(|path| lab.read(path));
            assert_eq!(
                kept,
                ["[core]\n", "[core]\n", "mine"],
                "{sandbox:?} {command}"
            );
            let hooks: Vec<_> = fs::read_dir(lab.root.join(".git/hooks"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(hooks, ["pre-commit.sample"], "{sandbox:?} {command}");
            assert_eq!(
                lab.read(".git/hooks/pre-commit.sample"),
                "sample",
                "{sandbox:?} {command}"
            );
            assert!(
                !lab.root
                    .join(".git/modules/part/hooks/post-checkout")
                    .exists(),
                "{sandbox:?} {command}"
            );
        }
        for name in [
            "commondir",
            "config.worktree",
            "HEAD",
            "index",
            "refs/heads/evil",
        ] {
            let result = lab
                .command(&format!(
                    "mkdir -p .git/refs/heads; echo ../evil > .git/{name}"
                ))
                .await;
            assert_eq!(result["success"], false, "{sandbox:?} {name}: {result}");
        }
        assert_eq!(
            lab.read(".git/HEAD"),
            "ref: refs/heads/main\n",
            "{sandbox:?}"
        );
    }
}

#[tokio::test]
async fn a_git_file_goes_on_naming_the_same_place() {
    for sandbox in walls("git file").await {
        // The `.git` of a worktree or submodule is a file, which must continue to name the same
        // folder.
        let lab = Lab::behind(&sandbox);
        lab.write(".git", "gitdir: ../elsewhere\n");
        for command in ["echo 'gitdir: evil' > .git", "mv .git old", "rm .git"] {
            assert_eq!(
                lab.command(command).await["success"],
                false,
                "{sandbox:?} {command}"
            );
            assert_eq!(
                lab.read(".git"),
                "gitdir: ../elsewhere\n",
                "{sandbox:?} {command}"
            );
        }

        let lab = Lab::behind(&sandbox);
        lab.link(".git", "src");
        let result = lab.command("true").await;
        assert!(
            result["error"]
                .as_str()
                .unwrap()
                .contains(".git is a symbolic link"),
            "{sandbox:?}: {result}"
        );
    }
}

#[tokio::test]
async fn a_plain_folder_is_writable_at_its_top() {
    for sandbox in walls("plain").await {
        let lab = Lab::behind(&sandbox);
        let result = lab
            .command("echo x > a.txt && mkdir target && mv a.txt target/b.txt && cat target/b.txt")
            .await;
        assert_eq!(result["stdout"], "x\n", "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn what_is_readable_by_name_is_seen_wherever_it_lies_but_not_a_home_in_it() {
    let homes = || [folder(), tempfile::tempdir().unwrap()];
    for (sandbox, home) in walls("readable")
        .await
        .into_iter()
        .flat_map(|sandbox| homes().map(|home| (sandbox.clone(), home)))
    {
        let shared = tempfile::tempdir().unwrap();
        fs::write(shared.path().join("tool"), "tool\n").unwrap();
        let lab = Lab::within(home, |_| {});
        fs::write(lab.home.join("notes.txt"), CANARY).unwrap();
        let (base, root) = (lab.home.parent().unwrap().to_owned(), lab.root.clone());
        let mut options = codelab_workspace::WorkspaceOptions::new(launcher());
        options.home = Some(lab.home.clone());
        options.data_dir = Some(lab.data.clone());
        options.sandbox = sandbox.clone();
        options.readable = vec![base.clone(), shared.path().to_owned(), base.join("missing")];
        let lab = lab.moved_to(root, options);
        let result = lab
            .command(&format!("cat {}/tool", shared.path().display()))
            .await;
        assert_eq!(result["stdout"], "tool\n", "{sandbox:?}: {result}");
        let result = lab
            .command(&format!("cat {}/notes.txt", lab.home.display()))
            .await;
        assert!(
            !result.to_string().contains(CANARY),
            "{sandbox:?}: {result}"
        );
    }
}

#[tokio::test]
async fn the_network_is_off() {
    for sandbox in walls("network").await {
        let lab = Lab::behind(&sandbox);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let result = lab
            .command(&format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"))
            .await;
        assert_eq!(result["success"], false, "{sandbox:?}: {result}");
        assert!(
            listener.accept().is_err(),
            "{sandbox:?}: the command reached a server"
        );

        let lab = Lab::with(|options| {
            options.sandbox = sandbox.clone();
            options.network = Network::On;
        });
        let result = lab
            .command(&format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"))
            .await;
        assert_eq!(result["success"], true, "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn the_machine_s_services_are_out_of_reach() {
    for sandbox in walls("sockets").await {
        let lab = Lab::behind(&sandbox);
        let path = lab.home.join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let connect = format!(
            "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or die; connect(S, sockaddr_un(\"{}\")) or die'",
            path.display()
        );
        assert_eq!(lab.command(&connect).await["success"], false, "{sandbox:?}");
        assert!(
            listener.accept().is_err(),
            "{sandbox:?}: the command reached a service"
        );
        // The same line works without a sandbox, so it is the sandbox that stops it.
        assert_eq!(Lab::new().command(&connect).await["success"], true);
    }
}

#[tokio::test]
async fn nothing_survives_its_command() {
    for (number, sandbox) in walls("survivors").await.into_iter().enumerate() {
        let lab = Lab::behind(&sandbox);
        let marker = marker(100 + u32::try_from(number).unwrap());
        let command = format!(
            "setsid sleep {marker} & (setsid sleep {marker} &) ; echo $PPID; sleep {marker}"
        );
        let result = lab
            .call(
                "execute_command",
                json!({"command": command, "timeout_seconds": 1}),
            )
            .await;
        assert!(
            result["error"]
                .as_str()
                .unwrap()
                .contains("stopped after 1 s"),
            "{sandbox:?}: {result}"
        );
        wait_until("nothing is left", || running(&marker) == 0).await;
        // In the sandbox the watching process cannot be ended.
        let result = lab
            .command(&format!(
                "setsid sleep {marker} & kill -9 $PPID; sleep 0.2; echo alive"
            ))
            .await;
        eprintln!("{sandbox:?}: {result}");
        wait_until("nothing is left", || running(&marker) == 0).await;
    }
}
