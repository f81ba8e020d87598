//! Many starts and kills leave no process behind.

use serde_json::json;

use crate::lab::{call, limits, mark, marked, ready, scripted, until};

const USUAL_ROUNDS: usize = 20;

/// `CODELAB_TEST_MCP_ROUNDS` asks for more.
fn rounds() -> usize {
    let wanted = std::env::var("CODELAB_TEST_MCP_ROUNDS").ok();
    wanted.map_or(USUAL_ROUNDS, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_starts_and_kills_leave_no_process_behind() {
    let mark = mark();
    for round in 0..rounds() {
        let handles = [(); 3].map(|()| scripted("normal", &mark, limits()));
        for handle in &handles {
            ready(handle).await;
        }
        // Every third round ends them politely, the others when their work is half done.
        call(&handles[0], "linger", json!({})).await;
        match round % 3 {
            0 => {
                for handle in &handles {
                    handle.stop().await;
                }
            }
            1 => drop(handles),
            _ => {
                for pid in marked(&mark) {
                    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
                drop(handles);
            }
        }
        until("nothing is left", || marked(&mark).is_empty()).await;
    }
}
