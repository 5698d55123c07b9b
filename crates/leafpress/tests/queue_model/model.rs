//! The promises of a queue, carried out on a list of jobs that is searched from
//! end to end: no index, no cache, no disk.
//!
//! It is written from docs/queue.md, and must never be corrected by reading the
//! queue's own code: where the two differ, one of them is wrong.
//!
//! 1. A job's id is never given twice and never falls.
//! 2. A group never has more open jobs (ready, leased or delayed) than its
//!    queue allows, and none is blocked while there is room.
//! 3. A key is held by a job, or until a moment.
//!
//! `claiming.rs` has what time and consumers do to the jobs: ticks, claims,
//! rates. Here is what callers ask for by name.

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Ready,
    Leased,
    Delayed,
    Blocked,
    Done,
    Dead,
}

impl State {
    /// Ready, delayed or blocked: what can expire.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Ready | Self::Delayed | Self::Blocked)
    }

    /// What takes up a place of its group.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Ready | Self::Delayed | Self::Leased)
    }

    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Dead)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Waiting,
    WaitingOrRunning,
    Time,
}

/// So many jobs in so many milliseconds, and as many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub jobs: u32,
    pub per_ms: i64,
}

/// What a queue is told to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    pub lease_ms: i64,
    pub attempts_max: u32,
    pub backoff_first_ms: i64,
    pub backoff_factor: f64,
    pub backoff_max_ms: i64,
    pub jitter: f64,
    pub keep_done_ms: i64,
    pub keep_dead_ms: Option<i64>,
    pub concurrency: Option<u32>,
    pub group_concurrency: u32,
    pub rate: Option<Rate>,
    pub group_rate: Option<Rate>,
}

/// A job as it is pushed; times are still those of its caller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewJob {
    pub payload: String,
    pub priority: i32,
    /// When it may run, if not at once.
    pub due_at_ms: Option<Millis>,
    pub group: Option<String>,
    pub unique: Option<Unique>,
    pub attempts_max: Option<u32>,
    pub expires_at_ms: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    pub key: String,
    pub scope: Scope,
    /// Only where the scope is a time.
    pub held_ms: Option<i64>,
}

#[derive(Debug, Clone)]
pub struct Job {
    pub id: i64,
    pub queue: usize,
    pub state: State,
    /// Ready, delayed, blocked: when it may run. Leased: when the lease ends.
    /// Done, dead: when it is purged.
    pub due_at_ms: Option<Millis>,
    /// True if it was due when it last became blocked: then it is due, whatever clocks are set to.
    pub was_due: bool,
    /// How long the last lease was.
    pub lease_ms: i64,
    /// When it ended, or the wait for a retry or a group's rate began, by the clock of then.
    pub began_at_ms: Millis,
    /// True from when a group's rate has held it off until it is claimed.
    pub is_held_off: bool,
    pub claims: u32,
    pub releases: u32,
    pub error: Option<String>,
    pub result: Option<String>,
    pub new: NewJob,
}

impl Job {
    pub fn attempts(&self) -> u32 {
        self.claims - self.releases
    }
}

/// A key and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub queue: usize,
    pub text: String,
    pub job: i64,
    pub scope: Scope,
    pub held_ms: Option<i64>,
    pub until_ms: Option<Millis>,
}

/// Proof of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    pub job: i64,
    pub claim: u32,
}

/// How a claim ended, for those who come late with its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Expired,
    ClaimedAgain,
    Settled,
    GivenBack,
    /// No claim was ever given that token.
    NeverGiven,
}

/// What the history of a job says of a claim that did not end in an ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Retried,
    Released,
    Expired,
    Failed,
}

/// What becomes of a job that was given back as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Some time between these, both included.
    Between(Millis, Millis),
    Dead,
}

#[derive(Debug, Clone)]
pub struct QueueState {
    pub rules: Rules,
    pub is_paused: bool,
    /// A queue looks at what is due once in a millisecond.
    pub(crate) ticked_ms: Option<Millis>,
}

