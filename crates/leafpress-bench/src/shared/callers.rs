//! The callers of a member: threads that begin at the same moment, and call one call after the
//! other until the time is up.
//!
//! A call that is refused ("database is locked", a timeout) is made again at once, as an
//! application would, and counted. Its time runs from the first attempt to the answer.
//!
//! Must never: begin a call after the time is up, or end before a call that was begun is done.

use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

use super::rung::SharedRung;
use crate::error::{Error, Result};
use crate::recording::Recording;

/// A thread that makes calls.
pub(super) trait Caller {
    /// Makes the call of this number, from 0; adds the attempts that were refused.
    fn call(&mut self, n: u64, refused: &mut u64) -> Result<()>;
}

/// Work of the callers.
#[derive(Debug, Default)]
pub(super) struct Called {
    /// Time of each call that was acknowledged.
    pub(super) recording: Recording,
    /// Attempts that were refused.
    pub(super) refused: u64,
    /// From the first call to the last answer.
    pub(super) wall: Duration,
}

/// Runs the callers from the same moment on, and gives them back.
pub(super) fn run<C: Caller + Send>(rung: &SharedRung, callers: &mut [C]) -> Result<Called> {
    let all_ready = Barrier::new(callers.len().max(1));
    let epoch = OnceLock::new();
    let outcomes: Vec<Result<Called>> = thread::scope(|scope| {
        let (all_ready, epoch) = (&all_ready, &epoch);
        let start = |caller| {
            scope.spawn(move || {
                all_ready.wait();
                calls(rung, caller, *epoch.get_or_init(Instant::now))
            })
        };
        let threads: Vec<_> = callers.iter_mut().map(start).collect();
        let panicked = || Error::rung(rung.name(), "a caller panicked");
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
            .collect()
    });
    let mut all = Called::default();
    for outcome in outcomes {
        let Called { recording, refused, wall } = outcome?;
        all.recording.append(recording);
        all.refused += refused;
        all.wall = all.wall.max(wall);
    }
    Ok(all)
}

/// One caller's calls.
fn calls(rung: &SharedRung, caller: &mut impl Caller, epoch: Instant) -> Result<Called> {
    /// More room is made when it is needed.
    const CALLS_FORESEEN: u64 = 1 << 16;
    let mut recording = Recording::with_capacity(CALLS_FORESEEN);
    let mut refused = 0;
    let time_is_up = epoch + Duration::from_millis(rung.milliseconds_max);
    for n in 0.. {
        let start = Instant::now();
        if start > time_is_up {
            break;
        }
        caller.call(n, &mut refused)?;
        recording.acknowledged(epoch, start);
    }
    Ok(Called { recording, refused, wall: epoch.elapsed() })
}

/// Attempts a call until it is not refused.
pub(super) fn until_taken<T>(
    refused: &mut u64,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    loop {
        match attempt() {
            Err(error) if is_refusal(&error) => *refused += 1,
            outcome => return outcome,
        }
    }
}

/// Returns true if nothing of the call was done, and another attempt may succeed.
pub(super) fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Load(error) => error.is_retryable(),
        Error::Sqlite { source, .. } => matches!(
            source.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        ),
        _ => false,
    }
}
