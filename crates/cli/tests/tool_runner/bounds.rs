//! Huge files, folders and outputs: answered in time, within bounds, and with the cut said.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::pretender::{RunnerProcess, call};

const GIB: u64 = 1 << 30;
const FILES: usize = 100_000;
const FILES_PER_FOLDER: usize = 1000;
/// Of the whole client process, at its peak; it is about 25 MiB without any call.
const MAX_BYTES: u64 = 128 << 20;
const MAX_TIME: Duration = Duration::from_secs(90);

async fn timed(tool_runner: &RunnerProcess, call: &Value) -> Value {
    let started = Instant::now();
    let result = tool_runner.run(call).await;
    let took = started.elapsed();
    let bytes = serde_json::to_string(&result).unwrap().len();
    eprintln!(
        "{}: {took:?}, {bytes} bytes, peak {} MiB",
        call["tool_call"],
        tool_runner.process.peak_bytes() >> 20
    );
    assert!(took < MAX_TIME, "{took:?}");
    assert!(
        tool_runner.process.peak_bytes() < MAX_BYTES,
        "{} bytes",
        tool_runner.process.peak_bytes()
    );
    result
}

#[tokio::test]
async fn what_is_huge_is_cut_and_the_cut_is_said() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;

    // Lines of text, and then a hole to the end.
    let mut file = File::create(lab.workspace.join("huge.txt")).unwrap();
    file.write_all("a line of text\n".repeat(200_000).as_bytes())
        .unwrap();
    file.set_len(GIB).unwrap();
    let result = timed(
        &tool_runner,
        &call("read", "read_file", json!({"path": "huge.txt"}), false),
    )
    .await;
    assert_eq!(
        (&result["success"], &result["truncated"], &result["size"]),
        (&json!(true), &json!(true), &json!(GIB))
    );
    let lines = json!({"path": "huge.txt", "start_line": 199_990, "end_line": 199_999});
    let result = timed(&tool_runner, &call("lines", "read_file", lines, false)).await;
    assert_eq!(
        result["content"].as_str().unwrap().lines().count(),
        10,
        "{result}"
    );
    std::fs::remove_file(lab.workspace.join("huge.txt")).unwrap();

    for folder in 0..FILES / FILES_PER_FOLDER {
        let folder = lab.workspace.join(format!("d{folder:03}"));
        std::fs::create_dir(&folder).unwrap();
        // Names are what is listed and read; one file with many of them is made much faster than
        // many files.
        let first = folder.join("0000.txt");
        std::fs::write(&first, "needle in hay\n").unwrap();
        for file in 1..FILES_PER_FOLDER {
            std::fs::hard_link(&first, folder.join(format!("{file:04}.txt"))).unwrap();
        }
    }
    let list = json!({"path": ".", "recursive": true});
    let result = timed(&tool_runner, &call("list", "list_files", list, false)).await;
    assert_eq!(
        (&result["success"], &result["truncated"]),
        (&json!(true), &json!(true))
    );
    let search = json!({"query": "needle"});
    let result = timed(&tool_runner, &call("many", "search_in_code", search, false)).await;
    assert_eq!(
        (&result["success"], &result["truncated"]),
        (&json!(true), &json!(true))
    );
    let result = timed(
        &tool_runner,
        &call("none", "search_in_code", json!({"query": "straw"}), false),
    )
    .await;
    assert_eq!(
        (&result["success"], &result["matches"]),
        (&json!(true), &json!([]))
    );

    let print = json!({"command": format!("yes 0123456789 | head -c {GIB}")});
    let result = timed(&tool_runner, &call("print", "execute_command", print, true)).await;
    assert_eq!(
        (&result["exit_code"], &result["truncated"]),
        (&json!(0), &json!(true)),
        "{}",
        result["error"]
    );
    assert!(result["stdout"].as_str().unwrap().contains("bytes cut]"));
}