/// When a bucket will be full again, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    pub queue: usize,
    /// None: the queue's own.
    pub group: Option<String>,
    pub full_at_us: i64,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub now_ms: Millis,
    /// The latest moment that was seen since the clock was last found set back.
    pub(crate) latest_ms: Millis,
    pub(crate) went_back: bool,
    pub queues: Vec<QueueState>,
    /// All that have a row, by id.
    pub jobs: Vec<Job>,
    pub keys: Vec<Key>,
    pub buckets: Vec<Bucket>,
    /// The application's rows: each names the job that was pushed with it.
    pub notes: Vec<i64>,
    /// How claims ended, but for acks.
    pub history: Vec<(Token, Outcome)>,
    pub(crate) last_id: i64,
}

impl Model {
    pub fn new(now_ms: Millis, queues: impl IntoIterator<Item = Rules>) -> Self {
        let queues =
            queues.into_iter().map(|rules| QueueState { rules, is_paused: false, ticked_ms: None });
        Self {
            now_ms,
            latest_ms: now_ms,
            went_back: false,
            queues: queues.collect(),
            jobs: Vec::new(),
            keys: Vec::new(),
            buckets: Vec::new(),
            notes: Vec::new(),
            history: Vec::new(),
            last_id: 0,
        }
    }

    pub fn job(&self, id: i64) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    pub(crate) fn job_mut(&mut self, id: i64) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    /// The id of the new job, or of the one that has its key already.
    pub fn push(&mut self, queue: usize, new: NewJob) -> (i64, bool) {
        if let Some(unique) = &new.unique {
            self.end_holder_if_over(queue, &unique.key);
            self.measure_key_from_now(queue, &unique.key);
            if let Some(holder) = self.holder(queue, &unique.key) {
                return (holder, false);
            }
            self.take_key(queue, self.last_id + 1, unique);
        }
        self.last_id += 1;
        let id = self.last_id;
        let job = Job {
            id,
            queue,
            state: State::Blocked,
            due_at_ms: Some(new.due_at_ms.unwrap_or(self.now_ms)),
            was_due: false,
            lease_ms: 0,
            began_at_ms: self.now_ms,
            is_held_off: false,
            claims: 0,
            releases: 0,
            error: None,
            result: None,
            new,
        };
        self.jobs.push(job);
        self.block(id);
        self.let_in(id);
        (id, true)
    }

    /// A key is held no longer than its time from now, whatever the clock showed before.
    fn measure_key_from_now(&mut self, queue: usize, key: &str) {
        let now_ms = self.now_ms;
        for held in self.keys.iter_mut().filter(|held| held.queue == queue && held.text == key) {
            held.until_ms = held.until_ms.min(held.held_ms.map(|held_ms| now_ms + held_ms));
        }
    }

    /// Who holds the key now.
    pub fn holder(&self, queue: usize, key: &str) -> Option<i64> {
        let mut held = self.keys.iter().filter(|held| held.queue == queue && held.text == key);
        held.find(|held| held.until_ms.is_none_or(|until| until > self.now_ms)).map(|held| held.job)
    }

    pub(crate) fn open_in_group(&self, queue: usize, group: &str) -> usize {
        let is_open = |job: &&Job| {
            job.queue == queue && job.new.group.as_deref() == Some(group) && job.state.is_open()
        };
        self.jobs.iter().filter(is_open).count()
    }

    /// It waits behind its group.
    fn block(&mut self, id: i64) {
        let now_ms = self.now_ms;
        let job = self.job_mut(id).expect("it was just looked up");
        if job.state == State::Ready {
            job.due_at_ms = job.due_at_ms.map(|due| due.min(now_ms));
        }
        job.was_due = job.due_at_ms.is_none_or(|due| due <= now_ms);
        job.state = State::Blocked;
    }

    /// A blocked job becomes ready or delayed if its group has room.
    fn let_in(&mut self, id: i64) {
        let now_ms = self.now_ms;
        let job = self.job(id).expect("it was just looked up");
        let limit = self.queues[job.queue].rules.group_concurrency as usize;
        let has_room = job
            .new
            .group
            .as_deref()
            .is_none_or(|group| self.open_in_group(job.queue, group) < limit);
        if !has_room {
            return;
        }
        let job = self.job_mut(id).expect("it was just looked up");
        let is_due = job.was_due || job.due_at_ms.is_none_or(|due| due <= now_ms);
        job.state = if is_due { State::Ready } else { State::Delayed };
    }

