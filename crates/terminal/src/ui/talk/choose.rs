//! `--resume`: the person chooses a session before anything else.

use crate::texts::CommandText;

use super::{Leaving, Talk};
use crate::ui::picker::{ListedSession, PickerAction, SessionPicker};
use crate::ui::prompt::Key;
use crate::ui::requests::RequestOutcome;
use crate::ui::sessions;

impl Talk {
    pub(super) fn begin_choice(&mut self) {
        self.picker = Some(SessionPicker::default());
        let (client, language) = (self.client.clone(), self.language());
        let place = self.place.clone();
        self.requests
            .spawn(sessions::choices(client, self.project, place, language));
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
