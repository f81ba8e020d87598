//! Interactions of agents, from which the indexes for search are built.

use std::collections::BTreeSet;

use codelab_protocol::{AgentName, Timestamp};
use futures_util::future::join_all;

use super::ProjectStore;
use super::projects::missing;
use crate::StoreError;
use crate::columns::Columns;
use crate::commit::project_session::interaction_columns;
use crate::project_session::{
    ErasedInteraction, InteractionId, InteractionRow, NewInteraction, UnindexedInteraction,
};
use crate::statement::{Expect, Param, Stmt};
use crate::store::Store;
use crate::store::life::note_erased;
use crate::store::pages::{MAX_LIST_BYTES, SizedList};

const INSERT: &str = "INSERT INTO interactions (task_id, type, success, text, metadata, created_at, agent, user_id, \
     project_id) SELECT $1, $2, $3, $4, $5, $6, project_agents.name, projects.user_id, projects.id FROM projects \
     JOIN project_agents ON project_agents.project_id = projects.id \
     WHERE projects.id = $7 AND projects.user_id = $8 AND project_agents.name = $9 RETURNING id";

macro_rules! interaction_columns {
    () => {
        "interactions.id, agent, sessions.session_id, task_id, type, success, text, metadata, \
         interactions.created_at FROM interactions LEFT JOIN sessions ON sessions.id = interactions.session_key "
    };
}
const PAGE: &str = concat!(
    "SELECT ",
    interaction_columns!(),
    "WHERE interactions.project_id = $1 AND agent = $2 AND interactions.id > $3 AND interactions.rewound IS NULL ORDER BY interactions.id LIMIT $4"
);
const NEWEST: SizedList<InteractionRow> = SizedList {
    sizes: "SELECT CAST(OCTET_LENGTH(text) + OCTET_LENGTH(metadata) AS BIGINT) FROM interactions WHERE project_id = $1 AND agent = $2 \
         AND rewound IS NULL ORDER BY id DESC LIMIT $3 OFFSET $4",
    rows: concat!(
        "SELECT ",
        interaction_columns!(),
        "WHERE interactions.project_id = $1 AND agent = $2 AND interactions.rewound IS NULL ORDER BY interactions.id DESC LIMIT $3 OFFSET $4"
    ),
    decode: interaction,
};
/// Ids in one query. A query for fewer repeats its last id.
const IDS_AT_ONCE: usize = 10;
/// SQLite numbers parameters by their first appearance.
const PRESENT: &str = "SELECT id FROM interactions WHERE id IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
     AND project_id = $11 AND agent = $12 AND rewound IS NULL";
const COUNT: &str =
    "SELECT COUNT(*) FROM interactions WHERE project_id = $1 AND agent = $2 AND rewound IS NULL";
const NOTE_CLEARED: &str = note_erased!("project_id = $1 AND agent = $2");
const CLEAR: &str = "DELETE FROM interactions WHERE project_id = $1 AND agent = $2";
const NOTE_ONE: &str = note_erased!("project_id = $1 AND agent = $2 AND id = $3");
const DELETE_ONE: &str =
    "DELETE FROM interactions WHERE project_id = $1 AND agent = $2 AND id = $3";
const ERASED: &str =
    "SELECT id, user_id, project_id, agent FROM memory_erasures WHERE id > $1 ORDER BY id LIMIT $2";
const FORGOTTEN: &str = "DELETE FROM memory_erasures WHERE id = $1";
const UNINDEXED: &str = concat!(
    "SELECT interactions.user_id, interactions.project_id, ",
    interaction_columns!(),
    "WHERE indexed = 0 AND interactions.rewound IS NULL AND interactions.id > $1 ORDER BY interactions.id LIMIT $2"
);
const MARK: &str = "UPDATE interactions SET indexed = 1 WHERE id = $1";

impl ProjectStore {
    /// Belongs to no session. `NotFound` when the project or its agent is gone.
    pub async fn add_interaction(&self, new: NewInteraction) -> Result<InteractionId, StoreError> {
        let (agent, at) = (Param::text(new.agent.as_str()), new.at);
        let mut params = interaction_columns(new)?;
        params.extend([self.row.id.into(), self.user.into(), agent]);
        let insert = Stmt {
            sql: INSERT,
            params,
            expect: Expect::Number,
        };
        let written = self
            .store
            .write(None, vec![self.fence(at), insert])
            .await
            .map_err(missing)?;
        let id = written.number.and_then(|number| u64::try_from(number).ok());
        id.map(InteractionId).ok_or(StoreError::NotFound)
    }

    /// A page of an agent's interactions in the order of their numbers; `after` pages on.
    pub async fn interactions(
        &self,
        agent: &AgentName,
        after: Option<InteractionId>,
        limit: u64,
    ) -> Result<Vec<InteractionRow>, StoreError> {
        let after = after.map_or(0, |id| id.0);
        let params = vec![
            self.row.id.into(),
            Param::text(agent.as_str()),
            after.into(),
            limit.into(),
        ];
        self.store.read(PAGE, params, interaction).await
    }

    /// A page of an agent's interactions, newest first, and how many there are. Returns fewer rows
    /// than `limit` if more would not fit one page.
    pub async fn newest_interactions(
        &self,
        agent: &AgentName,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<InteractionRow>, u64), StoreError> {
        let total = self.count_interactions(agent).await?;
        let which = vec![self.row.id.into(), Param::text(agent.as_str())];
        let page = self
            .store
            .read_sized(NEWEST, which, limit, Some(offset), MAX_LIST_BYTES)
            .await?;
        Ok((page, total))
    }