    /// The group's oldest blocked jobs take the places that are free.
    pub(crate) fn place_is_free(&mut self, queue: usize, group: Option<&str>) {
        let Some(group) = group else { return };
        let limit = self.queues[queue].rules.group_concurrency as usize;
        while self.open_in_group(queue, group) < limit {
            let is_next = |job: &&Job| {
                job.queue == queue
                    && job.new.group.as_deref() == Some(group)
                    && job.state == State::Blocked
            };
            let Some(next) = self.jobs.iter().filter(is_next).map(|job| job.id).min() else {
                return;
            };
            self.let_in(next);
        }
    }

    /// Whether the claim still holds, and if not, why: what became of this very
    /// claim, as long as the job is there to tell.
    pub fn check(&self, token: Token) -> Result<(), Lost> {
        let Some(job) = self.job(token.job) else {
            // How often it was claimed is gone with it.
            let was_there = token.claim > 0 && (1..=self.last_id).contains(&token.job);
            return Err(if was_there { Lost::Settled } else { Lost::NeverGiven });
        };
        if token.claim == 0 || token.claim > job.claims {
            return Err(Lost::NeverGiven);
        }
        if job.state == State::Leased && job.claims == token.claim {
            let is_over = job.due_at_ms.is_none_or(|end| end <= self.now_ms);
            return if is_over { Err(Lost::Expired) } else { Ok(()) };
        }
        let ended = self.history.iter().find(|(claim, _)| *claim == token);
        Err(match ended.map(|(_, outcome)| *outcome) {
            Some(Outcome::Retried | Outcome::Released) => Lost::GivenBack,
            Some(Outcome::Expired) if job.claims > token.claim => Lost::ClaimedAgain,
            Some(Outcome::Expired) if !job.state.has_ended() => Lost::Expired,
            _ => Lost::Settled,
        })
    }

    /// Done, with what came of it.
    pub fn ack(&mut self, token: Token, result: Option<String>) -> Result<(), Lost> {
        self.check(token)?;
        let now_ms = self.now_ms;
        let keep_ms = self.rules_of(token.job).keep_done_ms;
        let job = self.job_mut(token.job).expect("it is leased");
        job.state = State::Done;
        job.result = result;
        (job.began_at_ms, job.due_at_ms) = (now_ms, Some(now_ms + keep_ms));
        self.after_its_end(token.job);
        if keep_ms == 0 {
            self.forget(token.job);
        }
        Ok(())
    }

    /// It did not work, this time.
    pub fn nack(
        &mut self,
        token: Token,
        error: Option<&str>,
        delay_ms: Option<i64>,
    ) -> Result<Retry, Lost> {
        self.check(token)?;
        let rules = self.rules_of(token.job).clone();
        let now_ms = self.now_ms;
        let job = self.job_mut(token.job).expect("it is leased");
        let attempts = job.attempts();
        if let Some(error) = error {
            job.error = Some(error.to_owned());
        }
        if attempts >= job.new.attempts_max.unwrap_or(rules.attempts_max) {
            self.history.push((token, Outcome::Failed));
            self.bury(token.job);
            return Ok(Retry::Dead);
        }
        let (low_ms, high_ms) =
            delay_ms.map_or_else(|| backoff_ms(&rules, attempts), |delay| (delay, delay));
        // Until the queue says when: the last moment that it may choose.
        if !self.came_back(token, Outcome::Retried, now_ms + high_ms) {
            return Ok(Retry::Dead);
        }
        Ok(Retry::Between(now_ms + low_ms, now_ms + high_ms))
    }

    /// When exactly the job comes again, within what `nack` allowed. It takes a place of its group
    /// in its turn.
    pub fn retries_at(&mut self, id: i64, due_at_ms: Millis) {
        let now_ms = self.now_ms;
        let job = self.job_mut(id).expect("it was given back");
        (job.due_at_ms, job.began_at_ms, job.state) = (Some(due_at_ms), now_ms, State::Delayed);
        let (queue, group) = (job.queue, job.new.group.clone());
        self.block(id);
        match group {
            Some(group) => self.place_is_free(queue, Some(&group)),
            None => self.let_in(id),
        }
    }

    /// It will never work.
    pub fn fail(&mut self, token: Token, reason: &str) -> Result<(), Lost> {
        self.check(token)?;
        self.job_mut(token.job).expect("it is leased").error = Some(reason.to_owned());
        self.history.push((token, Outcome::Failed));
        self.bury(token.job);
        Ok(())
    }

