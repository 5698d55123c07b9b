//! The effects of time and consumers on the model's jobs: ticks, claims, rates, and
//! clocks that are set.
//!
//! Stands beside `model.rs`, and is as plain. A tick goes on until nothing
//! changes any more, so no order of its parts can matter.

use super::model::{Bucket, Job, Key, Millis, Model, Outcome, Rate, Rules, Scope, State, Token};

/// By how much a clock must be set back before the queue measures times anew.
const NOTICED_MS: i64 = 1_000;

/// What the queue says of a job whose time ran out before it was claimed.
pub const EXPIRED: &str = "expired";
/// And of one whose last consumer was not heard of again.
pub const NOT_HEARD_OF: &str = "the lease of the last attempt ended without an answer";

/// What a consumer is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub token: Token,
    pub payload: String,
    pub attempt: u32,
    pub attempts_max: u32,
    pub priority: i32,
    pub group: Option<String>,
    pub lease_until_ms: Millis,
}

impl Model {
    /// What is due in the queue, done.
    fn tick(&mut self, queue: usize) {
        let now_ms = self.now_ms;
        if self.queues[queue].ticked_ms.replace(now_ms) == Some(now_ms) {
            return;
        }
        if std::mem::take(&mut self.went_back) {
            self.measure_from_now();
        }
        while self.tick_once(queue) {}
        // What was seen to be over is over, even if the clock is set back then.
        self.keys
            .retain(|held| held.queue != queue || held.until_ms.is_none_or(|end| end > now_ms));
        let rules = &self.queues[queue].rules;
        if rules.rate.is_some() || rules.group_rate.is_some() {
            self.buckets
                .retain(|bucket| bucket.queue != queue || bucket.full_at_us > now_ms * 1_000);
        }
    }

    /// One change that is due, if there is one.
    fn tick_once(&mut self, queue: usize) -> bool {
        let now_ms = self.now_ms;
        let is_due = |job: &&Job| job.due_at_ms.is_some_and(|due| due <= now_ms);
        let ours: Vec<&Job> = self.jobs.iter().filter(|job| job.queue == queue).collect();
        let in_state = |state| ours.iter().copied().filter(move |job| job.state == state);
        // In the order in which they ended: who comes back first has its key again.
        let ended = in_state(State::Leased).filter(is_due);
        let first_end = ended.min_by_key(|job| (job.due_at_ms, job.id));
        if let Some(id) = first_end.map(|job| job.id) {
            self.lease_ended(id);
            return true;
        }
        if let Some(id) = in_state(State::Delayed).find(is_due).map(|job| job.id) {
            self.job_mut(id).expect("it was just seen").state = State::Ready;
            return true;
        }
        let expired = ours.iter().copied().find(|job| {
            job.state.is_waiting() && job.new.expires_at_ms.is_some_and(|end| end <= now_ms)
        });
        if let Some(id) = expired.map(|job| job.id) {
            self.expired(id);
            return true;
        }
        let ended = ours.iter().copied().filter(|job| job.state.has_ended()).find(is_due);
        if let Some(id) = ended.map(|job| job.id) {
            self.forget(id);
            return true;
        }
        false
    }

    /// A job that the next look would bury holds no key any more, so that no new job is
    /// turned away for it. A key for a time is held all the same.
    pub(crate) fn end_holder_if_over(&mut self, queue: usize, key: &str) {
        let is_it = |held: &&Key| held.queue == queue && held.text == key;
        let held = self.keys.iter().find(is_it).filter(|held| held.scope != Scope::Time);
        let Some(job) = held.and_then(|held| self.job(held.job)) else { return };
        let (id, state, now_ms) = (job.id, job.state, self.now_ms);
        let attempts_max = job.new.attempts_max.unwrap_or(self.rules_of(id).attempts_max);
        let has_expired = job.new.expires_at_ms.is_some_and(|end| end <= now_ms);
        let is_spent = job.attempts() >= attempts_max;
        let lease_is_over =
            state == State::Leased && job.due_at_ms.is_some_and(|end| end <= now_ms);
        if lease_is_over && (has_expired || is_spent) {
            self.lease_ended(id);
        }
        if has_expired && self.job(id).is_some_and(|job| job.state.is_waiting()) {
            self.expired(id);
        }
    }

