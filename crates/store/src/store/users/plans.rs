//! The plans of all sessions of a project.

use super::ProjectStore;
use super::sessions::plan_row;
use crate::StoreError;
use crate::columns::Columns;
use crate::project_session::ProjectPlanRow;
use crate::store::pages::{MAX_LIST_BYTES, SizedList};

// The sign keeps planners from scanning all of the user's sessions instead of the project's.
macro_rules! from_plans {
    ($select:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $select,
            " FROM sessions JOIN plans ON plans.session_key = sessions.id WHERE sessions.project_id = $1 ",
            "AND +sessions.user_id = $2 AND sessions.realm = 'project' AND sessions.deleted_at IS NULL",
            $rest
        )
    };
}
const COUNT: &str = from_plans!("COUNT(*)", "");
const NEWEST: SizedList<ProjectPlanRow> = SizedList {
    sizes: from_plans!(
        "CAST(OCTET_LENGTH(plans.body) AS BIGINT)",
        " ORDER BY plans.created_at DESC, sessions.id DESC, plans.turn DESC, plans.plan_id LIMIT $3 OFFSET $4"
    ),
    // Only the keys of all plans are sorted. A body can be large.
    rows: concat!(
        "SELECT sessions.session_id, sessions.title, plans.turn, plans.created_at, plans.updated_at, plans.body FROM (",
        from_plans!(
            "plans.session_key AS page_session, plans.plan_id AS page_plan",
            " ORDER BY plans.created_at DESC, sessions.id DESC, plans.turn DESC, plans.plan_id LIMIT $3 OFFSET $4"
        ),
        ") AS page JOIN plans ON plans.session_key = page_session AND plans.plan_id = page_plan \
         JOIN sessions ON sessions.id = page_session \
         ORDER BY plans.created_at DESC, sessions.id DESC, plans.turn DESC, plans.plan_id"
    ),
    decode: project_plan,
};

impl ProjectStore {
    /// A page of the plans of all sessions, newest first, and how many there are. Returns fewer rows
    /// than `limit` if more would not fit one page.
    pub async fn plans(
        &self,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<ProjectPlanRow>, u64), StoreError> {
        let which = vec![self.row.id.into(), self.user.into()];
        let total = self
            .store
            .read_one(COUNT, which.clone(), |row| row.count())
            .await?
            .unwrap_or(0);
        let page = self
            .store
            .read_sized(NEWEST, which, limit, Some(offset), MAX_LIST_BYTES)
            .await?;
        Ok((page, total))
    }
}

fn project_plan(row: &mut Columns<'_>) -> Result<ProjectPlanRow, StoreError> {
    Ok(ProjectPlanRow {
        session_id: row.id()?,
        title: row.optional_string()?,
        plan: plan_row(row)?.plan,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::query_plan::{assert_uses, empty};

    #[test]
    fn sqlite_finds_rows_by_the_intended_index() {
        let connection = empty();
        for sql in [COUNT, NEWEST.rows, NEWEST.sizes] {
            assert_uses(&connection, sql, "sessions_by_project (project_id=?)");
            assert_uses(&connection, sql, "PRIMARY KEY (session_key=?)");
        }
    }
}
