//! States of jobs in SQL: their numbers, and the index of each state.
//!
//! Macros, because the statements are put together when the crate is compiled: each is one text,
//! which SQLite prepares once. `schema.rs` has the same numbers in the text of version 1 of the
//! tables; a test compares both with [`JobState`](super::JobState).
//!
//! Must never: change a number, as the numbers stand in databases.

/// Number of a state; or the numbers of several, in the words of a partial index: SQLite takes
/// such an index only for a query that repeats its condition.
#[rustfmt::skip]
macro_rules! state {
    (Ready) => { "0" };
    (Leased) => { "1" };
    (Delayed) => { "2" };
    (Blocked) => { "3" };
    (Done) => { "4" };
    (Dead) => { "5" };
    (open) => { "state IN (0, 1, 2)" };
    (waiting) => { "state IN (0, 2, 3)" };
    (ended) => { "state IN (4, 5)" };
}

/// Condition of a job that its group's rate holds off. Such a job has a negative lease length until a
/// claim sets it: so its due time is told from one that a caller gave, and the row keeps its size.
#[rustfmt::skip]
macro_rules! held_off {
    () => { "lease_ms < 0" };
    (set) => { "lease_ms = -abs(coalesce(lease_ms, 1))" };
}

/// FROM and WHERE of the jobs of one state in the queue ?1, by the index of that state.
#[rustfmt::skip]
macro_rules! jobs_in {
    (Ready) => { jobs_in!("ready", state!(Ready)) };
    (Leased) => { jobs_in!("leased", state!(Leased)) };
    (Delayed) => { jobs_in!("delayed", state!(Delayed)) };
    (Blocked) => { jobs_in!("blocked", state!(Blocked)) };
    (Done) => { concat!(jobs_in!("ended", state!(Done)), " AND ", state!(ended)) };
    (Dead) => { concat!(jobs_in!("ended", state!(Dead)), " AND ", state!(ended)) };
    ($index:literal, $state:expr) => {
        concat!(
            "FROM leafpress_job INDEXED BY leafpress_job_",
            $index,
            " WHERE queue = +?1 AND state = ",
            $state
        )
    };
}
