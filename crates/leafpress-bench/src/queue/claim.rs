//! What a claim takes among many jobs, by the Queue.
//!
//! Only claims are timed. After each, its jobs are acknowledged and as many new ones are
//! pushed, so that as many wait before every claim.

use std::path::Path;
use std::time::{Duration, Instant};

use super::ClaimRung;
use super::clients::Client as _;
use super::jobs::JobNumber;
use super::ours::{self, QueueClient};
use crate::commits::record::Recording;
use crate::error::{Error, Result};
use crate::rung::RungResult;
use crate::usage::Usage;

/// Claims before the first that is measured, which finds its pages in no cache.
const WARM_UP: u64 = 20;

/// Does the rung's work and measures it.
pub(super) fn run(rung: ClaimRung, database: &Path) -> Result<RungResult> {
    let opened = ours::open(rung.safety, database, None)?;
    let mut client = QueueClient::new(opened.queue.clone());
    let batch = rung.batch.max(1) as usize;
    let mut recording = Recording::with_capacity(rung.claims);
    let (mut wall, mut jobs, mut next) = (Duration::ZERO, Vec::with_capacity(batch), 0);
    let epoch = Instant::now();
    for n in 0..WARM_UP + rung.claims {
        jobs.clear();
        let start = Instant::now();
        client.claim(batch, &mut jobs)?;
        if n >= WARM_UP {
            recording.acknowledged(epoch, start);
            wall += start.elapsed();
        }
        if jobs.len() != batch {
            let name = super::QueueRung::Claim(rung).name();
            let (found, expected) = (format!("{} jobs", jobs.len()), format!("{batch} jobs"));
            return Err(Error::Unequal { name, found, expected });
        }
        client.acknowledge()?;
        for job in &mut jobs {
            *job = JobNumber::of(0, next);
            next += 1;
        }
        client.push(&jobs)?;
    }
    drop(client);
    // Processor time and I/O are also those of what is not timed.
    let used = Usage { cpu_s: None, io: None, ..Usage::now() };
    opened.close()?;
    Ok(RungResult {
        wall_s: wall.as_secs_f64(),
        rows: recording.calls() * batch as u64,
        latency_us: recording.latency(),
        ..RungResult::of(used)
    })
}
