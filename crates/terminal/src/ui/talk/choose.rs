//! `--resume`: the person chooses a session before anything else.

use crate::texts::CommandText;

use super::{Leaving, Talk};
use crate::ui::picker::{ListedSession, PickerAction, SessionPicker};
use crate::ui::prompt::Key;
use crate::ui::requests::{self, RequestOutcome};

impl Talk {
    pub(super) fn begin_choice(&mut self) {
        self.picker = Some(SessionPicker::default());
        let (client, language) = (self.client.clone(), self.language());
        self.requests
            .spawn(requests::choices(client, self.project, language));
    }

    pub(super) fn offer(&mut self, sessions: Vec<ListedSession>) {
        if sessions.is_empty() {
            self.picker = None;
            return self.say(CommandText::NothingToPick, &[]);
        }
        if let Some(picker) = &mut self.picker {
            picker.offer(sessions);
        }
    }

    pub(super) fn choose(&mut self, key: &Key) {
        let Some(picker) = &mut self.picker else {
            return;
        };
        match picker.press(key) {
            PickerAction::Nothing => {}
            PickerAction::Open(session) => {
                self.picker = None;
                self.requests.spawn(async { RequestOutcome::Open(session) });
            }
            PickerAction::Leave => self.is_over = Leaving::Now,
        }
    }
}
