//! Keeps the leases of running jobs alive, all of them in one call.
//!
//! Stands beside the handlers, on a thread of its own that sleeps for a third
//! of a lease. Must never: extend a job that is being settled, or take a failed
//! extension for the end of the job: its handler is told, and ends by itself.

use std::time::Instant;

use super::pool::Pool;
use crate::error::{Error, ErrorKind};
use crate::queue::Token;

/// Runs until the pool is over.
pub(super) fn keep(pool: &Pool) {
    let between = pool.lease / 3;
    let mut state = pool.lock();
    while !state.is_over {
        let now = Instant::now();
        let next = state.running.values().map(|job| job.extended_at + between).min();
        match next {
            Some(next) if next <= now => {
                let tokens: Vec<Token> = state.running.keys().copied().collect();
                drop(state);
                extend(pool, &tokens);
                state = pool.lock();
            }
            next => {
                let time = next.map(|next| next - now);
                state = pool.wait_for_keeper(state, time);
            }
        }
    }
}

fn extend(pool: &Pool, tokens: &[Token]) {
    let asked_at = Instant::now();
    match pool.queue.extend_many(tokens, pool.lease) {
        Ok(answers) => {
            for (token, answer) in tokens.iter().zip(answers) {
                match answer {
                    Ok(_) => pool.lease_extended(*token, asked_at),
                    Err(error) if is_lost(&error) => {
                        pool.lease_lost(*token);
                    }
                    Err(error) => pool.fail(error),
                }
            }
        }
        // Another connection holds the database. The leases last a while yet.
        Err(error) if matches!(error.kind(), ErrorKind::Busy { .. }) => {
            let again_at = asked_at.checked_sub(pool.lease / 4).unwrap_or(asked_at);
            for token in tokens {
                pool.lease_extended(*token, again_at);
            }
        }
        Err(error) => pool.fail(error),
    }
}

/// The job is another's, or the database was restored and does not know of the claim.
pub(super) fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LeaseLost { .. } | ErrorKind::NoSuchClaim { .. })
}
