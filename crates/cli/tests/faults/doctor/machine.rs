//! Machines on which CodeLab cannot do its work.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Said, Setup, judge, line};

/// Uses up what the kernel allows of Landlock: no further wall can be put up, and none of
/// bubblewrap's mounts is allowed.
const NO_WALLS: &str = "my $prctl = `uname -m` =~ /x86_64/ ? 157 : 167; syscall($prctl, 38, 1, 0, 0, 0); \
     for (1..16) { my $wall = pack('Q', 1 << 12); my $fd = syscall(444, $wall, 8, 0); exit 77 if $fd < 0; \
     syscall(446, $fd, 0) == 0 or exit 77 } exec @ARGV or exit 77";
const CANNOT: i32 = 77;

pub async fn no_sandbox(setup: &Setup) {
    let walled = setup.through(&["perl", "-e", NO_WALLS]);
    if walled.run(&["--json"]).await.status.code() == Some(CANNOT) {
        println!("skipped: walls cannot be used up here");
        return;
    }
    let wanted = Said {
        check: "sandbox",
        status: "warning",
        found: &["no sandbox", "every command"],
        advice: "",
    };
    judge("no sandbox", &walled.asked().await, &wanted);
}

/// Only root can be somebody else.
pub async fn another_users_folder(setup: &Setup) {
    let nobody = Setup {
        as_nobody: true,
        ..setup.clone()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_codelab"));
    let is_reachable = program
        .ancestors()
        .all(|path| std::fs::metadata(path).is_ok_and(|found| found.mode() & 1 != 0));
    if std::fs::metadata(&setup.data_dir).unwrap().uid() != 0 || !is_reachable {
        println!("skipped: the program cannot be run as another user here");
        return;
    }
    let (said, is_usable) = nobody.asked().await;
    let folder = line(&said, "data folder");
    assert!(!is_usable && folder["status"] == "problem", "{said:#}");
    assert!(
        folder["found"]
            .as_str()
            .unwrap()
            .contains("permission denied"),
        "{folder:#}"
    );
}