    /// Not now, and not by me.
    pub fn release(&mut self, token: Token) -> Result<(), Lost> {
        self.check(token)?;
        let now_ms = self.now_ms;
        self.job_mut(token.job).expect("it is leased").releases += 1;
        self.came_back(token, Outcome::Released, now_ms);
        Ok(())
    }

    /// The claim has ended, and the job waits again; or it is dead, if it has expired meanwhile.
    pub(crate) fn came_back(&mut self, token: Token, outcome: Outcome, due_at_ms: Millis) -> bool {
        self.history.push((token, outcome));
        let now_ms = self.now_ms;
        let job = self.job(token.job).expect("it was just looked up");
        if job.new.expires_at_ms.is_some_and(|end| end <= now_ms) {
            self.expired(token.job);
            return false;
        }
        self.retries_at(token.job, due_at_ms);
        self.waits_again(token.job);
        true
    }

    /// If its key was free meanwhile, it takes it back, unless another has it by now.
    fn waits_again(&mut self, id: i64) {
        let job = self.job(id).expect("it was just looked up");
        let (queue, unique) = (job.queue, job.new.unique.clone());
        if let Some(unique) = unique.filter(|unique| unique.scope != Scope::Time) {
            self.take_key(queue, id, &unique);
        }
    }

    fn take_key(&mut self, queue: usize, job: i64, unique: &Unique) {
        if self.holder(queue, &unique.key).is_some() {
            return;
        }
        let Unique { key, scope, held_ms } = unique.clone();
        let until_ms = held_ms.map(|held_ms| self.now_ms + held_ms);
        self.keys.retain(|held| held.queue != queue || held.text != key);
        self.keys.push(Key { queue, text: key, job, scope, held_ms, until_ms });
    }

    /// The lease goes on until then.
    pub fn extend(&mut self, token: Token, lease_ms: i64) -> Result<Millis, Lost> {
        self.check(token)?;
        let now_ms = self.now_ms;
        let until_ms = now_ms + lease_ms;
        let job = self.job_mut(token.job).expect("it is leased");
        job.due_at_ms = Some(until_ms);
        job.lease_ms = lease_ms;
        Ok(until_ms)
    }

    pub(crate) fn rules_of(&self, id: i64) -> &Rules {
        let job = self.job(id).expect("it was just looked up");
        &self.queues[job.queue].rules
    }

    /// To the dead letters.
    pub(crate) fn bury(&mut self, id: i64) {
        let keep_ms = self.rules_of(id).keep_dead_ms;
        let now_ms = self.now_ms;
        let purge_at_ms = keep_ms.map(|keep| now_ms + keep);
        let job = self.job_mut(id).expect("it was just looked up");
        job.state = State::Dead;
        job.due_at_ms = purge_at_ms;
        job.began_at_ms = now_ms;
        self.after_its_end(id);
    }

    /// Its key and its place in the group are free; a key for a time is not.
    fn after_its_end(&mut self, id: i64) {
        let job = self.job(id).expect("it was just looked up");
        let (queue, group) = (job.queue, job.new.group.clone());
        self.keys.retain(|held| held.job != id || held.scope == Scope::Time);
        self.place_is_free(queue, group.as_deref());
    }

    pub(crate) fn forget(&mut self, id: i64) {
        self.jobs.retain(|job| job.id != id);
        self.history.retain(|(token, _)| token.job != id);
    }

    /// A dead one is pushed anew. False: there is no dead job of that id.
    pub fn retry(&mut self, queue: usize, id: i64) -> bool {
        let now_ms = self.now_ms;
        let dead = self.job_mut(id).filter(|job| job.queue == queue && job.state == State::Dead);
        let Some(job) = dead else { return false };
        job.releases = job.claims;
        job.due_at_ms = Some(now_ms);
        job.new.expires_at_ms = job.new.expires_at_ms.filter(|end| *end > now_ms);
        let key = job.new.unique.as_ref().map(|unique| unique.key.clone());
        self.block(id);
        self.let_in(id);
        if let Some(key) = key {
            self.end_holder_if_over(queue, &key);
            self.measure_key_from_now(queue, &key);
        }
        self.waits_again(id);
        true
    }

