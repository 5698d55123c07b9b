//! A member: a process that opens the database, waits for "go", lets its callers work, and answers.
//!
//! Must never: outlive the rung's process, whose end closes the member's stdin.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;
use std::{process, thread};

use leafpress::queue::Queue;

use super::callers::{self, Called};
use super::rung::{Access, SharedRung, Work};
use super::{ours, rivals};
use crate::error::{Error, Result};
use crate::queue::{QUEUE_NAME, QueueClient};
use crate::rung::result::{MemberWork, RungResult};
use crate::syncs::SlowedSyncs;
use crate::usage::Usage;

/// Line of a member that may begin, and the line that lets it.
pub(super) const READY: &str = "ready";
pub(super) const GO: &str = "go";

/// Does the work of a member.
pub(super) fn run(rung: SharedRung, index: u32, database: &Path) -> Result<RungResult> {
    let slowed = SlowedSyncs::by(Duration::from_micros(u64::from(rung.sync_delay_us)))?;
    let vfs = slowed.as_ref().map(SlowedSyncs::name);
    let numbers = (0..rung.callers.max(1)).map(|it| rung.caller(index, it));
    match rung.access {
        Access::Shared | Access::Unshared => {
            let writer = ours::open(&rung, database, vfs)?;
            let (mut result, mut work) = match rung.work {
                Work::Rows => {
                    let callers = numbers.map(|it| ours::Inserting::new(&writer, it));
                    measure(&rung, &mut callers.collect::<Vec<_>>())?
                }
                Work::Jobs => {
                    let queue = Queue::open(&writer, QUEUE_NAME)?;
                    let client = |it| ours::Cycling::new(QueueClient::new(queue.clone()), it);
                    let mut clients: Vec<_> = numbers.map(client).collect();
                    let (result, mut work) = measure(&rung, &mut clients)?;
                    let sums = clients.iter().map(|client| client.sums);
                    work.jobs_sums = sums.fold([0; 2], ours::plus);
                    (result, work)
                }
            };
            if let Some(sharing) = writer.stats().sharing {
                work.syncs = Some(sharing.own_syncs + sharing.lonely_syncs);
                let cannot = |why| format!("Writers cannot share a database here: {why}");
                result.not_given = sharing.why_not.map(cannot);
            }
            writer.close()?;
            Ok(RungResult { member: Some(work), ..result })
        }
        Access::BusyTimeout | Access::Retries | Access::MutexFile => {
            if rung.work == Work::Jobs {
                return Err(Error::wrong_rival(rung.name()));
            }
            let open = |it| rivals::Inserting::open(&rung, database, vfs, it);
            let mut callers = numbers.map(open).collect::<Result<Vec<_>>>()?;
            let (result, work) = measure(&rung, &mut callers)?;
            callers.into_iter().try_for_each(rivals::Inserting::close)?;
            Ok(RungResult { member: Some(work), ..result })
        }
    }
}

/// Waits for "go", and lets the callers work.
fn measure<C: callers::Caller + Send>(
    rung: &SharedRung,
    callers: &mut [C],
) -> Result<(RungResult, MemberWork)> {
    wait_for_go(rung)?;
    let before = Usage::now();
    let Called { recording, refused, wall } = callers::run(rung, callers)?;
    let used = Usage::now().since(before);
    let rows = recording.calls();
    let work =
        MemberWork { took_tenths_us: recording.took_tenths_us(), refused, ..MemberWork::default() };
    let used = RungResult::of(used);
    Ok((RungResult { wall_s: wall.as_secs_f64(), rows, io: None, ..used }, work))
}

fn wait_for_go(rung: &SharedRung) -> Result<()> {
    let talk = || -> io::Result<String> {
        let mut out = io::stdout();
        writeln!(out, "{READY}")?;
        out.flush()?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        Ok(line)
    };
    let line = talk().map_err(|error| Error::rung(rung.name(), error.to_string()))?;
    if line.trim_end() != GO {
        return Err(Error::rung(rung.name(), "the process that started this one is gone"));
    }
    thread::spawn(|| {
        // Nothing more is written to it: it ends with the rung's process.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        process::exit(1);
    });
    Ok(())
}
