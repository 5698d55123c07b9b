//! State of a connection, readable while another thread holds it.
//!
//! SQLite calls back when a statement begins and when it ends, always on the
//! thread that runs it; here that becomes a number that any thread can read.
//! No connection is asked from a thread that does not hold it: ours are opened
//! without a mutex.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, TransactionState};

use crate::vfs::hooks::{self, StatementEvent};

/// Signs that a connection may be holding a snapshot.
///
/// Its numbers order nothing else, so that they are relaxed.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Statements that have begun and not ended.
    running: AtomicU32,
    /// True if BEGIN or SAVEPOINT was last, and not their end.
    is_explicit: AtomicBool,
    /// A statement called a function that the connection did not have when it was opened.
    has_own_functions: AtomicBool,
}

/// Names of the functions that a connection has by itself.
pub(super) type Functions = HashSet<String>;

/// Asks a connection that was just opened.
pub(super) fn functions_of(connection: &Connection) -> rusqlite::Result<Functions> {
    let mut names = connection.prepare("SELECT DISTINCT name FROM pragma_function_list")?;
    names.query_map([], |row| row.get(0))?.collect()
}

impl Activity {
    /// Watches all statements of a connection from now on, which has these functions.
    pub fn watch(
        connection: &mut Connection,
        functions: Arc<Functions>,
    ) -> rusqlite::Result<Arc<Self>> {
        let activity = Arc::new(Self::default());
        let told = Arc::clone(&activity);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if let AuthAction::Function { function_name } = context.action
                && !functions.contains(function_name)
            {
                told.has_own_functions.store(true, Ordering::Relaxed);
            }
            Authorization::Allow
        }))?;
        let told = Arc::clone(&activity);
        hooks::watch_statements(connection, move |event| told.hear(event))?;
        Ok(activity)
    }

    fn hear(&self, event: StatementEvent<'_>) {
        match event {
            StatementEvent::Begins(sql) => {
                self.running.fetch_add(1, Ordering::Relaxed);
                if let Some(is_explicit) = transaction_word(sql) {
                    self.is_explicit.store(is_explicit, Ordering::Relaxed);
                }
            }
            StatementEvent::Ends => {
                // The end of one whose begin was not told counts for nothing.
                let one_less = |running: u32| running.checked_sub(1);
                let _ = self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            }
        }
    }

    /// Its holder uses the connection now, so that it can be asked itself. That
    /// corrects what a statement told wrongly: one that failed, or words that are
    /// not at its begin.
    pub fn used(&self, connection: &Connection) {
        let is_explicit = !connection.is_autocommit();
        self.is_explicit.store(is_explicit, Ordering::Relaxed);
        if self.running.load(Ordering::Relaxed) > 0
            && matches!(connection.transaction_state::<&str>(None), Ok(TransactionState::None))
        {
            self.running.store(0, Ordering::Relaxed);
        }
    }

    /// Returns true if functions of its holder's were called on the connection. That of an
    /// extension that was loaded is one too.
    pub fn has_own_functions(&self) -> bool {
        self.has_own_functions.load(Ordering::Relaxed)
    }

    /// Returns true if the connection is in a read transaction, as far as is known.
    pub fn in_transaction(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0 || self.is_explicit.load(Ordering::Relaxed)
    }
}

/// Returns true if a statement begins a transaction, false if it ends one.
fn transaction_word(sql: &str) -> Option<bool> {
    let mut words = sql.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty());
    let word = words.next()?;
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    if is("BEGIN") || is("SAVEPOINT") {
        Some(true)
    } else if is("COMMIT") || is("END") {
        Some(false)
    } else if is("ROLLBACK") {
        // ROLLBACK TO stays within.
        let goes_on = words.any(|it| it.eq_ignore_ascii_case("TO"));
        (!goes_on).then_some(false)
    } else {
        None
    }
}