    /// Gone, whatever it is doing. False: it was not there.
    pub fn remove(&mut self, queue: usize, id: i64) -> bool {
        let Some(job) = self.job_mut(id).filter(|job| job.queue == queue) else { return false };
        if !job.state.has_ended() {
            job.state = State::Dead;
            self.after_its_end(id);
        }
        self.forget(id);
        true
    }

    /// All that are in this state now are gone. How many it was.
    pub fn purge(&mut self, queue: usize, state: State) -> u64 {
        let is_meant = |job: &&Job| job.queue == queue && job.state == state;
        let ids: Vec<i64> = self.jobs.iter().filter(is_meant).map(|job| job.id).collect();
        ids.iter().filter(|id| self.remove(queue, **id)).count() as u64
    }

    /// A group that may now have more open jobs has them, and one that may have fewer gives up the
    /// last that wait. Jobs that have ended are kept as long as the rules say now.
    pub(crate) fn rules_changed(&mut self, queue: usize) {
        let Rules { keep_done_ms, keep_dead_ms, group_concurrency, .. } = self.queues[queue].rules;
        let of_queue = |job: &&mut Job| job.queue == queue && job.state.has_ended();
        for job in self.jobs.iter_mut().filter(of_queue) {
            let keep_ms = if job.state == State::Done { Some(keep_done_ms) } else { keep_dead_ms };
            job.due_at_ms = keep_ms.map(|keep| job.began_at_ms + keep);
        }
        let groups: Vec<String> =
            self.jobs.iter().filter_map(|job| job.new.group.clone()).collect();
        for group in groups {
            self.place_is_free(queue, Some(&group));
            let is_it = |job: &&Job| {
                job.queue == queue
                    && job.new.group.as_deref() == Some(&group)
                    && job.state.is_open()
            };
            let mut open: Vec<_> = self.jobs.iter().filter(is_it).collect();
            open.sort_by_key(|job| (job.state != State::Leased, job.id));
            let behind = open.iter().skip(group_concurrency as usize);
            let behind = behind.filter(|job| job.state != State::Leased);
            for id in behind.map(|job| job.id).collect::<Vec<_>>() {
                self.block(id);
            }
        }
    }
}

/// How long a job waits after so many attempts: the least and the most.
pub fn backoff_ms(rules: &Rules, attempts: u32) -> (i64, i64) {
    let grown = rules.backoff_first_ms as f64
        * rules.backoff_factor.powi(attempts.saturating_sub(1) as i32);
    let middle = grown.min(rules.backoff_max_ms as f64);
    let low = (middle * (1.0 - rules.jitter)).floor();
    let high = (middle * (1.0 + rules.jitter)).ceil();
    (low as i64, high as i64)
}

impl Model {
    pub fn last_id(&self) -> i64 {
        self.last_id
    }

    /// What breaks the invariants above. `open_max` is the most that each queue
    /// has ever allowed of a group.
    pub fn broken(&self, open_max: &[u32]) -> Vec<String> {
        let mut broken = Vec::new();
        if self.jobs.windows(2).any(|two| two[0].id >= two[1].id) {
            broken.push("ids do not ascend".to_owned());
        }
        for job in &self.jobs {
            let Some(group) = &job.new.group else {
                broken.extend(
                    (job.state == State::Blocked).then(|| format!("#{} is blocked", job.id)),
                );
                continue;
            };
            let open = self.open_in_group(job.queue, group);
            let limit = self.queues[job.queue].rules.group_concurrency as usize;
            if open > open_max[job.queue] as usize {
                broken.push(format!("{open} of {group} are open"));
            }
            if job.state == State::Blocked && open < limit {
                broken.push(format!("#{} is blocked, with {open} of {group} open", job.id));
            }
        }
        for held in self.keys.iter().filter(|held| held.scope != Scope::Time) {
            let holder = self.job(held.job);
            if holder.is_none_or(|job| job.state.has_ended()) {
                broken.push(format!("{} is held by #{}, which has ended", held.text, held.job));
            }
            let is_twice =
                self.keys.iter().filter(|key| (key.queue, &key.text) == (held.queue, &held.text));
            broken.extend((is_twice.count() > 1).then(|| format!("{} is held twice", held.text)));
        }
        broken
    }
}
