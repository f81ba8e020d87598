//! Many starts and kills leave no process behind.

use serde_json::json;

use crate::lab::{SCRIPTED, call, limits, mark, marked, process, ready, scripted, until};

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

/// Forks and ends, again and again: no look at the table of processes finds it twice. Gives up
/// after two minutes, so that a failed test leaves nothing.
const CHAIN: &str = r#"
    use POSIX;
    $SIG{TERM} = "IGNORE";
    my $end = time + 120;
    exit if fork;
    while (time < $end) { exit if fork; POSIX::setsid(); }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_forks_again_and_again_is_ended() {
    const LOOKS: usize = 50;
    let mark = mark();
    let entry = json!({
        "command": "sh",
        "args": ["-c", "perl -e \"$1\" & exec \"$2\" normal", "sh", CHAIN, SCRIPTED],
        "env": {"CODELAB_TEST_MARK": mark},
    });
    let handle = process(&entry, limits());
    ready(&handle).await;
    let chain = || marked(&mark).len() > 1;
    until("the chain runs beside the server", chain).await;
    handle.stop().await;
    let mut looks = 0;
    until("nothing is left, however often one looks", || {
        looks = match marked(&mark).is_empty() {
            true => looks + 1,
            false => 0,
        };
        looks > LOOKS
    })
    .await;
}
