//! Each layer of a sandbox by itself. Most attacks are stopped by two layers, so that attempts to
//! leave the sandbox do not notice when one of them is gone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use codelab_workspace::Sandbox;
use serde_json::Value;

use crate::lab::{CANARY, Lab};
use crate::walls::walls;

async fn bubblewraps(test: &str) -> Vec<Sandbox> {
    let mut found = walls(test).await;
    found.retain(|sandbox| matches!(sandbox, Sandbox::Bwrap { .. }));
    found
}

fn output(result: &Value) -> &str {
    assert_eq!(result["success"], true, "{result}");
    result["stdout"].as_str().unwrap()
}

#[tokio::test]
async fn a_command_has_no_capabilities_and_cannot_gain_any() {
    for sandbox in walls("capabilities").await {
        let lab = Lab::behind(&sandbox);
        let result = lab.command("cat /proc/self/status").await;
        let line = |name: &str| {
            let found = output(&result)
                .lines()
                .find_map(|line| line.strip_prefix(name));
            found.unwrap().trim().to_owned()
        };
        for name in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(line(name), "0000000000000000", "{sandbox:?}: {name}");
        }
        assert_eq!(line("NoNewPrivs:"), "1", "{sandbox:?}");
        assert_eq!(line("Seccomp:"), "2", "{sandbox:?}");
        if matches!(sandbox, Sandbox::Bwrap { .. }) {
            assert_eq!(line("CapBnd:"), "0000000000000000", "{sandbox:?}");
        }
    }
}

#[tokio::test]
async fn bubblewrap_gives_a_command_namespaces_of_its_own() {
    for sandbox in bubblewraps("namespaces").await {
        let lab = Lab::behind(&sandbox);
        for name in ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"] {
            let link = format!("/proc/self/ns/{name}");
            let result = lab.command(&format!("readlink {link}")).await;
            let outside = fs::read_link(&link).unwrap();
            assert_ne!(
                output(&result).trim(),
                outside.to_str().unwrap(),
                "{sandbox:?}"
            );
        }
    }
}

#[tokio::test]
async fn bubblewrap_hides_what_tells_of_the_kernel() {
    for sandbox in bubblewraps("kernel").await {
        let lab = Lab::behind(&sandbox);
        for name in [
            "kallsyms",
            "kcore",
            "keys",
            "key-users",
            "timer_list",
            "interrupts",
        ] {
            let path = format!("/proc/{name}");
            if !Path::new(&path).exists() {
                continue;
            }
            let result = lab.command(&format!("stat -c '%F %t %T' {path}")).await;
            // As /dev/null.
            assert_eq!(
                output(&result).trim(),
                "character special file 1 3",
                "{sandbox:?}: {path}"
            );
        }
    }
}

/// The kernel does not tell whether Landlock restricts a process. It allows sixteen rulesets one
/// above the other, so whoever has one already can add only fifteen.
#[tokio::test]
async fn bubblewrap_and_landlock_hold_together() {
    const ADD_RULESETS: &str = r#"perl -e '
        my $blocks = pack("Q", 1 << 11);
        for my $added (0 .. 20) {
            my $ruleset = syscall(444, $blocks, 8, 0);
            die "no ruleset: $!" if $ruleset < 0;
            if (syscall(446, $ruleset, 0) != 0) { print $added; exit }
        }'"#;
    for sandbox in walls("landlock").await {
        let with_landlock = match &sandbox {
            Sandbox::Bwrap { with_landlock, .. } => *with_landlock,
            sandbox => !sandbox.is_none(),
        };
        let result = Lab::behind(&sandbox).command(ADD_RULESETS).await;
        let expected = if with_landlock { "15" } else { "16" };
        assert_eq!(output(&result), expected, "{sandbox:?}");
    }
}

#[tokio::test]
async fn a_toolchain_is_shown_without_its_credentials() {
    for sandbox in walls("toolchain").await {
        let lab = Lab::new();
        let cargo = lab.home.join(".cargo");
        fs::create_dir_all(cargo.join("bin")).unwrap();
        fs::write(cargo.join("bin/tool"), "#!/bin/sh\necho it runs\n").unwrap();
        fs::set_permissions(cargo.join("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["credentials", "credentials.toml"] {
            fs::write(cargo.join(name), CANARY).unwrap();
        }
        fs::write(cargo.join("config.toml"), format!("token = \"{CANARY}\"")).unwrap();
        let lab = lab.reopened(&sandbox);
        let path = cargo.display();
        let result = lab.command(&format!("{path}/bin/tool")).await;
        assert_eq!(output(&result), "it runs\n", "{sandbox:?}");
        let result = lab.command(&format!("cat {path}/c*; true")).await;
        assert!(!output(&result).contains(CANARY), "{sandbox:?}: {result}");
    }
}
