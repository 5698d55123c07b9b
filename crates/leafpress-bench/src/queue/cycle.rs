//! One rung of clients: opens the keeper's new database, fills it where jobs must wait
//! already, lets the clients work, and closes it outside of the time taken.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::check;
use super::clients::{self, Worked};
use super::jobs::Tally;
use super::ours::{self, QueueClient};
use super::rung::{CycleRung, Keeper, LOGS_MB, Part, jobs_mb};
use super::sql::{self, Access, SqlClient};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;
use crate::report::Safety;
use crate::rung::described::{Described, Found, Given, Left, Topic};
use crate::rung::result::RungResult;
use crate::syncs::SlowedSyncs;
use crate::usage::Usage;

/// Jobs that are on the disk at a time, at most: those of a cycle are gone when they are done, and
/// those of a push are no more than this in its time.
const JOBS_ON_DISK_MAX: u64 = 1_000_000;

impl Described for CycleRung {
    fn name(&self) -> String {
        Self::name(self)
    }

    /// Of a part alone there is only the Queue: its numbers of clients are compared.
    fn chart(&self) -> String {
        let what = match self.part {
            Part::Push => "jobs pushed",
            Part::ClaimAck => "jobs claimed and acknowledged",
            Part::Cycle => "jobs, the whole cycle",
        };
        let batch =
            if self.batch == 1 { String::new() } else { format!(", {} a call", self.batch) };
        let slow = if self.sync_delay_us == 0 { "" } else { ", slower syncs" };
        let clients = match self.part {
            Part::Push | Part::ClaimAck => String::new(),
            Part::Cycle => format!(", {}", clients_in_words(self.clients)),
        };
        format!("{what}{batch}{clients}, {}{slow}", self.safety.name())
    }

    fn label(&self) -> String {
        match self.part {
            Part::Push | Part::ClaimAck => {
                format!("{}, {}", self.by.label(), clients_in_words(self.clients))
            }
            Part::Cycle => self.by.label().to_owned(),
        }
    }

    fn is_ours(&self) -> bool {
        self.by == Keeper::Leafpress
    }

    fn safety(&self) -> Safety {
        self.safety
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::Jobs)
    }

    fn room_mb(&self, _: u64) -> u64 {
        LOGS_MB + jobs_mb(self.jobs.min(JOBS_ON_DISK_MAX))
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        run(*self, given.database)
    }

    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left> {
        let (ready, pushed) = match self.part {
            Part::Push => (result.rows, result.rows),
            Part::ClaimAck => {
                let pushed = result.jobs_waiting_before;
                (pushed - result.rows.min(pushed), pushed)
            }
            Part::Cycle => (0, result.rows),
        };
        let table = if self.is_ours() { check::OUR_TABLE } else { check::SQL_TABLE };
        let journal_mode = Pragmas::of(self.safety).journal_left();
        check::jobs(table, [ready, 0, 0], Some(pushed), journal_mode, found.database)
    }
}

fn clients_in_words(clients: u32) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

/// Does the rung's work and measures it.
fn run(rung: CycleRung, database: &Path) -> Result<RungResult> {
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
            // The clients are gone, so none of them has it.
            let connection = Arc::into_inner(connection).ok_or_else(still_held)?;
            connect::close(connection.into_inner().unwrap_or_else(PoisonError::into_inner))?;
            Ok(result)
        }
        Keeper::SqlConnections => {
            let connection = sql::create(database, rung.safety, vfs)?;
            let tally = sql::fill(&connection, waiting)?;
            let open = || sql::open(database, rung.safety, vfs);
            let make = |_| Ok(SqlClient::new(Access::Own(open()?)));
            let result = measure(&rung, make, tally)?;
            // The last one moves what is left in the log.
            connect::close(connection)?;
            Ok(result)
        }
    }
}

fn still_held() -> Error {
    Error::rung("queue", "a client did not end")
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
