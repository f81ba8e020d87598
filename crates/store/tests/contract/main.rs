//! What a store promises, on every database it supports.
//!
//! PostgreSQL takes part when `CODELAB_TEST_POSTGRES_URL` names a server, as a superuser. If
//! `CODELAB_TEST_POSTGRES_TLS_URL` names the same server with `sslmode=verify-full` and a user that
//! is accepted only over TLS, every case also runs over TLS. If `CODELAB_TEST_PGBOUNCER_URL` names a
//! PgBouncer in transaction mode before it, every case also runs through that. Each case has a schema
//! of its own.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it skips"
)]

mod attachments;
mod audit;
mod chat;
mod commits;
mod failover;
mod harness;
mod hosts;
mod life;
mod logs;
mod mcp;
mod memories;
mod ownership;
mod pooler;
mod postgres;
mod previews;
mod project_sessions;
mod reads;
mod rewinds;
mod search;
mod sqlite;
mod usage;
mod users;
mod waiting;

use harness::{Engine, Harness};

macro_rules! contract {
    ($($module:ident::$case:ident,)*) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::run(super::Engine::Sqlite, super::$module::$case).await;
            })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::run(super::Engine::Postgres, super::$module::$case).await;
            })*
        }
        mod on_postgres_over_tls {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::run(super::Engine::PostgresOverTls, super::$module::$case).await;
            })*
        }
        mod on_postgres_through_pgbouncer {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::run(super::Engine::PostgresPooled, super::$module::$case).await;
            })*
        }
    };
}

async fn run<F: Future<Output = Harness>>(engine: Engine, case: impl FnOnce(Harness) -> F) {
    match Harness::open(engine).await {
        Some(harness) => case(harness).await.finish().await,
        None if engine == Engine::PostgresOverTls => {
            eprintln!("skipped: CODELAB_TEST_POSTGRES_TLS_URL is not set")
        }
        None if engine == Engine::PostgresPooled => {
            eprintln!("skipped: CODELAB_TEST_PGBOUNCER_URL is not set")
        }
        None => eprintln!("skipped: CODELAB_TEST_POSTGRES_URL is not set"),
    }
}

contract! {
    commits::everything_comes_back_after_a_restart,
    commits::what_a_provider_wants_back_goes_when_its_turn_ends,
    commits::a_name_is_unique_per_kind_of_session,
    commits::a_refused_commit_leaves_its_neighbours_alone,
    commits::events_have_no_gap_and_no_twin,
    commits::an_acknowledged_commit_is_seen_by_the_next_read,
    commits::waiting_commits_share_a_transaction,
    commits::callers_that_leave_lose_nothing,
    commits::a_closed_store_refuses_and_keeps_what_it_accepted,
    commits::one_decision_wins,
    previews::an_approval_shows_what_it_replaces_and_can_be_asked_again,
    commits::repeats_are_recognised,
    reads::ranges_of_messages,
    reads::events_by_position,
    reads::sessions_are_listed_by_activity,
    reads::abandoned_reads_do_no_harm,
    reads::a_read_only_store_reads_and_never_writes,
    life::deleted_restored_purged,
    life::events_are_pruned_by_age,
    life::old_sessions_are_cleaned_up,
    life::a_newer_database_is_refused_untouched,
    attachments::a_file_is_stored_once_and_goes_with_its_last_session,
    attachments::a_session_can_refer_to_a_file_of_another_one,
    ownership::a_session_is_claimed_by_one_living_server,
    ownership::a_server_is_ended_only_by_one_that_lives_and_saw_its_lease_lapse,
    ownership::whoever_takes_the_place_of_a_lapsed_server_ends_it,
    ownership::servers_join_only_where_the_living_allow_it,
    ownership::what_is_live_has_one_owner,
    ownership::a_server_that_others_ended_writes_nothing_to_a_shared_database,
    ownership::due_and_running_sessions_are_found,
    ownership::it_is_known_when_servers_were_there,
    ownership::dead_servers_are_removed_when_no_deadline_needs_them,
    ownership::chat_ids_never_go_back_and_are_given_once,
    audit::a_whole_log_verifies_and_outlives_its_session,
    audit::every_kind_of_tampering_is_seen,
    audit::a_long_log_is_read_in_parts,
    audit::two_writers_cannot_fork_the_chain,
    audit::chains_from_before_the_key_are_sealed_once,
    audit::an_installation_that_has_sealed_does_not_seal_again,
    audit::another_key_verifies_nothing_and_is_known,
    users::projects_come_back_with_their_agents,
    users::another_user_finds_nothing,
    users::one_default_project_is_made,
    users::changes_touch_only_what_they_name,
    users::a_removed_project_takes_everything_along,
    users::a_login_ticket_is_accepted_once_and_in_time,
    users::a_web_session_lasts_until_its_end,
    project_sessions::sessions_are_listed_for_their_user,
    project_sessions::a_session_is_made_only_in_a_living_project_of_its_user,
    project_sessions::tasks_have_threads_of_their_own,
    project_sessions::histories_are_read_in_pages,
    project_sessions::large_messages_make_small_pages,
    project_sessions::plans_are_saved_as_they_stand,
    rewinds::what_a_rewind_takes_back_is_hidden_and_comes_back,
    search::sessions_are_found_by_the_words_of_their_titles_and_messages,
    search::a_text_with_very_many_words_is_stored,
    search::a_search_finds_only_what_its_user_may_see,
    search::what_a_search_is_asked_is_never_a_query_language,
    search::a_new_title_replaces_the_old_one,
    waiting::open_approvals_of_all_sessions_are_found,
    project_sessions::another_user_reads_nothing,
    logs::logs_with_news_are_found_for_their_user,
    project_sessions::project_sessions_are_found_after_a_restart,
    usage::spendings_are_summed,
    usage::what_was_spent_outlives_the_session_and_not_the_project,
    usage::an_agents_average_is_over_its_newest_tasks,
    usage::a_budget_changes_with_the_session_that_was_asked,
    memories::interactions_come_back_in_order,
    memories::each_interaction_is_indexed_once,
    memories::what_is_remembered_goes_with_its_source,
    memories::what_was_deleted_is_noted_for_the_indexes,
    chat::a_chat_handover_is_taken_once,
    mcp::a_server_comes_back_with_its_secrets,
    mcp::secrets_are_read_with_their_key_only,
    mcp::a_change_touches_only_what_it_names,
    mcp::the_first_definition_of_a_tool_is_accepted_once,
    mcp::what_was_decided_goes_with_its_server,
    mcp::an_authorization_is_finished_once_and_in_time,
}