    /// Those of these interactions that still exist, and that no rewind has taken back.
    pub async fn present_interactions(
        &self,
        agent: &AgentName,
        ids: &[InteractionId],
    ) -> Result<BTreeSet<InteractionId>, StoreError> {
        let mut present = BTreeSet::new();
        for some in ids.chunks(IDS_AT_ONCE) {
            let last = some.last().into_iter().cycle();
            let ids = some
                .iter()
                .chain(last)
                .take(IDS_AT_ONCE)
                .map(|id| Param::from(id.0));
            let params = ids
                .chain([self.row.id.into(), Param::text(agent.as_str())])
                .collect();
            present.extend(
                self.store
                    .read(PRESENT, params, |row| row.count().map(InteractionId))
                    .await?,
            );
        }
        Ok(present)
    }

    pub async fn count_interactions(&self, agent: &AgentName) -> Result<u64, StoreError> {
        let params = vec![self.row.id.into(), Param::text(agent.as_str())];
        Ok(self
            .store
            .read_one(COUNT, params, |row| row.count())
            .await?
            .unwrap_or(0))
    }

    /// Removes all interactions of the agent.
    pub async fn clear_interactions(
        &self,
        agent: &AgentName,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let params = || vec![self.row.id.into(), Param::text(agent.as_str())];
        let stmts = vec![
            self.fence(now),
            Stmt::any(NOTE_CLEARED, params()),
            Stmt::any(CLEAR, params()),
        ];
        self.store.erase(None, stmts).await.map_err(missing)
    }

    /// `NotFound` if the agent has no such interaction.
    pub async fn delete_interaction(
        &self,
        agent: &AgentName,
        id: InteractionId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let params = || vec![self.row.id.into(), Param::text(agent.as_str()), id.0.into()];
        let stmts = vec![
            self.fence(now),
            Stmt::any(NOTE_ONE, params()),
            Stmt::one(DELETE_ONE, params()),
        ];
        self.store.erase(None, stmts).await.map_err(missing)
    }
}

impl Store {
    /// Interactions of all users that the indexes do not hold yet, in the order of their numbers;
    /// `after` pages on.
    pub async fn unindexed_interactions(
        &self,
        after: Option<InteractionId>,
        limit: u64,
    ) -> Result<Vec<UnindexedInteraction>, StoreError> {
        self.read(
            UNINDEXED,
            vec![after.map_or(0, |id| id.0).into(), limit.into()],
            |row| {
                Ok(UnindexedInteraction {
                    user_id: row.user()?,
                    project_id: row.project()?,
                    interaction: interaction(row)?,
                })
            },
        )
        .await
    }

    /// Interactions of all users that were deleted and that the indexes may still hold, in the
    /// order of their numbers; `after` pages on.
    pub async fn erased_interactions(
        &self,
        after: Option<InteractionId>,
        limit: u64,
    ) -> Result<Vec<ErasedInteraction>, StoreError> {
        self.read(
            ERASED,
            vec![after.map_or(0, |id| id.0).into(), limit.into()],
            |row| {
                Ok(ErasedInteraction {
                    id: InteractionId(row.count()?),
                    user_id: row.user()?,
                    project_id: row.project()?,
                    agent: row.id()?,
                })
            },
        )
        .await
    }

    /// Records that the indexes no longer hold these, neither in search nor in their files.
    pub async fn forget_erased(&self, ids: &[InteractionId]) -> Result<(), StoreError> {
        let stmts = ids
            .iter()
            .map(|id| Stmt::any(FORGOTTEN, vec![id.0.into()]))
            .collect();
        self.write(None, stmts).await.map(drop)
    }

    /// Returns those that were deleted before they were marked. The index must remove them again.
    pub async fn mark_indexed(
        &self,
        ids: &[InteractionId],
    ) -> Result<Vec<InteractionId>, StoreError> {
        // Calls made together share one transaction, each with its own result.
        let marks = ids
            .iter()
            .map(|id| self.write(None, vec![Stmt::any(MARK, vec![id.0.into()])]));
        let mut gone = Vec::new();
        for (id, written) in ids.iter().zip(join_all(marks).await) {
            if written?.rows == 0 {
                gone.push(*id);
            }
        }
        Ok(gone)
    }
}

fn interaction(row: &mut Columns<'_>) -> Result<InteractionRow, StoreError> {
    Ok(InteractionRow {
        id: InteractionId(row.count()?),
        agent: row.id()?,
        session_id: row.optional_id()?,
        task: row.optional_id()?,
        kind: row.string()?,
        success: row.optional_int()?.map(|flag| flag != 0),
        text: row.string()?,
        metadata: row.json()?,
        created_at: row.time()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::query_plan::{assert_uses, empty};

    #[test]
    fn sqlite_finds_rows_by_the_intended_index() {
        let connection = empty();
        for (sql, index) in [
            (
                PAGE,
                "interactions_by_agent (project_id=? AND agent=? AND id>?)",
            ),
            (CLEAR, "interactions_by_agent (project_id=? AND agent=?)"),
            (DELETE_ONE, "INTEGER PRIMARY KEY (rowid=?)"),
            (COUNT, "interactions_by_agent (project_id=? AND agent=?)"),
            (
                PRESENT,
                "interactions_by_agent (project_id=? AND agent=? AND id=?",
            ),
            (UNINDEXED, "interactions_unindexed"),
        ] {
            assert_uses(&connection, sql, index);
        }
    }
}
