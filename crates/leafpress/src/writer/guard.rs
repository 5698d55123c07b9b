//! Rules for callers on the connection that all of them share.
//!
//! SQLite asks the authorizer as it compiles a statement, so a compiled statement costs nothing
//! later. If a statement breaks the rules all the same, the commit hook refuses each commit
//! that is not the writer's own.
//!
//! 1. Only the writer begins, commits and rolls back. It lets a statement commit itself
//!    ([`Guard::committing_itself`]) that is compiled already, for the schema that it meets.
//! 2. No caller changes a setting that the next caller would meet.
//!
//! Must never: refuse a statement that a transaction of the caller's own could run without a trace
//! for others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::interrupt::Interrupts;
use crate::sync::lock;

/// Pragmas that only return something, with any argument.
const TELLING: [&str; 19] = [
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "foreign_key_check",
    "foreign_key_list",
    "freelist_count",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "module_list",
    "page_count",
    "pragma_list",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Pragmas whose effect is undone with the transaction, or ends with it.
const TRANSACTIONAL: [&str; 5] =
    ["application_id", "defer_foreign_keys", "incremental_vacuum", "optimize", "user_version"];

/// Pragmas that return a setting if they have no argument.
const SETTINGS: [&str; 32] = [
    "analysis_limit",
    "auto_vacuum",
    "automatic_index",
    "busy_timeout",
    "cache_size",
    "cache_spill",
    "case_sensitive_like",
    "cell_size_check",
    "checkpoint_fullfsync",
    "encoding",
    "foreign_keys",
    "fullfsync",
    "hard_heap_limit",
    "ignore_check_constraints",
    "journal_mode",
    "journal_size_limit",
    "legacy_alter_table",
    "locking_mode",
    "max_page_count",
    "mmap_size",
    "page_size",
    "query_only",
    "read_uncommitted",
    "recursive_triggers",
    "schema_version",
    "secure_delete",
    "soft_heap_limit",
    "synchronous",
    "temp_store",
    "threads",
    "trusted_schema",
    "wal_autocheckpoint",
];

const TEMPORARY: &str = "other callers would find what is temporary on this connection";
const TEMPORARY_GONE: &str = "other callers would miss what is temporary on this connection";

/// State shared by the connection's hooks and the thread that uses it.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// True while the writer itself runs statements.
    is_writer: AtomicBool,
    /// True if the next commit is the writer's.
    may_commit: AtomicBool,
    /// True if the last commit of the writer came as far as the commit hook.
    has_begun_commit: AtomicBool,
    /// True if the last call compiled a PRAGMA.
    used_pragma: AtomicBool,
    /// True if a call changed triggers or tables.
    changed_schema: AtomicBool,
    refusal: Mutex<Option<String>>,
    /// Present while a statement runs that commits itself.
    statement_commit: Mutex<Option<StatementCommit>>,
}

/// The commit of a caller's statement that runs outside of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementCommit {
    /// SQLite did not come to it: there is nothing to commit, or the statement has failed.
    NotBegun,
    /// It began at this moment. The statement itself had succeeded.
    Begun(Instant),
    /// SQLite compiled the statement again, for another schema or for other values. So the
    /// commit is refused: a trigger of that schema may end the statement half way and leave
    /// what it did (RAISE(FAIL)).
    Refused,
}

