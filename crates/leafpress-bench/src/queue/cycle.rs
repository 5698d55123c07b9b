//! One rung of clients: opens the keeper's new database, fills it where jobs must wait
//! already, lets the clients work, and closes it outside of the time taken.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::clients::{self, Worked};
use super::jobs::Tally;
use super::ours::{self, QueueClient};
use super::sql::{self, Access, SqlClient};
use super::{CycleRung, Keeper, Part};
use crate::commits::SlowedSyncs;
use crate::error::{Error, Result};
use crate::rung::RungResult;
use crate::usage::Usage;

/// The client that pushed what waits beforehand.
pub(super) const FILLER: u32 = 1 << 20;

/// Does the rung's work and measures it.
pub(super) fn run(rung: CycleRung, database: &Path) -> Result<RungResult> {
    let slowed = SlowedSyncs::by(Duration::from_micros(u64::from(rung.sync_delay_us)))?;
    let vfs = slowed.as_ref().map(SlowedSyncs::name);
    let waiting = if rung.part == Part::ClaimAck { rung.jobs } else { 0 };
    match rung.by {
        Keeper::Leafpress => {
            let opened = ours::open(rung.safety, database, vfs)?;
            let tally = opened.fill(waiting)?;
            let make = |_| Ok(QueueClient::new(opened.queue.clone()));
            let result = measure(&rung, make, tally)?;
            opened.close()?;
            Ok(result)
        }
        Keeper::SqlMutex => {
            let connection = sql::create(database, rung.safety, vfs)?;
            let tally = sql::fill(&connection, waiting)?;
            let connection = Arc::new(Mutex::new(connection));
            let make = |_| Ok(SqlClient::new(Access::Shared(Arc::clone(&connection))));
            let result = measure(&rung, make, tally)?;
            // The clients are gone, so nobody else has it.
            let connection = Arc::into_inner(connection).ok_or_else(still_held)?;
            sql::close(connection.into_inner().unwrap_or_else(PoisonError::into_inner))?;
            Ok(result)
        }
        Keeper::SqlConnections => {
            let connection = sql::create(database, rung.safety, vfs)?;
            let tally = sql::fill(&connection, waiting)?;
            let open = || sql::open(database, rung.safety, vfs);
            let make = |_| Ok(SqlClient::new(Access::Own(open()?)));
            let result = measure(&rung, make, tally)?;
            // The last one moves what is left in the log.
            sql::close(connection)?;
            Ok(result)
        }
    }
}

fn still_held() -> Error {
    Error::Rung { name: "queue".to_owned(), reason: "a client did not end".to_owned() }
}

fn measure<C: clients::Client + Send>(
    rung: &CycleRung,
    make: impl Fn(u32) -> Result<C>,
    waiting: Tally,
) -> Result<RungResult> {
    let clients = (0..rung.clients.max(1)).map(make).collect::<Result<Vec<C>>>()?;
    let before = Usage::now();
    let Worked { jobs, recording, wall } = clients::run(rung, clients, waiting)?;
    let used = Usage::now().since(before);
    Ok(RungResult {
        wall_s: wall.as_secs_f64(),
        rows: jobs,
        latency_us: recording.latency(),
        jobs_waiting_before: waiting.jobs,
        ..RungResult::of(used)
    })
}