    pub(crate) fn expired(&mut self, id: i64) {
        self.job_mut(id).expect("it was just seen").error = Some(EXPIRED.to_owned());
        self.bury(id);
    }

    fn lease_ended(&mut self, id: i64) {
        let attempts_max = self.rules_of(id).attempts_max;
        let now_ms = self.now_ms;
        let job = self.job_mut(id).expect("it was just seen");
        let token = Token { job: id, claim: job.claims };
        if job.attempts() >= job.new.attempts_max.unwrap_or(attempts_max) {
            self.history.push((token, Outcome::Expired));
            let job = self.job_mut(id).expect("it was just seen");
            job.error = Some(NOT_HEARD_OF.to_owned());
            self.bury(id);
            return;
        }
        self.came_back(token, Outcome::Expired, now_ms);
    }

    /// At most `jobs_max` jobs, best first.
    pub fn claim(&mut self, queue: usize, jobs_max: usize, lease_ms: Option<i64>) -> Vec<Claimed> {
        self.tick(queue);
        if self.queues[queue].is_paused {
            return Vec::new();
        }
        let rules = self.queues[queue].rules.clone();
        let lease_ms = lease_ms.unwrap_or(rules.lease_ms);
        let mut claimed = Vec::new();
        while claimed.len() < jobs_max {
            let of_queue = self.jobs.iter().filter(|job| job.queue == queue);
            let leased = of_queue.clone().filter(|job| job.state == State::Leased).count();
            if rules.concurrency.is_some_and(|limit| leased >= limit as usize) {
                break;
            }
            let ready = of_queue.filter(|job| job.state == State::Ready);
            let best = ready.min_by_key(|job| (std::cmp::Reverse(job.new.priority), job.id));
            let Some((id, new)) = best.map(|job| (job.id, &job.new)) else { break };
            let group = new.group.clone();
            if new.expires_at_ms.is_some_and(|end| end <= self.now_ms) {
                self.expired(id);
                continue;
            }
            if let Some(group) = &group {
                let wait_us = self.wait_us(queue, Some(group), rules.group_rate);
                if wait_us > 0 {
                    let now_ms = self.now_ms;
                    let job = self.job_mut(id).expect("it was just seen");
                    job.state = State::Delayed;
                    job.due_at_ms = Some(now_ms + (wait_us + 999) / 1_000);
                    job.began_at_ms = now_ms;
                    job.is_held_off = true;
                    continue;
                }
            }
            if self.wait_us(queue, None, rules.rate) > 0 {
                break;
            }
            if let Some(group) = &group {
                self.spend(queue, Some(group), rules.group_rate);
            }
            self.spend(queue, None, rules.rate);
            claimed.push(self.lease(id, lease_ms));
        }
        claimed
    }

    fn lease(&mut self, id: i64, lease_ms: i64) -> Claimed {
        let attempts_max = self.rules_of(id).attempts_max;
        let now_ms = self.now_ms;
        self.keys.retain(|held| held.job != id || held.scope != Scope::Waiting);
        let job = self.job_mut(id).expect("it was just seen");
        job.state = State::Leased;
        job.claims += 1;
        job.due_at_ms = Some(now_ms + lease_ms);
        job.lease_ms = lease_ms;
        job.is_held_off = false;
        Claimed {
            token: Token { job: id, claim: job.claims },
            payload: job.new.payload.clone(),
            attempt: job.attempts(),
            attempts_max: job.new.attempts_max.unwrap_or(attempts_max),
            priority: job.new.priority,
            group: job.new.group.clone(),
            lease_until_ms: now_ms + lease_ms,
        }
    }

    /// How long until a bucket has a job's worth again; 0 if it has now.
    ///
    /// The bucket holds `jobs` and gets one more each `per / jobs`, so it is known
    /// by the moment at which it will be full: each job puts that moment off by
    /// as much. No bucket is emptier than empty, whatever clocks were set to.
    fn wait_us(&self, queue: usize, group: Option<&str>, rate: Option<Rate>) -> i64 {
        let Some(rate) = rate else { return 0 };
        let full_in_us = self.full_in_us(queue, group, rate);
        (full_in_us + interval_us(rate) - interval_us(rate) * i64::from(rate.jobs)).max(0)
    }

