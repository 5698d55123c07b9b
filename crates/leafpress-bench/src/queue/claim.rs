//! Time of a claim among many jobs, by the Queue.
//!
//! Only claims are timed. After each, its jobs are acknowledged and as many new ones are
//! pushed, so that as many wait before every claim.

use std::path::Path;
use std::time::{Duration, Instant};

use super::check;
use super::clients::Client as _;
use super::jobs::JobNumber;
use super::ours::{self, QueueClient};
use super::rung::{ClaimRung, LOGS_MB, jobs_mb};
use crate::bound::syncs_of_commits;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;
use crate::recording::Recording;
use crate::report::Safety;
use crate::rung::described::{Described, Fixture, Found, Given, Left, Topic};
use crate::rung::result::RungResult;
use crate::usage::{Usage, cpu_now};

/// Claims before the first that is measured, which finds its pages in no cache.
const WARM_UP: u64 = 20;

impl Described for ClaimRung {
    fn name(&self) -> String {
        let of = if self.batch == 1 { String::new() } else { format!(" {}", self.batch) };
        format!("{}, leafpress, claim{of}, {}", self.safety.name(), self.among.name())
    }

    fn chart(&self) -> String {
        let of = if self.batch == 1 { String::new() } else { format!(" of {}", self.batch) };
        let promise = if self.safety == Safety::Relaxed { "" } else { ", durable" };
        format!("claims{of} among many jobs{promise}")
    }

    fn label(&self) -> String {
        self.among.name()
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn safety(&self) -> Safety {
        self.safety
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::Jobs)
    }

    fn room_mb(&self, _: u64) -> u64 {
        LOGS_MB + jobs_mb(self.among.jobs())
    }

    fn fixture(&self) -> Option<Fixture> {
        let among = self.among;
        let make = Box::new(move |database: &Path| among.make(database));
        Some(Fixture { name: among.name(), room_mb: jobs_mb(among.jobs()), make })
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        run(*self, given.database)
    }

    fn check(&self, _: &RungResult, found: &Found<'_>) -> Result<Left> {
        let jobs = [self.among.waiting, self.among.leased, self.among.delayed];
        let journal_mode = Pragmas::of(self.safety).journal_left();
        check::jobs(check::OUR_TABLE, jobs, None, journal_mode, found.database)
    }
}

/// Does the rung's work and measures it.
fn run(rung: ClaimRung, database: &Path) -> Result<RungResult> {
    let opened = ours::open(rung.safety, database, None)?;
    let mut client = QueueClient::new(opened.queue.clone());
    let batch = rung.batch.max(1) as usize;
    let mut recording = Recording::with_capacity(rung.claims);
    let (mut wall, mut jobs, mut next) = (Duration::ZERO, Vec::with_capacity(batch), 0);
    let mut cpu = Some(Duration::ZERO);
    let epoch = Instant::now();
    for n in 0..WARM_UP + rung.claims {
        jobs.clear();
        let cpu_before = cpu_now();
        let start = Instant::now();
        client.claim(batch, &mut jobs)?;
        if n >= WARM_UP {
            recording.acknowledged(epoch, start);
            wall += start.elapsed();
            let used = cpu_now().zip(cpu_before).map(|(now, before)| now.saturating_sub(before));
            cpu = cpu.zip(used).map(|(sum, used)| sum + used);
        }
        if jobs.len() != batch {
            let name = rung.name();
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
    // The process's I/O is also that of what is not timed.
    let used = Usage { cpu_s: cpu.map(|cpu| cpu.as_secs_f64()), io: None, ..Usage::now() };
    opened.close()?;
    Ok(RungResult {
        wall_s: wall.as_secs_f64(),
        rows: recording.calls() * batch as u64,
        latency_us: recording.latency(),
        syncs: Some(syncs_of_commits(rung.safety, recording.calls())),
        ..RungResult::of(used)
    })
}
