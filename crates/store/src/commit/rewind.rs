//! The statements for messages that a rewind takes back, or gives back. What was said stays; models,
//! memory and search do not see it.

use codelab_protocol::{RewindId, TurnId};

use crate::SessionKey;
use crate::statement::{Param, Stmt};

/// What happens to a part of a session's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryChange {
    /// Everything from this turn on that no rewind has taken back yet.
    Hidden { rewind_id: RewindId, from: TurnId },
    /// Everything that this rewind took back.
    Shown { rewind_id: RewindId },
}

const HIDE_MESSAGES: &str =
    "UPDATE messages SET rewound = $1 WHERE session_key = $2 AND turn >= $3 AND rewound IS NULL";
const HIDE_TASK_MESSAGES: &str = "UPDATE task_messages SET rewound = $1 WHERE session_key = $2 AND turn >= $3 AND rewound IS NULL";
// Interactions of earlier versions do not know their turn.
const HIDE_INTERACTIONS: &str = "UPDATE interactions SET rewound = $1 WHERE session_key = $2 AND rewound IS NULL \
     AND (turn >= $3 OR turn IS NULL AND created_at > (SELECT MIN(timestamp) FROM messages \
     WHERE messages.session_key = $2 AND messages.turn = $3))";
const HIDE_TEXTS: &str = "UPDATE session_texts SET hidden = 1 WHERE session_key = $1 AND ord IN \
     (SELECT ord FROM messages WHERE messages.session_key = $1 AND rewound = $2)";

const SHOW_TEXTS: &str = "UPDATE session_texts SET hidden = 0 WHERE session_key = $1 AND ord IN \
     (SELECT ord FROM messages WHERE messages.session_key = $1 AND rewound = $2)";
const SHOW: [&str; 3] = [
    "UPDATE messages SET rewound = NULL WHERE session_key = $1 AND rewound = $2",
    "UPDATE task_messages SET rewound = NULL WHERE session_key = $1 AND rewound = $2",
    // The index may have dropped them.
    "UPDATE interactions SET rewound = NULL, indexed = 0 WHERE session_key = $1 AND rewound = $2",
];

pub(super) fn append(key: SessionKey, changes: &[HistoryChange], stmts: &mut Vec<Stmt>) {
    for change in changes {
        match change {
            HistoryChange::Hidden { rewind_id, from } => {
                let id = || Param::text(rewind_id.as_str());
                for sql in [HIDE_MESSAGES, HIDE_TASK_MESSAGES, HIDE_INTERACTIONS] {
                    stmts.push(Stmt::any(sql, vec![id(), key.into(), from.0.into()]));
                }
                stmts.push(Stmt::any(HIDE_TEXTS, vec![key.into(), id()]));
            }
            HistoryChange::Shown { rewind_id } => {
                for sql in [SHOW_TEXTS].into_iter().chain(SHOW) {
                    let params = vec![key.into(), Param::text(rewind_id.as_str())];
                    stmts.push(Stmt::any(sql, params));
                }
            }
        }
    }
}