    fn full_in_us(&self, queue: usize, group: Option<&str>, rate: Rate) -> i64 {
        let is_it = |bucket: &&Bucket| bucket.queue == queue && bucket.group.as_deref() == group;
        let full_at_us = self.buckets.iter().find(is_it).map_or(0, |bucket| bucket.full_at_us);
        let whole_us = interval_us(rate) * i64::from(rate.jobs);
        (full_at_us - self.now_ms * 1_000).clamp(0, whole_us)
    }

    fn spend(&mut self, queue: usize, group: Option<&str>, rate: Option<Rate>) {
        let Some(rate) = rate else { return };
        let full_in_us = self.full_in_us(queue, group, rate) + interval_us(rate);
        let full_at_us = self.now_ms * 1_000 + full_in_us;
        self.buckets.retain(|bucket| bucket.queue != queue || bucket.group.as_deref() != group);
        let group = group.map(str::to_owned);
        self.buckets.push(Bucket { queue, group, full_at_us });
    }

    /// Jobs that an old rate of groups held off go at once, and no bucket of a new rate is emptier
    /// than empty.
    pub(crate) fn rates_changed(&mut self, queue: usize, before: &Rules) {
        let (now_ms, rules) = (self.now_ms, self.queues[queue].rules.clone());
        let is_held_off =
            |job: &&mut Job| job.queue == queue && job.is_held_off && job.state == State::Delayed;
        if rules.group_rate != before.group_rate {
            for job in self.jobs.iter_mut().filter(is_held_off) {
                (job.state, job.due_at_ms) = (State::Ready, Some(now_ms));
            }
        }
        for bucket in self.buckets.iter_mut().filter(|bucket| bucket.queue == queue) {
            let of_group = (rules.group_rate, before.group_rate);
            let (rate, old) = bucket.group.as_ref().map_or((rules.rate, before.rate), |_| of_group);
            if let Some(rate) = rate.filter(|_| rate != old) {
                let whole_us = interval_us(rate) * i64::from(rate.jobs);
                bucket.full_at_us = bucket.full_at_us.min(now_ms * 1_000 + whole_us);
            }
        }
    }

    /// Another process goes on, and does not know what the clock showed before.
    pub fn reopen(&mut self) {
        (self.latest_ms, self.went_back) = (self.now_ms, false);
        self.measure_from_now();
        for queue in &mut self.queues {
            queue.ticked_ms = None;
        }
    }

    /// Time goes by, or the clock is set. If it was set back by more than a second, the next
    /// look for due jobs measures anew.
    pub fn move_clock(&mut self, step_ms: i64) {
        self.now_ms += step_ms;
        if self.now_ms < self.latest_ms - NOTICED_MS {
            self.went_back = true;
            self.latest_ms = self.now_ms;
        }
        self.latest_ms = self.latest_ms.max(self.now_ms);
    }

    /// Corrects the times after the clock was set back. What began more than a second from now
    /// begins now: a lease, a retry's delay, what a group's rate holds off. A bucket that is full
    /// more than a period and a second from now is full a period from now. A due time that a
    /// caller gave stays.
    fn measure_from_now(&mut self) {
        let now_ms = self.now_ms;
        let bounded = |end_ms: i64, time_ms: i64| {
            let is_far = end_ms > now_ms + time_ms + NOTICED_MS;
            if is_far { now_ms + time_ms } else { end_ms }
        };
        for job in &mut self.jobs {
            if job.state == State::Leased {
                job.due_at_ms = job.due_at_ms.map(|end_ms| bounded(end_ms, job.lease_ms));
            }
            let is_ours = job.state == State::Delayed && (job.claims > 0 || job.is_held_off);
            if is_ours && job.began_at_ms > now_ms + NOTICED_MS {
                job.due_at_ms = job.due_at_ms.map(|due| now_ms + due - job.began_at_ms);
                job.began_at_ms = now_ms;
            }
        }
        for bucket in &mut self.buckets {
            let rules = &self.queues[bucket.queue].rules;
            let rate = if bucket.group.is_some() { rules.group_rate } else { rules.rate };
            let per_ms = rate.map_or(0, |rate| rate.per_ms);
            if bucket.full_at_us > (now_ms + per_ms + NOTICED_MS) * 1_000 {
                bucket.full_at_us = (now_ms + per_ms) * 1_000;
            }
        }
    }
}

fn interval_us(rate: Rate) -> i64 {
    rate.per_ms * 1_000 / i64::from(rate.jobs)
}
