//! What a person who leaves in the middle of a turn is told, and what they find again.

use std::time::{Duration, Instant};

use codelab_fakemodel::Reply;

use crate::lab::Lab;

/// The time that the server gives to model calls when it ends.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_in_a_turn_finds_what_was_written_of_its_answer() {
    let lab = Lab::new().await;
    lab.route_to("coder");
    lab.model
        .reply(Reply::text("Half of the answer.\n\nThe rest.").hang_after_deltas(3));
    let mut terminal = lab.chat(&[]);
    terminal.say("Tell me");
    terminal.wait_for("Half of");
    let begun = Instant::now();
    terminal.press("\u{4}");
    for part in [
        "stopping the turn, because its server ends with this program",
        "⊘ cancelled",
        "continue with: codelab chat --session",
    ] {
        terminal.wait_for(part);
    }
    assert_eq!(terminal.ended(), 0);
    assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
    let terminal = lab.chat(&["--continue"]);
    let screen = terminal.wait_for("the answer was cut off here");
    assert!(screen.contains("Half of"), "{screen}");
}
