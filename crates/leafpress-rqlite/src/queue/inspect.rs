//! Views of a queue on a cluster: its jobs, one job, the ends of its attempts. Read at the leader.
//!
//! Must never: write.

use leafpress::Result;
use leafpress::queue::elsewhere;
use leafpress::queue::{Attempt, JobInfo, JobState, ListOptions, Payload};
use leafpress::rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use super::group::payload;
use super::{RqliteQueue, confused, sql};

impl RqliteQueue {
    /// The job of this number, if this queue has it: all that is known of it.
    ///
    /// # Errors
    /// If the cluster cannot be read.
    pub fn job(&self, id: i64) -> Result<Option<JobInfo>> {
        Ok(self.jobs(&[id], true)?.pop())
    }

    /// A page of jobs, in the order of pushes. It may look at an index entry for each job of the states.
    ///
    /// # Errors
    /// If the cluster cannot be read.
    pub fn list(&self, options: &ListOptions) -> Result<Vec<JobInfo>> {
        let listed = elsewhere::listed(options);
        let mut jobs = self.jobs(&self.ids(options)?, listed.with_payload)?;
        jobs.sort_unstable_by_key(|job| job.id);
        if listed.newest_first {
            jobs.reverse();
        }
        Ok(jobs)
    }

    /// The attempts of this job, in order; the one that is running, too. None if the job was never
    /// claimed, or is gone.
    ///
    /// # Errors
    /// If the cluster cannot be read.
    pub fn history(&self, id: i64) -> Result<Vec<Attempt>> {
        let Some(job) = self.jobs(&[id], false)?.pop() else { return Ok(Vec::new()) };
        let found = self.queues.read(vec![json!([elsewhere::ATTEMPTS, id])])?;
        let rows = found.into_iter().next().unwrap_or_default();
        elsewhere::history(
            job,
            rows.iter().map(sql_values).collect::<Option<_>>().ok_or_else(confused)?,
        )
    }

    /// The ids of jobs, the smallest first.
    pub(super) fn ids(&self, options: &ListOptions) -> Result<Vec<i64>> {
        let listed = elsewhere::listed(options);
        let (order, from) = match (listed.newest_first, listed.after_id) {
            (false, after) => ("ASC", after.unwrap_or(i64::MIN)),
            (true, after) => ("DESC", after.unwrap_or(i64::MAX)),
        };
        let states = JobState::ALL.into_iter().filter(|state| listed.states.contains(state));
        let mut parts: Vec<_> = states.map(|state| ids_of(&jobs_in(state), order)).collect();
        if parts.len() == JobState::ALL.len() {
            parts = vec![ids_of("leafpress_job WHERE queue = ?1", order)];
        }
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let parts = parts.join(" UNION ALL ");
        // One text, as there may be millions.
        let sql =
            format!("SELECT json_group_array(id) FROM ({parts} ORDER BY id {order} LIMIT ?4)");
        let limit = i64::try_from(listed.limit).unwrap_or(i64::MAX);
        let found = self.queues.read(vec![json!([sql, self.id, from, listed.group, limit])])?;
        let text = found.first().and_then(|rows| rows.first()?.get(0)?.as_str());
        let ids = text.and_then(|text| serde_json::from_str(text).ok());
        let mut ids: Vec<i64> = ids.ok_or_else(confused)?;
        ids.sort_unstable();
        Ok(ids)
    }

    fn jobs(&self, ids: &[i64], with_values: bool) -> Result<Vec<JobInfo>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let (columns, ids) = (elsewhere::JOB_COLUMNS, json!(ids).to_string());
        let values = if with_values { sql::VALUES } else { "NULL, NULL" };
        let sql = format!(
            "SELECT {columns}, {values} FROM leafpress_job AS job
             JOIN leafpress_queue AS queue ON queue.id = job.queue
             WHERE job.id IN (SELECT value FROM json_each(?1)) AND job.queue = ?2"
        );
        let found = self.queues.read(vec![json!([sql, ids, self.id])])?;
        let rows = found.first().into_iter().flatten().map(job_values);
        elsewhere::jobs(rows.collect::<Option<_>>().ok_or_else(confused)?)
    }
}

/// A query of ids: ?2 the job behind which it begins, ?3 the ordering group, ?4 jobs at most.
fn ids_of(from: &str, order: &str) -> String {
    let comparison = if order == "ASC" { ">" } else { "<" };
    format!(
        "SELECT id FROM (SELECT id FROM {from} AND id {comparison} ?2
             AND (?3 IS NULL OR ordering_group = ?3) ORDER BY id {order} LIMIT ?4)"
    )
}

/// The jobs of a state in the queue ?1, by the index of that state.
fn jobs_in(state: JobState) -> String {
    // SQLite takes a partial index for a query that repeats its condition.
    let (index, condition) = match state {
        JobState::Done | JobState::Dead => ("ended", " AND state IN (4, 5)"),
        JobState::Ready => ("ready", ""),
        JobState::Leased => ("leased", ""),
        JobState::Delayed => ("delayed", ""),
        _ => ("blocked", ""),
    };
    let number = state.number();
    format!(
        "leafpress_job INDEXED BY leafpress_job_{index}
             WHERE queue = ?1 AND state = {number}{condition}"
    )
}

/// The values of a row of a job, of which the last two are texts.
fn job_values(row: &Value) -> Option<Vec<Sql>> {
    let mut values = sql_values(row)?;
    // The result and the payload.
    for value in values.iter_mut().rev().take(2) {
        if let Sql::Text(text) = value {
            *value = match payload(text)? {
                Payload::Json(text) => Sql::Text(text),
                Payload::Bytes(bytes) => Sql::Blob(bytes),
            };
        }
    }
    Some(values)
}

fn sql_values(row: &Value) -> Option<Vec<Sql>> {
    let value = |value: &Value| {
        Some(match value {
            Value::Null => Sql::Null,
            Value::String(text) => Sql::Text(text.clone()),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Sql::Integer(integer),
                None => Sql::Real(number.as_f64()?),
            },
            _ => return None,
        })
    };
    row.as_array()?.iter().map(value).collect()
}
