//! What a command may use: memory, processes, disk and processor, in every sandbox and without one.

use std::time::{Duration, Instant};

use codelab_workspace::{Bounds, Sandbox};
use serde_json::json;

use crate::lab::{Lab, error};
use crate::walls::walls;

const MIB: u64 = 1024 * 1024;
/// Nothing here may take long, whatever else the machine does.
const SOON: Duration = Duration::from_secs(45);

#[tokio::test]
async fn a_command_that_takes_too_much_is_ended_and_told_why() {
    let mut sandboxes = walls("bounds").await;
    sandboxes.push(Sandbox::None);
    let memory_file = format!(
        "perl -e '$n = \"x\"; for (1..40) {{ $f = syscall({}, $n, 0); open($h[$_], \">&=$f\"); \
         syswrite($h[$_], \"a\" x 10_000_000) }} sleep 60'",
        libc::SYS_memfd_create
    );
    let unreadable = format!(
        "perl -e 'syscall({}, 4, 0, 0, 0, 0); $x = \"a\" x 300_000_000; sleep 60'",
        libc::SYS_prctl
    );
    for sandbox in sandboxes {
        let lab = Lab::with(|options| {
            options.sandbox = sandbox.clone();
            options.bounds = Bounds {
                memory_bytes: 256 * MIB,
                processes: 60,
                file_bytes: 16 * MIB,
                written_bytes: 48 * MIB,
                cpu_seconds: 2,
            };
        });
        lab.write("src/a", "");
        // Nobody waits for a child whose parent ignores its end.
        let ignored = [(
            "perl -e '$SIG{CHLD} = \"IGNORE\"; for (;;) { fork or do { 1 for 1..5_000_000; exit }; wait }'",
            "2 s of processor time (sandbox.cpu_seconds)",
        )];
        let ignored = ignored.into_iter().filter(|_| sandbox == Sandbox::Landlock);
        // What namespaces do not contain, or what the kernel does not count as memory of a process.
        let scattered = [
            (&*memory_file, "of memory (sandbox.memory_bytes)"),
            (&*unreadable, "of memory (sandbox.memory_bytes)"),
            (
                "while :; do (perl -e '1 for 1..3_000_000' &); sleep 0.1; done",
                "2 s of processor time (sandbox.cpu_seconds)",
            ),
        ];
        let scattered = scattered
            .into_iter()
            .filter(|_| !matches!(sandbox, Sandbox::Bwrap { .. }));
        for (command, expected) in [
            ("tail /dev/zero", "256 MiB of memory (sandbox.memory_bytes)"),
            (
                "for i in 1 2 3 4; do perl -e '$x = \"a\" x 90_000_000; sleep 60' & done; wait",
                "of memory (sandbox.memory_bytes)",
            ),
            (
                "bomb() { bomb | bomb & }; bomb; sleep 60",
                "60 processes (sandbox.processes)",
            ),
            (
                "head -c 20000000 /dev/zero > src/large",
                "16 MiB (sandbox.file_bytes)",
            ),
            (
                "for i in $(seq 100); do head -c 10000000 /dev/zero > src/$i; done; sleep 60",
                "in all (sandbox.written_bytes)",
            ),
            (
                "while :; do :; done",
                "2 s of processor time (sandbox.cpu_seconds)",
            ),
            (
                "while :; do perl -e '1 for 1..3_000_000'; done",
                "2 s of processor time (sandbox.cpu_seconds)",
            ),
        ]
        .into_iter()
        .chain(scattered)
        .chain(ignored)
        {
            let started = Instant::now();
            let result = lab
                .call(
                    "execute_command",
                    json!({"command": command, "timeout_seconds": 50}),
                )
                .await;
            assert!(
                error(&result).contains(expected),
                "{sandbox:?} {command}: {result}"
            );
            assert!(
                started.elapsed() < SOON,
                "{sandbox:?} {command}: {:?}",
                started.elapsed()
            );
        }
        // Shared memory is not counted once per process.
        let shared = "perl -e '$x = \"a\" x 100_000_000; for (1..6) { fork or do { sleep 2; exit } } 1 while wait > 0; print 1'";
        let result = lab.command(shared).await;
        assert_eq!(result["stdout"], "1", "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn room_on_a_disk_is_not_taken_without_writing() {
    for sandbox in walls("fallocate").await {
        let lab = Lab::behind(&sandbox);
        lab.write("src/a", "");
        let result = lab.command("fallocate -l 100M src/hole").await;
        assert_ne!(result["exit_code"], 0, "{sandbox:?}: {result}");
    }
}