impl Guard {
    /// Installs the guard on `connection`, whose calls `interrupts` can stop.
    pub(super) fn install(
        connection: &mut Connection,
        interrupts: &Arc<Interrupts>,
    ) -> rusqlite::Result<Arc<Self>> {
        let guard = Arc::new(Self::default());
        let authorizer = Arc::clone(&guard);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if authorizer.is_writer.load(Ordering::Relaxed) {
                return Authorization::Allow;
            }
            authorizer.compiles();
            match authorizer.refusal_of(&context) {
                None => Authorization::Allow,
                Some(reason) => {
                    *lock(&authorizer.refusal) = Some(reason);
                    Authorization::Deny
                }
            }
        }))?;
        let (commits, interrupts) = (Arc::clone(&guard), Arc::clone(interrupts));
        connection.commit_hook(Some(move || {
            if commits.may_commit.load(Ordering::Relaxed) {
                commits.has_begun_commit.store(true, Ordering::Relaxed);
                return false;
            }
            let is_allowed = commits.begins_commit();
            if is_allowed {
                interrupts.leave_code();
            }
            !is_allowed
        }))?;
        Ok(guard)
    }

    /// Notes that a statement of a caller is being compiled.
    fn compiles(&self) {
        if let Some(statement_commit) = &mut *lock(&self.statement_commit) {
            *statement_commit = StatementCommit::Refused;
        }
    }

    /// Notes that the commit of a statement begins. False if no statement may commit itself now.
    fn begins_commit(&self) -> bool {
        let mut statement_commit = lock(&self.statement_commit);
        let is_allowed = *statement_commit == Some(StatementCommit::NotBegun);
        if is_allowed {
            *statement_commit = Some(StatementCommit::Begun(Instant::now()));
        }
        is_allowed
    }

    /// Lets a compiled statement of a caller commit itself, unless SQLite compiles it again. The
    /// permission ends with `run`, also after a panic.
    pub(super) fn committing_itself<T>(&self, run: impl FnOnce() -> T) -> (T, StatementCommit) {
        struct Allowed<'g>(&'g Guard);
        impl Drop for Allowed<'_> {
            fn drop(&mut self) {
                *lock(&self.0.statement_commit) = None;
            }
        }
        *lock(&self.statement_commit) = Some(StatementCommit::NotBegun);
        let allowed = Allowed(self);
        let outcome = run();
        let statement_commit = lock(&self.statement_commit).unwrap_or(StatementCommit::NotBegun);
        drop(allowed);
        (outcome, statement_commit)
    }

    /// Runs statements of the writer itself: BEGIN, SAVEPOINT and the like. The permission ends
    /// with `run`, also after a panic.
    pub(super) fn as_writer<T>(&self, run: impl FnOnce() -> T) -> T {
        struct Speaking<'g>(&'g AtomicBool);
        impl Drop for Speaking<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        self.is_writer.store(true, Ordering::Relaxed);
        let _speaking = Speaking(&self.is_writer);
        run()
    }

    /// Lets the writer commit.
    pub(super) fn as_committer<T>(&self, commit: impl FnOnce() -> T) -> T {
        self.has_begun_commit.store(false, Ordering::Relaxed);
        self.may_commit.store(true, Ordering::Relaxed);
        let outcome = self.as_writer(commit);
        self.may_commit.store(false, Ordering::Relaxed);
        outcome
    }

    /// Returns true if the last commit of the writer came as far as the commit hook. SQLite asks
    /// the virtual tables before it, and writes nothing of the transaction until it was called.
    pub(super) fn has_begun_commit(&self) -> bool {
        self.has_begun_commit.load(Ordering::Relaxed)
    }

    /// Reason why the last statement was refused, if it was.
    pub(super) fn take_refusal(&self) -> Option<String> {
        lock(&self.refusal).take()
    }

    /// Returns true if a PRAGMA was compiled since the last call of this function.
    pub(super) fn take_used_pragma(&self) -> bool {
        self.used_pragma.swap(false, Ordering::Relaxed)
    }

    /// Returns true if triggers or tables were made, changed or dropped since the last look at the
    /// schema.
    pub(super) fn has_changed_schema(&self) -> bool {
        self.changed_schema.load(Ordering::Relaxed)
    }

    /// Does as [`has_changed_schema`](Self::has_changed_schema), and counts as a look at the
    /// schema.
    pub(super) fn take_changed_schema(&self) -> bool {
        self.changed_schema.swap(false, Ordering::Relaxed)
    }

    fn refusal_of(&self, context: &AuthContext<'_>) -> Option<String> {
        match &context.action {
            AuthAction::Transaction { .. } => Some(
                "BEGIN, COMMIT, END and ROLLBACK are the writer's: each call is a transaction already"
                    .to_owned(),
            ),
            AuthAction::Savepoint { .. } => {
                Some("SAVEPOINT, RELEASE and ROLLBACK TO are the writer's".to_owned())
            }
            AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
                Some("other callers would find the databases attached or gone".to_owned())
            }
            // Without the word TEMP the schema decides.
            AuthAction::CreateTable { .. }
            | AuthAction::CreateIndex { .. }
            | AuthAction::CreateTrigger { .. }
            | AuthAction::CreateView { .. }
            | AuthAction::CreateVtable { .. }
                if context.database_name == Some("temp") =>
            {
                Some(TEMPORARY.to_owned())
            }
            AuthAction::CreateTempIndex { .. }
            | AuthAction::CreateTempTable { .. }
            | AuthAction::CreateTempTrigger { .. }
            | AuthAction::CreateTempView { .. } => {
                Some(TEMPORARY.to_owned())
            }
            AuthAction::DropTempIndex { .. }
            | AuthAction::DropTempTable { .. }
            | AuthAction::DropTempTrigger { .. }
            | AuthAction::DropTempView { .. }
            | AuthAction::AlterTable { database_name: "temp", .. } => {
                Some(TEMPORARY_GONE.to_owned())
            }
            AuthAction::DropVtable { .. } if context.database_name == Some("temp") => {
                Some(TEMPORARY_GONE.to_owned())
            }
            AuthAction::CreateTrigger { .. }
            | AuthAction::DropTrigger { .. }
            | AuthAction::CreateTable { .. }
            | AuthAction::AlterTable { .. }
            | AuthAction::DropTable { .. } => {
                self.changed_schema.store(true, Ordering::Relaxed);
                None
            }
            AuthAction::Pragma { pragma_name, pragma_value } => {
                self.used_pragma.store(true, Ordering::Relaxed);
                let is_one_of = |names: &[&str]| {
                    names.iter().any(|name| name.eq_ignore_ascii_case(pragma_name))
                };
                let is_harmless = is_one_of(&TELLING)
                    || is_one_of(&TRANSACTIONAL)
                    || (pragma_value.is_none() && is_one_of(&SETTINGS));
                (!is_harmless).then(|| {
                    format!("PRAGMA {pragma_name} would hold for other callers too")
                })
            }
            _ => None,
        }
    }
}
