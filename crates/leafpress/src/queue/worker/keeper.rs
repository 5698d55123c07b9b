//! Keeps the leases of running jobs alive, all of them in one call.
//!
//! Stands beside the handlers, on two threads. One sleeps for a third of a lease and extends all of
//! them; after a call that failed it asks again sooner. The other one tells the handlers whose leases
//! have ended: also while the call that would extend them waits for a lock.
//!
//! Must never: extend a job that is being settled, take a failed extension for the end of the job
//! (its handler is told, and ends by itself), or ask without a pause.

use std::time::Instant;

use super::pool::{PAUSE_MIN, Pool, State};
use crate::error::{Error, ErrorKind};
use crate::queue::Token;

/// Outcome of the last call that extended leases.
enum Extension {
    Done,
    /// It failed, at least for one of them. No call before `again_at`; none at all without it.
    Failed {
        again_at: Option<Instant>,
    },
}

/// Extends leases until the pool is over.
pub(super) fn keep(pool: &Pool) {
    let mut last = Extension::Done;
    let mut state = pool.lock();
    while !state.is_over {
        let now = Instant::now();
        let ask_at = ask_at(pool, &state, &last);
        if ask_at.is_some_and(|at| at <= now) {
            let tokens: Vec<Token> = state.running.keys().copied().collect();
            pool.extension_begins(&mut state);
            drop(state);
            last = extend(pool, &tokens);
            state = pool.lock();
            if matches!(last, Extension::Done) {
                state.extending_since = None;
            }
        } else {
            state = pool.wait_for_lease(state, ask_at.map(|next| next - now));
        }
    }
}

/// Tells handlers that their lease has ended, where the call that extends the leases does not succeed in
/// time. Runs until the pool is over. A process that slept for longer than a lease asks first: often no
/// other process has taken the job.
pub(super) fn watch(pool: &Pool) {
    let mut state = pool.lock();
    while !state.is_over {
        let now = Instant::now();
        let vain_at = state.extending_since.map(|since| since + pool.lease / 3);
        let end_at = vain_at.and_then(|vain_at| Some(pool.first_end(&state)?.max(vain_at)));
        if end_at.is_some_and(|at| at <= now) {
            drop(state);
            pool.leases_ended(now);
            state = pool.lock();
        } else {
            state = pool.wait_for_lease(state, end_at.map(|at| at - now));
        }
    }
}

/// Time of the next call; `None` if there is nothing to ask.
fn ask_at(pool: &Pool, state: &State, last: &Extension) -> Option<Instant> {
    let next = state.running.values().map(|job| job.extended_at + pool.lease / 3).min()?;
    match last {
        Extension::Done => Some(next),
        Extension::Failed { again_at } => again_at.map(|at| at.max(next)),
    }
}

fn extend(pool: &Pool, tokens: &[Token]) -> Extension {
    let asked_at = Instant::now();
    let pause = (pool.lease / 12).max(PAUSE_MIN);
    let failed = || Extension::Failed { again_at: Some(Instant::now() + pause) };
    let answers = match pool.queue.extend_many(tokens, pool.lease) {
        Ok(answers) => answers,
        // Another connection holds the database. The leases last a while yet.
        Err(error) if matches!(error.kind(), ErrorKind::Busy { .. }) => return failed(),
        Err(error) => {
            let is_stopped = matches!(error.kind(), ErrorKind::Stopped { .. });
            pool.fail(error);
            return if is_stopped { Extension::Failed { again_at: None } } else { failed() };
        }
    };
    let mut extension = Extension::Done;
    for (token, answer) in tokens.iter().zip(answers) {
        match answer {
            Ok(_) => pool.lease_extended(*token, asked_at),
            Err(error) if is_lost(&error) => pool.lease_lost(*token),
            Err(error) => {
                pool.fail(error);
                extension = failed();
            }
        }
    }
    extension
}

/// The job is another's, or the database was restored and does not know of the claim.
pub(super) fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LeaseLost { .. } | ErrorKind::NoSuchClaim { .. })
}
